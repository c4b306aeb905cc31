package engine

import (
	"container/list"
	"context"
	"sync"

	"github.com/abidehq/abide/store"
)

// instance is what a process knows of an instance, between two turns or during one. It has no lock: it
// is in the cache or belongs to one turn, and taking it out of the cache is what gives it to a turn.
//
// info, ledger and exec are three views of the same history: the record as it was last put, what is
// open without running code, and the code itself. All three are those of the log at length. A turn
// changes them as it goes, before its commit; so after a commit that failed, or of which the outcome
// is unknown, the whole instance is thrown away and read again.
type instance struct {
	info Info

	// length and tag are those of the log. A negative length is unknown: a control request has no
	// claim that brings it along.
	length int
	tag    uint64

	// ledger is valid if loaded is true.
	ledger ledger
	loaded bool

	// exec is nil until the code is needed, and after closers.end.
	exec Execution

	// holder is the engine whose siblings know that it has the instance. It is guarded by siblings.mu.
	holder *Engine
}

// cache keeps the most recently used instances that wait. The package comment says when one is thrown
// away. A turn takes its instance out and puts it back, so an instance that is in use is not in the
// cache and cannot be evicted.
//
// Whether a cached instance is current is not decided here but by the turn that takes it (find): only
// the claim knows how long the log is. A stale one may stay for long, as long as other processes take
// the turns of the instance; it is found then, or evicted.
//
// mu is held for map and list operations only. close is called without it, as it may run deferred
// functions of users' code.
type cache struct {
	// close is called for each instance that is evicted or refused, and hold, if it is not nil, before
	// one is kept.
	close func(*instance)
	hold  func(store.Key, *instance)

	mu    sync.Mutex
	size  int // at most so many are kept
	byKey map[store.Key]*list.Element
	order list.List // of cached, the most recently used first
	ended bool      // the engine closes: nothing is kept any more

	// expected has the instances that a turn holds and will put back: the turn is being committed,
	// and the next one may be claimed before it has returned. A turn that waits for one makes its
	// channel.
	expected map[store.Key]chan struct{}
}

type cached struct {
	key store.Key
	in  *instance
}

func newCache(size int, end func(*instance)) *cache {
	return &cache{size: size, close: end, byKey: map[store.Key]*list.Element{}, expected: map[store.Key]chan struct{}{}}
}

// expectReturn announces that a turn holds the instance and will put it back, or not at all. Each
// call is followed by one of returned.
func (c *cache) expectReturn(key store.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, already := c.expected[key]; !already { // keep the channel of those that wait
		c.expected[key] = nil
	}
}

// returned ends expectReturn: the instance was put back before, or will not be. Waiters look into
// the cache now.
func (c *cache) returned(key store.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting := c.expected[key]; waiting != nil {
		close(waiting)
	}
	delete(c.expected, key)
}

// await waits until the instance is not about to be put back, or ctx has ended. The lock is
// held.
func (c *cache) await(ctx context.Context, key store.Key) {
	for {
		landed, flying := c.expected[key]
		if !flying {
			return
		}
		if landed == nil {
			landed = make(chan struct{})
			c.expected[key] = landed
		}
		c.mu.Unlock()
		select {
		case <-landed:
			c.mu.Lock()
		case <-ctx.Done():
			c.mu.Lock()
			return
		}
	}
}

// take returns the instance, or nil, and removes it.
func (c *cache) take(ctx context.Context, key store.Key) *instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.await(ctx, key)
	el := c.byKey[key]
	if el == nil {
		return nil
	}
	delete(c.byKey, key)
	return c.order.Remove(el).(cached).in
}

// peek returns the state of the instance, if it is in the cache.
func (c *cache) peek(key store.Key) (Info, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byKey[key]
	if el == nil {
		return Info{}, false
	}
	return el.Value.(cached).in.info, true
}

// put keeps the instance, and lets the least recently used one go.
func (c *cache) put(key store.Key, in *instance) {
	if in.exec == nil {
		return
	}
	if c.hold != nil {
		c.hold(key, in)
	}
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		c.close(in)
		return
	}
	var gone []*instance
	if el := c.byKey[key]; el != nil {
		gone = append(gone, c.order.Remove(el).(cached).in)
	}
	c.byKey[key] = c.order.PushFront(cached{key, in})
	for c.order.Len() > c.size {
		last := c.order.Remove(c.order.Back()).(cached)
		delete(c.byKey, last.key)
		gone = append(gone, last.in)
	}
	c.mu.Unlock()
	for _, in := range gone {
		c.close(in)
	}
}

// len returns how many instances are kept.
func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.Len()
}

// end lets all go, and keeps nothing any more.
func (c *cache) end() {
	c.mu.Lock()
	c.ended = true
	var gone []*instance
	for el := c.order.Front(); el != nil; el = el.Next() {
		gone = append(gone, el.Value.(cached).in)
	}
	c.order.Init()
	clear(c.byKey)
	c.mu.Unlock()
	for _, in := range gone {
		c.close(in)
	}
}
