package pebblestore

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Raw writes what a store writes, straight to Pebble: each caller its own batch and
// its own sync. It checks nothing and has no caches. The benchmark compares the store with
// it, to show what the store itself costs and what its group commit saves.
type Raw struct {
	db    *pebble.DB
	clock base.System
	seq   atomic.Uint64

	mu        sync.Mutex
	instances map[int]*rawInstance
}

// rawInstance is what was written for an instance. One goroutine at a time writes to it.
type rawInstance struct {
	log, record uint64 // their numbers
	partition   uint32
	pending     pos    // position of its message
	id          string // of the message
}

// OpenRaw opens a database with the settings of a store.
func OpenRaw(dir string) (*Raw, error) {
	s := newStore(dir, Options{fs: vfs.Default})
	db, err := pebble.Open(dir, pebbleOptions(Options{}, s))
	if err != nil {
		return nil, fmt.Errorf("pebblestore: open %s: %w", dir, err)
	}
	return &Raw{db: db, instances: map[int]*rawInstance{}}, nil
}

// Turn writes one turn of an instance and returns when it is synced. Of tx it takes
// the append, the record and the message; the message of the turn before is deleted.
func (r *Raw) Turn(instance int, tx *store.Tx) error {
	log, m, rec := &tx.Append[0], &tx.Put[0], &tx.PutRecords[0].Record
	r.mu.Lock()
	in := r.instances[instance]
	if in == nil {
		in = &rawInstance{log: r.seq.Add(1), record: r.seq.Add(1), partition: uint32(instance%4) + 1, id: "0"}
		r.instances[instance] = in
	}
	r.mu.Unlock()

	b := r.db.NewBatch()
	defer b.Close() //nolint:errcheck // it was committed, or its error was returned
	var k, v [2048]byte
	ops := []error{
		b.Delete(msgKey(k[:0], in.partition, in.pending), nil),
		b.Delete(pendingKey(k[:0], log.Key, in.id), nil),
		b.Set(logKey(k[:0], in.log, log.At), appendEntries(v[:0], log.Entries), nil),
	}
	p := pos{due: r.clock.Now().UnixMilli(), seq: r.seq.Add(1)}
	d := msgData{putMS: p.due, body: m.Body}
	ops = append(ops,
		b.Set(msgKey(k[:0], in.partition, p), appendMsg(v[:0], m.Key.Name, m.ID, &d), nil),
		b.Set(pendingKey(k[:0], m.Key, m.ID), appendPending(v[:0], in.partition, p), nil),
		b.Set(recordKey(k[:0], in.record), appendRecord(v[:0], rec, int64(log.At), rec.Time.UnixMilli()), nil),
	)
	for _, err := range ops {
		if err != nil {
			return fmt.Errorf("pebblestore: raw turn: %w", err)
		}
	}
	in.pending, in.id = p, m.ID
	if err := b.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("pebblestore: raw turn: %w", err)
	}
	return nil
}

// Close closes the database.
func (r *Raw) Close() error { return r.db.Close() }
