// Package workpool runs functions in goroutines that are kept for the next ones. A goroutine that has run one
// has a stack that has grown by then, and growing it again costs more than the goroutine itself.
package workpool

import "sync/atomic"

// Pool is a set of goroutines. There is no limit to how many run at a time, only to how many are kept while
// they have nothing to do.
type Pool struct {
	done    <-chan struct{}
	idle    chan func()
	maxIdle int64
	kept    atomic.Int64
}

// New returns a pool whose goroutines end when done is closed, and that keeps at most maxIdle of them.
func New(done <-chan struct{}, maxIdle int) *Pool {
	return &Pool{done: done, idle: make(chan func()), maxIdle: int64(maxIdle)}
}

// Do runs a function in a goroutine that has nothing to do, or in a new one. It does not wait for it.
func (p *Pool) Do(run func()) {
	select {
	case p.idle <- run:
	default:
		go p.work(run)
	}
}

// work runs a function, and then those that come while the goroutine is kept.
func (p *Pool) work(run func()) {
	for run != nil {
		run()
		run = p.next()
	}
}

// next waits for a function. It returns nil if the goroutine is not needed any more.
func (p *Pool) next() func() {
	defer p.kept.Add(-1)
	if p.kept.Add(1) > p.maxIdle {
		return nil
	}
	select {
	case run := <-p.idle:
		return run
	case <-p.done:
		return nil
	}
}
