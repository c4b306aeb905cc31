package pebblestore

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// recent knows which keys and records were written lately: what it does not know has
// not changed since Pebble wrote its tables, and need not be looked for in what Pebble
// still has in memory. To find nothing there is what a commit to a new key spends most
// of its time on, and most keys are new.
//
// It may say that something was written which was not, and never the other way round:
// it is a line of Bloom filters, one for each time between two flushes. A filter is
// dropped when everything in it is in tables for sure. All but flushed is under the
// store's lock.
type recent struct {
	seed    maphash.Seed
	flushes atomic.Int64 // that have ended since the store was opened
	filters []*filter    // the oldest first; the last one is being filled
	blind   bool         // it does not know what was written before the store was opened
}

// filter is a Bloom filter.
type filter struct {
	closed int64 // how many flushes had ended when it was closed
	bits   [filterBits / 64]uint64
}

const (
	// filterBits is enough for what a memtable holds: of half a million keys, it takes
	// less than one in a thousand for what it is not.
	filterBits   = 1 << 23
	filterProbes = 6

	// flushesKept is after how many flushes a filter is dropped. What was written before
	// it was closed was in one of the memtables that there were then, at most two for
	// each that may wait, and each flush writes at least one of them, the oldest. One more
	// may have ended and not been heard of yet.
	flushesKept = 2*memTables + 2
)

func newRecent() *recent {
	return &recent{seed: maphash.MakeSeed(), filters: []*filter{{}}}
}

// flushed counts a flush that has ended. Pebble calls it.
func (r *recent) flushed(info pebble.FlushInfo) {
	if info.Err == nil {
		r.flushes.Add(1)
	}
}

// addKey notes that a group with changes of the key was applied.
func (r *recent) addKey(key store.Key) { r.add(maphash.Comparable(r.seed, key)) }

// addRecord notes that a group with changes of the record was applied.
func (r *recent) addRecord(key store.RecordKey) { r.add(maphash.Comparable(r.seed, key)) }

// hasKey reports whether the key may have been written lately.
func (r *recent) hasKey(key store.Key) bool { return r.has(maphash.Comparable(r.seed, key)) }

// hasRecord reports whether the record may have been written lately.
func (r *recent) hasRecord(key store.RecordKey) bool { return r.has(maphash.Comparable(r.seed, key)) }

func (r *recent) add(hash uint64) {
	f := r.current()
	for i := range uint64(filterProbes) {
		bit := probe(hash, i)
		f.bits[bit/64] |= 1 << (bit % 64)
	}
}

func (r *recent) has(hash uint64) bool {
	if r.blind && r.flushes.Load() < flushesKept {
		return true
	}
	for _, f := range r.filters {
		if f.has(hash) {
			return true
		}
	}
	return false
}

func (f *filter) has(hash uint64) bool {
	for i := range uint64(filterProbes) {
		if bit := probe(hash, i); f.bits[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// probe returns the i-th bit of a hash.
func probe(hash, i uint64) uint64 {
	return (hash + i*(hash>>32|1)) % filterBits
}

// current returns the filter to add to. If a flush has ended since the last time, it is
// a new one.
func (r *recent) current() *filter {
	flushes := r.flushes.Load()
	last := r.filters[len(r.filters)-1]
	if last.closed == flushes { // a filter that is open has the number of when it was begun
		return last
	}
	last.closed = flushes
	var free *filter
	for len(r.filters) > 1 && flushes-r.filters[0].closed >= flushesKept {
		free, r.filters = r.filters[0], r.filters[1:]
	}
	if free == nil {
		free = &filter{}
	} else {
		clear(free.bits[:])
	}
	free.closed = flushes
	r.filters = append(r.filters, free)
	return free
}
