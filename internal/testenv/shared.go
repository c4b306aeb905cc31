//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// The servers that tests of a process share.
var (
	sharedRedis = &shared[*redis]{
		open: func() (*redis, error) {
			dir, err := newFolder("redis", nil)
			if err != nil {
				return nil, err
			}
			r := &redis{dir: dir.path}
			atEnd(func() error { return errors.Join(r.kill(), dir.remove()) })
			return r, r.open()
		},
	}
	sharedRedisCluster = &shared[*redisCluster]{
		open: func() (*redisCluster, error) {
			dir, err := newFolder("rediscluster", nil)
			if err != nil {
				return nil, err
			}
			c := &redisCluster{nodeTimeout: PatientNodeTimeout}
			atEnd(func() error { return errors.Join(c.kill(), dir.remove()) })
			return c, c.open(dir.path)
		},
	}
	sharedPostgres = &shared[*postgres]{
		open: func() (*postgres, error) {
			p := &postgres{}
			atEnd(p.close)
			return p, p.open()
		},
	}
)

// shared is something that is made for the first test that asks.
type shared[T any] struct {
	open func() (T, error)
	once sync.Once
	what T
	err  error
}

// get returns it. Without [Main] nobody would end it, so that is an error.
func (s *shared[T]) get() (T, error) {
	if !haveMain.Load() {
		var none T
		return none, fmt.Errorf("what tests share needs an end: call testenv.Main in TestMain")
	}
	s.once.Do(func() { s.what, s.err = s.open() })
	return s.what, s.err
}

var (
	// haveMain: Main runs the tests, and ends what they share.
	haveMain atomic.Bool

	// ends is what Main has to end, in the order in which it began.
	endsMu sync.Mutex
	ends   []func() error
)

// atEnd has Main do something when the tests have ended.
func atEnd(end func() error) {
	endsMu.Lock()
	defer endsMu.Unlock()
	ends = append(ends, end)
}

// Main runs the tests of a package and ends what they share. A package that uses
// [SharedPostgres], [SharedRedis] or [SharedRedisCluster] has it as its TestMain:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// With it, servers that a test has for itself start faster too, because their data is
// prepared once.
func Main(m *testing.M) {
	haveMain.Store(true)
	code := m.Run()
	if err := endShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// endShared ends what is shared, the latest first.
func endShared() error {
	endsMu.Lock()
	defer endsMu.Unlock()
	var errs []error
	for _, end := range slices.Backward(ends) {
		errs = append(errs, end())
	}
	ends = nil
	return errors.Join(errs...)
}
