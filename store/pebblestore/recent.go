package pebblestore

import (
	"hash/maphash"
	"math"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// recent tells which keys and records may be in a memtable of Pebble. Any other key is in
// tables or does not exist, so the memtables need not be searched for it. That
// search is most of the cost of a commit to a new key, and most keys are new: tables have
// filters, and memtables have none.
//
// It is a list of Bloom filters: it may report a key that was not written, and never
// misses one that was. Each filter covers the commits between two flushes, and knows the
// sequence number of the last batch that it covers. Pebble flushes memtables in the order
// of their sequence numbers and never splits a batch, so once a table holds that number or
// a greater one, all that the filter covers is in tables, and the filter is dropped. How
// many memtables wait to be flushed, and how large they are, does not matter.
//
// Filters are guarded by the store's lock; flushEnd is called by Pebble at any time.
type recent struct {
	seed    maphash.Seed
	flushed atomic.Uint64 // the greatest sequence number that a flush has written
	filters []*filter     // the oldest first; the last one is being filled

	// oldMemtables: memtables may hold what was written before the store was opened, of which
	// the filters know nothing. Until the first batch since then is flushed, every key may be
	// in one.
	oldMemtables bool
	first        uint64 // sequence number of the first batch since then; 0 if there was none
}

// filter is a Bloom filter.
//
// begun and seq bound what it covers: batches after the flush that begun names,
// up to seq. It can be dropped when flushed has reached seq.
type filter struct {
	begun uint64 // recent.flushed when it was begun
	seq   uint64 // sequence number of the last batch that it covers
	bits  [filterBits / 64]uint64
}

const (
	// filterBits is enough for what a memtable holds: of half a million keys, it takes
	// less than one in a thousand for what it is not.
	filterBits   = 1 << 23
	filterProbes = 6
)

// unknownSeq is the sequence number of a batch whose number is not known. That of the
// next batch takes its place, which is greater.
const unknownSeq = math.MaxUint64

func newRecent() *recent {
	return &recent{seed: maphash.MakeSeed(), filters: []*filter{{}}}
}

// flushEnd notes a flush that has ended. Pebble calls it when reads of tables alone see
// what was flushed.
func (r *recent) flushEnd(info pebble.FlushInfo) {
	if info.Err != nil {
		return
	}
	for i := range info.Output {
		if seq := uint64(info.Output[i].LargestSeqNum); seq > r.flushed.Load() { // Pebble flushes one at a time
			r.flushed.Store(seq)
		}
	}
}

// addKey notes that the batch with a sequence number may have changed the key. Keys that a Tx
// has only pinned are noted too.
func (r *recent) addKey(key store.Key, seq uint64) { r.add(maphash.Comparable(r.seed, key), seq) }

// addRecord notes that the batch with a sequence number has changed the record.
func (r *recent) addRecord(key store.RecordKey, seq uint64) {
	r.add(maphash.Comparable(r.seed, key), seq)
}

// hasKey reports whether the key may be in a memtable.
func (r *recent) hasKey(key store.Key) bool { return r.has(maphash.Comparable(r.seed, key)) }

// hasRecord reports whether the record may be in a memtable.
func (r *recent) hasRecord(key store.RecordKey) bool { return r.has(maphash.Comparable(r.seed, key)) }

func (r *recent) add(hash, seq uint64) {
	f := r.current(seq)
	for i := range uint64(filterProbes) {
		bit := probe(hash, i)
		f.bits[bit/64] |= 1 << (bit % 64)
	}
}

func (r *recent) has(hash uint64) bool {
	flushed := r.flushed.Load()
	if r.oldMemtables && (r.first == 0 || flushed < r.first) {
		return true
	}
	for _, f := range r.filters {
		if f.seq > flushed && f.has(hash) {
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

// current returns the filter for a batch. If a flush has ended since the last filter was
// begun, it is a new one, and filters that cover only what is in tables are dropped.
//
// The number of a batch may be unknown (unknownSeq): then its filter is kept until the next
// batch with a known number, which is greater, and takes over that number as its bound. A
// bound that is too great only keeps a filter longer. An empty batch (0) wrote nothing.
//
// A batch is added here when it is acknowledged, which is after it was applied. That is not
// too late: until then its keys and records are pinned, so that none of them is read.
func (r *recent) current(seq uint64) *filter {
	flushed := r.flushed.Load()
	last := r.filters[len(r.filters)-1]
	if seq != 0 && seq != last.seq { // batches come in the order of their numbers
		for _, f := range r.filters {
			f.seq = min(f.seq, seq)
		}
		if r.first == 0 || r.first > seq {
			r.first = seq
		}
	}
	if last.begun == flushed {
		last.seq = max(last.seq, seq)
		return last
	}
	var free *filter
	for len(r.filters) > 0 && r.filters[0].seq <= flushed {
		free, r.filters = r.filters[0], r.filters[1:]
	}
	if free == nil {
		free = &filter{}
	} else {
		clear(free.bits[:])
	}
	free.begun, free.seq = flushed, seq
	r.filters = append(r.filters, free)
	return free
}
