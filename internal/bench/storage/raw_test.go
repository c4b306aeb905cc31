package storage

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
	"github.com/abidehq/abide/store"
)

// fakeRaw is an engine that checks how it is driven.
type fakeRaw struct {
	t   *testing.T
	dir string

	mu     sync.Mutex
	next   map[int]int
	turns  int
	closed bool
	fail   error
}

func (f *fakeRaw) Turn(instance int, tx *store.Tx) error {
	turn := tx.Append[0].At / entriesPerTurn
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next[instance] != turn {
		f.t.Errorf("instance %d has turn %d, want %d", instance, turn, f.next[instance])
	}
	f.next[instance]++
	f.turns++
	return f.fail
}

func (f *fakeRaw) Close() error {
	f.closed = true
	return nil
}

// openFake has the engine of an embedded store be opened by open, for the time of the test.
func openFake(t *testing.T, open func(dir string) (rawDB, error)) (storeURL, parent string) {
	t.Helper()
	parent = t.TempDir()
	before := rawEngines["pebble"]
	t.Cleanup(func() { rawEngines["pebble"] = before })
	rawEngines["pebble"] = open
	return "pebble://" + filepath.Join(parent, "store"), parent
}

func TestRaw(t *testing.T) {
	fake := &fakeRaw{t: t, next: map[int]int{}}
	storeURL, parent := openFake(t, func(dir string) (rawDB, error) {
		fake.dir = dir
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
		return fake, nil
	})
	got := run(t, storeURL, "--raw --rounds 3")
	benchtest.Keys(t, got, describeKeys, commitKeys, claimKeys, rawKeys, []string{"store_mib"})
	benchtest.Want(t, got, map[string]any{"commits": 100.0, "raw_commits": 100.0, "rounds": 3.0})
	benchtest.Positive(t, got, "raw_commits_per_s", "cpu_ratio", "cpu_ratio_median", "throughput_ratio", "throughput_ratio_median")
	for _, name := range []string{"cpu_ratio_rounds", "throughput_ratio_rounds"} {
		if rounds, ok := got[name].([]any); !ok || len(rounds) != 3 {
			t.Errorf("%s is %v, want three numbers", name, got[name])
		}
	}
	if fake.turns != 100 || len(fake.next) > 10 {
		t.Errorf("%d raw turns of %d instances, want 100 of at most 10", fake.turns, len(fake.next))
	}
	if filepath.Dir(fake.dir) != parent {
		t.Errorf("the engine was in %s, want a folder in %s", fake.dir, parent)
	}
	if _, err := os.Stat(fake.dir); !fake.closed || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("closed is %t, and its folder is left: %v", fake.closed, err)
	}
}

func TestRawFails(t *testing.T) {
	broken := errors.New("the disk is gone")
	for name, open := range map[string]func(string) (rawDB, error){
		"open":   func(string) (rawDB, error) { return nil, broken },
		"commit": func(string) (rawDB, error) { return &fakeRaw{t: t, next: map[int]int{}, fail: broken}, nil },
	} {
		storeURL, parent := openFake(t, open)
		if _, err := benchtest.Try(t, Spec(), bench.Config{URL: storeURL}, small+"--raw"); !errors.Is(err, broken) {
			t.Errorf("an engine that fails to %s: %v", name, err)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) != 1 { // the store
			t.Errorf("beside the store there is %v, %v", left, err)
		}
	}
}
