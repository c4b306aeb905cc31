package pebblestore

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// coldStore is a store that has nothing in memory and all on disk, where one read
// can be made to fail.
type coldStore struct {
	*house
	left atomic.Int64 // reads until the one that fails; none does while it is below 0
}

const (
	coldKeys = 12
	coldEach = 6
)

func newColdStore(t *testing.T) *coldStore {
	t.Helper()
	c := &coldStore{house: &house{t: t, clock: base.NewManual(start)}}
	c.limits = limits{window: 4, load: 2, refs: 4, body: 4, keys: 1, records: 1, journal: 1024}
	c.left.Store(-1)
	c.fs = errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileReadAt && c.left.Load() >= 0 && c.left.Add(-1) == 0 {
			c.left.Store(-1)
			return errorfs.ErrInjected
		}
		return nil
	}))
	s, err := Open(t.Context(), "data", Options{Clock: c.clock, Logger: quiet(), fs: c.fs, tune: cold, limits: &c.limits})
	if err != nil {
		t.Fatal(err)
	}
	c.Store = s
	c.fill()
	return c
}

// cold makes Pebble read from disk again what it has just read.
func cold(o *pebble.Options) {
	o.MemTableSize = 64 << 10
	o.CacheSize = 1
	o.DisableAutomaticCompactions = true
	for i := range o.Levels {
		o.Levels[i].BlockSize = 256
	}
}

// fill puts messages, logs and records, and moves the messages about, so that there
// are old values of them, which lie in locations of their own.
func (c *coldStore) fill() {
	c.t.Helper()
	for n := range coldEach {
		tx := &store.Tx{}
		for k := range coldKeys {
			m := message(k, n, start.Add(time.Hour))
			tx.Put = append(tx.Put, m)
			tx.Append = append(tx.Append, store.Append{Key: m.Key, At: n, Entries: [][]byte{m.Body}})
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: coldRecord(k), Body: m.Body}, Expect: int64(n)})
		}
		c.commit(tx)
	}
	for n := range coldEach {
		tx := &store.Tx{}
		for k := range coldKeys {
			m := message(k, n, time.Time{})
			tx.Retime = append(tx.Retime, store.Retime{Ref: m.Ref()})
		}
		c.commit(tx)
		c.clock.Advance(time.Millisecond)
	}
	if err := c.db.Flush(); err != nil {
		c.t.Fatal(err)
	}
}

func coldRecord(k int) store.RecordKey {
	return store.RecordKey{Kind: kind, ID: fmt.Sprint("record-", k)}
}

// TestReadErrors makes each read fail in turn, under each kind of call: the error is
// said to be one, and not that the store is corrupt, and the call works when it is
// made again.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	c := newColdStore(t)
	claim := func() error {
		claims, err := c.Claim(t.Context(), store.ClaimRequest{Queue: "turns", Routes: []string{"serve"}, Max: 5, MaxMessages: 3, Lease: time.Hour})
		if err != nil {
			return err
		}
		if len(claims) == 0 {
			return violates("nothing is ready, and everything is due")
		}
		for _, claim := range claims {
			if err := c.Release(t.Context(), store.Release{Lease: claim.Lease()}); err != nil {
				return err
			}
		}
		return nil
	}
	key := func(n int64) store.Key { return message(coldKeys-1-int(n)%coldKeys, 0, time.Time{}).Key } // the last are not in the window
	for _, call := range []struct {
		name string
		do   func(n int64) error
	}{
		{"refused commit", func(n int64) error {
			err := c.Commit(t.Context(), &store.Tx{Append: []store.Append{{Key: key(n), At: 99, Entries: [][]byte{{1}}}}})
			if errors.Is(err, store.ErrConflict) {
				return nil
			}
			return err
		}},
		{"get", func(n int64) error { _, err := c.Get(t.Context(), coldRecord(int(n)%coldKeys)); return err }},
		{"list", func(int64) error { _, err := c.List(t.Context(), store.Query{Kind: kind}); return err }},
		{"count", func(int64) error { return c.countsAll(store.Query{Kind: kind}) }},
		{"count by name", func(int64) error { return c.countsAll(store.Query{Kind: kind, Names: []string{""}}) }},
		{"read log", func(n int64) error { _, err := c.ReadLog(t.Context(), key(n), 1); return err }},
		{"pending", func(n int64) error { _, err := c.Pending(t.Context(), key(n), 0); return err }},
		{"stats", func(int64) error { _, err := c.Stats(t.Context()); return err }},
		{"claim", func(int64) error { return claim() }},
	} {
		failed := int64(0)
		for n := int64(1); ; n++ {
			c.left.Store(n)
			err := call.do(n)
			unused := c.left.Swap(-1) >= 0
			if _, violated := errors.AsType[violation](err); violated || errors.Is(err, store.ErrCorrupt) || (err != nil && !errors.Is(err, errorfs.ErrInjected)) {
				t.Fatalf("%s, with read %d failing: %v", call.name, n, err)
			}
			if err := call.do(n); err != nil {
				t.Fatalf("%s, after read %d has failed: %v", call.name, n, err)
			}
			if unused {
				break
			}
			failed++
		}
		if failed == 0 {
			t.Errorf("%s reads nothing", call.name)
		}
	}
	c.drainCold()
	c.close()
}

// countsAll checks that a count has all records, or fails.
func (c *coldStore) countsAll(q store.Query) error {
	n, err := c.Count(c.t.Context(), q, store.MaxCount)
	if err == nil && n != coldKeys {
		return violates("%d records are counted, want %d", n, coldKeys)
	}
	return err
}

// drainCold checks that nothing was lost on the way.
func (c *coldStore) drainCold() {
	c.t.Helper()
	seen := newOrder(c.t)
	for {
		claims := c.claim(coldKeys, 0)
		if len(claims) == 0 {
			break
		}
		seen.see(claims)
		c.finish(claims)
	}
	if seen.all != coldKeys*coldEach {
		c.t.Errorf("%d messages were delivered, want %d", seen.all, coldKeys*coldEach)
	}
}
