package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// pausing is a context that calls a function each time it is asked whether it has
// ended. A count asks now and then, so this happens in its midst.
type pausing struct {
	context.Context //nolint:containedctx // it is one
	pause           func(n int) error
	n               int
}

// Err calls pause, with 0 when a call begins and 1 when it first asks on its way.
func (p *pausing) Err() error {
	n := p.n
	p.n++
	return p.pause(n)
}

// armedRecords is how many records the tests count: enough for a few pauses.
const armedRecords = 5 * countSteps / 2

// armedRecord returns a record with a number, of one of two tenants.
func armedRecord(i int) store.PutRecord {
	key := store.RecordKey{Kind: kind, Tenant: fmt.Sprint(i % 2), ID: fmt.Sprint(i)}
	return store.PutRecord{Record: store.Record{Key: key, Status: "armed", Time: start}}
}

// newArmedHouse opens a store with records to count.
func newArmedHouse(t *testing.T) *house {
	t.Helper()
	h := newHouse(t, defaultLimits)
	tx := &store.Tx{}
	for i := range armedRecords {
		tx.PutRecords = append(tx.PutRecords, armedRecord(i))
	}
	h.commit(tx)
	return h
}

func TestCommitsGoOnDuringACountAndAreNotCounted(t *testing.T) {
	t.Parallel()
	h := newArmedHouse(t)
	defer h.close()
	pauses := 0
	ctx := &pausing{Context: t.Context(), pause: func(n int) error {
		if n == 0 {
			return nil // it has not begun
		}
		pauses++
		late := armedRecord(armedRecords + 2*n + 1) // at the very end of the index
		return h.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{late}})
	}}
	q := store.Query{Kind: kind, Statuses: []string{"armed"}}
	within(t, func() string { return "a count with commits in its midst" }, func() {
		n, err := h.Count(ctx, q, store.MaxCount)
		if err != nil || n != armedRecords {
			t.Errorf("%d are counted, %v; want %d", n, err, armedRecords)
		}
	})
	if pauses < 2 {
		t.Errorf("there were %d pauses", pauses)
	}
	n, err := h.Count(t.Context(), q, store.MaxCount)
	if err != nil || n != armedRecords+pauses {
		t.Errorf("%d are counted afterwards, %v; want %d", n, err, armedRecords+pauses)
	}
}

func TestACountEndsInItsMidst(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]store.Query{
		"by the index":   {Kind: kind},
		"by the records": {Kind: kind, Names: []string{"nobody"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newArmedHouse(t)
			ctx := &pausing{Context: t.Context(), pause: func(n int) error {
				if n == 0 {
					return nil
				}
				return context.DeadlineExceeded
			}}
			if n, err := h.Count(ctx, q, store.MaxCount); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("its context has ended: %d, %v", n, err)
			}
			var closing sync.WaitGroup
			ctx = &pausing{Context: t.Context(), pause: func(n int) error {
				if n == 1 {
					closing.Go(h.close)
					<-h.closing
				}
				return nil
			}}
			within(t, func() string { return "closing in the midst of a count" }, func() {
				if n, err := h.Count(ctx, q, store.MaxCount); !errors.Is(err, store.ErrClosed) {
					t.Errorf("the store is closed: %d, %v", n, err)
				}
				closing.Wait()
			})
		})
	}
}

// TestACountWithASmallLimitLooksAtLittle counts how many keys it looks at: no more than
// it counts and one in the index that has none, however many tenants there are.
func TestACountWithASmallLimitLooksAtLittle(t *testing.T) {
	t.Parallel()
	h := newHouse(t, defaultLimits)
	defer h.close()
	tx := &store.Tx{}
	for i := range armedRecords {
		key := store.RecordKey{Kind: kind, Tenant: fmt.Sprintf("tenant-%06d", i), ID: "a"}
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: key, Status: "armed", Time: start}})
	}
	h.commit(tx)
	for _, q := range []store.Query{{Kind: kind}, {Kind: kind, Statuses: []string{"armed"}}, {Kind: kind, From: start}} {
		c := counter{store: h.Store, limit: 10}
		var err error
		if c.scan, err = h.scan(&q); err != nil {
			t.Fatal(err)
		}
		err = c.count(t.Context())
		stats := c.it.Stats()
		if err = c.close(err); err != nil || c.n != 10 {
			t.Fatalf("%d are counted, %v; want 10", c.n, err)
		}
		if moves := stats.ForwardSeekCount[0] + stats.ForwardStepCount[0]; moves > 11 {
			t.Errorf("%d moves to count 10", moves)
		}
	}
}

// TestACountIsWholeOrAnError makes one read after another fail, also where one status
// ends and the next begins.
func TestACountIsWholeOrAnError(t *testing.T) {
	t.Parallel()
	tenant, statuses := "acme", []string{"a", "b", "c"}
	for name, q := range map[string]store.Query{
		"of some statuses": {Kind: kind, Tenant: &tenant, Statuses: statuses},
		"of all":           {Kind: kind},
		"by name":          {Kind: kind, Statuses: statuses, Names: []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const each = 40
			mem := writeSmallBlocks(t, tenant, statuses, each)
			for n := int64(1); n < manyReads; n++ {
				bad := newBadReads(mem, n, n)
				s := openStill(t, bad)
				bad.toggle.On()
				got, err := s.Count(t.Context(), q, store.MaxCount)
				bad.toggle.Off()
				shut(t, s)
				if err == nil && got != len(statuses)*each {
					t.Errorf("read %d fails: %d are counted of %d, and no error", n, got, len(statuses)*each)
				}
				if err != nil && !errors.Is(err, errorfs.ErrInjected) {
					t.Errorf("read %d fails: %v", n, err)
				}
				if !bad.hit() {
					if n < int64(len(statuses)) {
						t.Error("too little was read from tables")
					}
					return
				}
			}
			t.Errorf("there are more than %d reads", manyReads)
		})
	}
}

// writeSmallBlocks makes a store with so many records of each status, in tables of
// which little is read at once.
func writeSmallBlocks(t *testing.T, tenant string, statuses []string, each int) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewMem()
	s, err := Open(t.Context(), "data", Options{Clock: base.NewManual(start), Logger: quiet(), fs: mem, tune: cold})
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range statuses {
		tx := &store.Tx{}
		for i := range each {
			key := store.RecordKey{Kind: kind, Tenant: tenant, ID: fmt.Sprint(status, i)}
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: key, Status: status, Time: start}})
		}
		commitTo(t, s, tx)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	return mem
}
