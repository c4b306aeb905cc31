package pebblestore

// cache keeps values that are in use, and a bounded number of those that were used
// last. A value is in use while it is pinned.
//
// Pins are counted. Who pins what, and for how long:
//
//	a group in flight    the keys, records and partitions it changes
//	a lease              its key
//	a ready key          itself, while it is in the heap of its partition
//	a message in the     its key
//	window
//	a key that overflows itself
//	a partition with     itself
//	messages
//	an Await call        its record
//
// Values without pins are in a ring from the one used last to the one to forget
// first. A glance lets a reader work without the mutex: what it has read is
// still true if nothing that was in use since can have been forgotten.
type cache[K comparable, V any] struct {
	limit int // of values that are not in use
	byKey map[K]*cached[K, V]
	idle  cached[K, V] // a ring: next is the one used last, prev the one to forget first
	count int          // of the ring

	forgot func(V) // called when a value is no longer kept; may be nil

	idled   int // how often a value has become idle
	dropped int // how often one was forgotten before its turn
}

// cached is the part of a value that its cache needs.
type cached[K comparable, V any] struct {
	key        K
	value      V
	pins       int
	next, prev *cached[K, V] // not nil while the value is idle
}

// glance is when somebody looked at a cache.
type glance struct{ idled, dropped int }

func (c *cache[K, V]) glance() glance { return glance{c.idled, c.dropped} }

// remembers reports whether each value that was in use since a glance is still kept: so
// few have become idle since that none of them can have been forgotten.
func (c *cache[K, V]) remembers(m glance) bool {
	return c.dropped == m.dropped && c.idled-m.idled < c.limit
}

func newCache[K comparable, V any](limit int) *cache[K, V] {
	c := &cache[K, V]{limit: limit, byKey: map[K]*cached[K, V]{}}
	c.idle.next, c.idle.prev = &c.idle, &c.idle
	return c
}

// get returns what is kept for the key, or nil.
func (c *cache[K, V]) get(key K) *cached[K, V] { return c.byKey[key] }

// add keeps a value, pinned once.
func (c *cache[K, V]) add(key K, value V) *cached[K, V] {
	e := &cached[K, V]{key: key, value: value, pins: 1}
	c.byKey[key] = e
	return e
}

func (c *cache[K, V]) pin(e *cached[K, V]) {
	e.pins++
	if e.next != nil {
		c.unlink(e)
	}
}

func (c *cache[K, V]) unpin(e *cached[K, V]) {
	if e.pins--; e.pins > 0 || c.byKey[e.key] != e {
		return
	}
	e.next, e.prev = c.idle.next, &c.idle
	e.next.prev, e.prev.next = e, e
	c.idled++
	if c.count++; c.count > c.limit {
		c.drop(c.idle.prev)
	}
}

// forget drops a value that is not in use.
func (c *cache[K, V]) forget(e *cached[K, V]) {
	c.dropped++
	c.drop(e)
}

func (c *cache[K, V]) drop(e *cached[K, V]) {
	if e.next != nil {
		c.unlink(e)
	}
	delete(c.byKey, e.key)
	if c.forgot != nil {
		c.forgot(e.value)
	}
}

func (c *cache[K, V]) unlink(e *cached[K, V]) {
	e.next.prev, e.prev.next = e.prev, e.next
	e.next, e.prev = nil, nil
	c.count--
}
