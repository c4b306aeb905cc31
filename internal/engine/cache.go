package engine

import (
	"container/list"
	"sync"

	"github.com/abidehq/abide/store"
)

// instance is an instance that somebody works on, or that waits in the cache.
type instance struct {
	info   Info
	length int // of the log
	ledger ledger
	loaded bool      // the ledger is what the log says
	exec   Execution // nil until the code is needed
}

func (in *instance) close() {
	if in.exec != nil {
		in.exec.Close()
		in.exec = nil
	}
}

// cache keeps the code of instances that wait, the most recently used ones. Who works
// on an instance takes it out, so that nobody else has it.
type cache struct {
	mu    sync.Mutex
	size  int
	byKey map[store.Key]*list.Element
	order list.List // of cached, the most recently used first
}

type cached struct {
	key store.Key
	in  *instance
}

func newCache(size int) *cache {
	return &cache{size: size, byKey: map[store.Key]*list.Element{}}
}

// take returns the instance, or nil, and removes it.
func (c *cache) take(key store.Key) *instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byKey[key]
	if el == nil {
		return nil
	}
	delete(c.byKey, key)
	return c.order.Remove(el).(cached).in
}

// put keeps the instance, and lets the least recently used one go.
func (c *cache) put(key store.Key, in *instance) {
	if in.exec == nil {
		return
	}
	c.mu.Lock()
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
		in.close()
	}
}

// clear lets all go.
func (c *cache) clear() {
	c.mu.Lock()
	var gone []*instance
	for el := c.order.Front(); el != nil; el = el.Next() {
		gone = append(gone, el.Value.(cached).in)
	}
	c.order.Init()
	clear(c.byKey)
	c.mu.Unlock()
	for _, in := range gone {
		in.close()
	}
}
