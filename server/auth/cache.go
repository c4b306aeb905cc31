package auth

import (
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// cache is what a process knows of the records of one kind, for [CacheLife]. It also knows
// which do not exist, so that asking for one costs the same either way.
type cache[V any] struct {
	clock base.Clock

	mu      sync.Mutex
	entries map[string]cached[V]
	changes uint64 // how often something was dropped
}

type cached[V any] struct {
	value  V
	exists bool
	until  time.Time
}

func newCache[V any](clock base.Clock) *cache[V] {
	return &cache[V]{clock: clock, entries: map[string]cached[V]{}}
}

// get returns what is known of a key, or what load finds out. What was dropped while load
// was under way is not kept: it may be what there was before.
func (c *cache[V]) get(key string, load func() (V, bool, error)) (V, bool, error) {
	c.mu.Lock()
	e, ok := c.entries[key]
	changes := c.changes
	c.mu.Unlock()
	if ok && c.clock.Now().Before(e.until) {
		return e.value, e.exists, nil
	}
	until := c.clock.Now().Add(CacheLife)
	value, exists, err := load()
	if err != nil {
		return value, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == changes {
		c.makeRoom()
		c.entries[key] = cached[V]{value: value, exists: exists, until: until}
	}
	return value, exists, nil
}

// last returns what was last known of a key that exists, however long ago.
func (c *cache[V]) last(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[key]
	return e.value, e.exists
}

// drop forgets a key: its record has changed.
func (c *cache[V]) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	delete(c.entries, key)
}

// makeRoom removes an entry, any that comes first, if there are too many. It is read
// again when it is needed.
func (c *cache[V]) makeRoom() {
	if len(c.entries) < maxCached {
		return
	}
	for key := range c.entries {
		delete(c.entries, key)
		return
	}
}
