package rig

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pebblestore"
)

// Quiet is a logger that discards everything.
var Quiet = slog.New(slog.DiscardHandler)

// Rig is a test with a store.
type Rig struct {
	T     *testing.T
	Store store.Store
	Began time.Time // when it was made, in whole milliseconds
}

// New returns a rig with a new store of the kind that the tests run on.
func New(t *testing.T) *Rig {
	t.Helper()
	return On(t, teststore.New(t))
}

// On returns a rig with a store that the caller closes.
func On(t *testing.T, s store.Store) *Rig {
	return &Rig{T: t, Store: s, Began: time.Now().Truncate(time.Millisecond)}
}

// Disk opens a Pebble store in a directory, and closes it at the end of the test.
func Disk(t *testing.T, dir string) *pebblestore.Store {
	t.Helper()
	s, err := pebblestore.Open(t.Context(), dir, pebblestore.Options{Logger: Quiet})
	check.OK(t, err)
	t.Cleanup(func() { check.OK(t, s.Close()) })
	return s
}

// Bubble runs a test in virtual time, in parallel with others.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// Pass lets virtual time pass, and returns when everything that happens meanwhile has come
// to rest.
func Pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// At returns the time that is d after the rig was made, in UTC.
func (r *Rig) At(d time.Duration) time.Time { return r.Began.Add(d).UTC() }

// WaitUntil returns at the time that is d after the rig was made, in virtual time or not.
func (r *Rig) WaitUntil(d time.Duration) {
	if left := time.Until(r.At(d)); left > 0 {
		<-time.After(left)
	}
}

// Records returns the first page of the records of a kind.
func (r *Rig) Records(kind string) []store.Record {
	r.T.Helper()
	page, err := r.Store.List(r.T.Context(), store.Query{Kind: kind, Limit: store.MaxPage})
	check.OK(r.T, err)
	return page.Records
}

// Quarantine returns the messages that are in quarantine.
func (r *Rig) Quarantine() []store.Record {
	r.T.Helper()
	return r.Records(store.KindQuarantine)
}

// Redrive puts the only message that is in quarantine back into its queue.
func (r *Rig) Redrive() {
	r.T.Helper()
	records := r.Quarantine()
	if len(records) != 1 {
		r.T.Fatalf("%d messages are in quarantine, want 1", len(records))
	}
	tx, err := store.Redrive(records[0])
	check.OK(r.T, err)
	check.OK(r.T, r.Store.Commit(r.T.Context(), tx))
}

// Pending returns how many messages are in all queues.
func (r *Rig) Pending() (n int) {
	r.T.Helper()
	stats, err := r.Store.Stats(context.Background())
	check.OK(r.T, err)
	for _, route := range stats.Routes {
		n += route.Pending
	}
	return n
}

// WaitIdle returns when no message and no lease is left, in real time. It fails the test if
// that takes more than half a minute.
func (r *Rig) WaitIdle() {
	r.T.Helper()
	check.Eventually(r.T, "no work is left", func() bool {
		stats, err := r.Store.Stats(context.Background())
		return err == nil && len(stats.Routes) == 0 && stats.Leases == 0
	})
	// A commit may be counted before it can be read. Once a later one has returned, it can.
	later := store.Record{Key: store.RecordKey{Kind: "later", ID: "commit"}}
	check.OK(r.T, r.Store.Commit(context.Background(), &store.Tx{PutRecords: []store.PutRecord{{Record: later, Expect: store.AnyVersion}}}))
}
