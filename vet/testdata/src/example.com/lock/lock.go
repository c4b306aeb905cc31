// Package lock has shared memory in orchestration code.
package lock

import (
	"sync"
	"sync/atomic"

	"github.com/abidehq/abide"
)

type state struct {
	mu   sync.Mutex
	rw   sync.RWMutex
	once sync.Once
	pool sync.Pool
	m    sync.Map
	n    atomic.Int64
	old  int64
}

var Count = abide.NewOrchestration("count", func(ctx abide.Context, s *state) (int, error) {
	s.mu.Lock() // want `sync.Mutex.Lock is for memory shared between goroutines, which run in any order: leave it out, .* use abide.Go and futures`
	s.mu.Unlock()
	s.rw.RLock() // want `sync.RWMutex.RLock is for memory`
	defer s.rw.RUnlock()
	s.once.Do(func() {})       // want `sync.Once.Do is for memory`
	_ = s.pool.Get()           // want `sync.Pool.Get is for memory`
	s.m.Store(1, 2)            // want `sync.Map.Store is for memory`
	s.n.Add(1)                 // want `atomic.Int64.Add is for memory`
	atomic.AddInt64(&s.old, 1) // want `atomic.AddInt64 is for memory`
	return 0, nil
})
