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
// Values without pins (idle ones) are in a list from the one used last to the one that is
// evicted first. A stamp lets a reader work without the mutex: what it has read is
// still true if nothing that was in use since can have been evicted.
//
// A cache is guarded by the store's mutex. A pin protects a value, not what the value
// says: the holder of the mutex changes it.
type cache[K comparable, V any] struct {
	limit int // of idle values
	byKey map[K]*cached[K, V]
	idle  cached[K, V] // head of the list: next is the one used last, prev the next to be evicted
	count int          // of idle values

	onEvict func(V) // called when a value is no longer kept; may be nil. It must not use the cache

	idled        int // how often a value has become idle, ever
	evictedEarly int // how often evict was called, ever
}

// cached is the part of a value that its cache needs.
type cached[K comparable, V any] struct {
	key        K
	value      V
	pins       int
	next, prev *cached[K, V] // not nil while the value is idle
}

// cacheStamp is a moment in the history of a cache.
type cacheStamp struct{ idled, dropped int }

func (c *cache[K, V]) stamp() cacheStamp { return cacheStamp{c.idled, c.evictedEarly} }

// retainedSince reports whether each value that was in use since a stamp is still kept: fewer
// values have become idle since than the cache keeps, so none of them was evicted.
func (c *cache[K, V]) retainedSince(m cacheStamp) bool {
	return c.evictedEarly == m.dropped && c.idled-m.idled < c.limit
}

func newCache[K comparable, V any](limit int) *cache[K, V] {
	c := &cache[K, V]{limit: limit, byKey: map[K]*cached[K, V]{}}
	c.idle.next, c.idle.prev = &c.idle, &c.idle
	return c
}

// get returns the entry of a key, or nil. It is not pinned.
func (c *cache[K, V]) get(key K) *cached[K, V] { return c.byKey[key] }

// add keeps a value, pinned once.
func (c *cache[K, V]) add(key K, value V) *cached[K, V] {
	e := &cached[K, V]{key: key, value: value, pins: 1}
	c.byKey[key] = e
	return e
}

// pin keeps a value until the matching unpin.
func (c *cache[K, V]) pin(e *cached[K, V]) {
	e.pins++
	if e.next != nil {
		c.unlink(e)
	}
}

// unpin ends a pin. The last one makes the value idle, and may evict another. An entry that is
// no longer in the cache stays out.
func (c *cache[K, V]) unpin(e *cached[K, V]) {
	if e.pins--; e.pins > 0 || c.byKey[e.key] != e {
		return
	}
	e.next, e.prev = c.idle.next, &c.idle
	e.next.prev, e.prev.next = e, e
	c.idled++
	if c.count++; c.count > c.limit {
		c.remove(c.idle.prev)
	}
}

// evict removes an idle value before its turn.
func (c *cache[K, V]) evict(e *cached[K, V]) {
	c.evictedEarly++
	c.remove(e)
}

// remove removes an idle value.
func (c *cache[K, V]) remove(e *cached[K, V]) {
	if e.next != nil {
		c.unlink(e)
	}
	delete(c.byKey, e.key)
	if c.onEvict != nil {
		c.onEvict(e.value)
	}
}

func (c *cache[K, V]) unlink(e *cached[K, V]) {
	e.next.prev, e.prev.next = e.prev, e.next
	e.next, e.prev = nil, nil
	c.count--
}
