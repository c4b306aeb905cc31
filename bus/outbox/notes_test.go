package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
)

// ledger notes in one record for each name, which must have the version that it had when
// nobody had noted anything.
func ledger(t *testing.T, r *fixture) {
	t.Helper()
	for n := range 4 {
		record := store.Record{Key: store.RecordKey{Kind: "ledger", Tenant: "acme", ID: fmt.Sprint("name", n)}, Status: "new"}
		check.OK(t, r.Store.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: record}}}))
	}
	r.notes.put = func(o *outbox.Outcome) []store.PutRecord {
		return []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "ledger", Tenant: "acme", ID: o.Name}, Status: string(o.State)}, Expect: 1}}
	}
}

func (r *fixture) noted(n int) string {
	r.T.Helper()
	record, err := r.Store.Get(r.T.Context(), store.RecordKey{Kind: "ledger", Tenant: "acme", ID: fmt.Sprint("name", n)})
	check.OK(r.T, err)
	return record.Status
}

func TestNotesAreInTheCommitThatSettles(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		ledger(t, r)
		r.run()
		r.put(0, 1, 2, 3)
		rig.Pass(0)
		for n := range 4 {
			check.Equal(t, "note", r.noted(n), "published")
		}
		check.Equal(t, "notes that were written again", r.notes.again, 0)
	})
}

// TestANoteInConflictKeepsNobodyElseFromBeingSettled, and in the end its envelope is
// settled without it: it is out.
func TestANoteInConflictKeepsNobodyElseFromBeingSettled(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		ledger(t, r)
		moved := store.Record{Key: store.RecordKey{Kind: "ledger", Tenant: "acme", ID: "name2"}, Status: "moved"}
		check.OK(t, r.Store.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: moved, Expect: 1}}}))
		r.put(0, 1, 2, 3)
		r.run()
		rig.Pass(10 * time.Second)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 4)
		for n, want := range []string{"published", "published", "moved", "published"} {
			check.Equal(t, fmt.Sprint("note ", n), r.noted(n), want)
			if _, waits := r.waiting(n); waits {
				t.Errorf("envelope %d was not settled", n)
			}
		}
		if r.notes.again == 0 {
			t.Error("nobody was asked to look again")
		}
	})
}

// TestNotesThatCannotBeWrittenNowAreTriedAgain.
func TestNotesThatCannotBeWrittenNowAreTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		ledger(t, r)
		r.notes.err = errDown
		r.put(1)
		r.run()
		rig.Pass(time.Second)
		check.Equal(t, "note", r.noted(1), "published")
		calls := len(r.sink.Calls())
		check.Equal(t, "calls", calls, 1)
	})
}

// TestSettlingMayTakeLongerThanALease: what is out is not published again because of that.
func TestSettlingMayTakeLongerThanALease(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		ledger(t, r)
		note := r.notes.put
		r.notes.put = func(o *outbox.Outcome) []store.PutRecord {
			<-time.After(2 * time.Second)
			return note(o)
		}
		r.put(0, 1, 2)
		r.run(func(c *outbox.Config) { c.LeaseDuration, c.Sinks[0].Publishers = 2*time.Second, 1 })
		rig.Pass(time.Minute)
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 3)
		check.Equal(t, "note", r.noted(2), "published")
	})
}

// TestABatchThatIsTooLargeForACommitIsSettledInParts, and nothing of it is lost.
func TestABatchThatIsTooLargeForACommitIsSettledInParts(t *testing.T) {
	bubble(t, func(t *testing.T, r *fixture) {
		large := make([]byte, store.MaxTxBytes/8)
		r.notes.put = func(o *outbox.Outcome) []store.PutRecord {
			key := store.RecordKey{Kind: "ledger", Tenant: "acme", ID: o.Name}
			return []store.PutRecord{{Record: store.Record{Key: key, Status: string(o.State), Body: large}, Expect: store.AnyVersion}}
		}
		r.sink.Fail(bus.ErrPermanent)
		r.put(0, 1, 2, 3, 4, 5, 6, 7, 8)
		r.run(func(c *outbox.Config) { c.Sinks[0].Publishers = 1 })
		rig.Pass(time.Second)
		check.Equal(t, "messages in quarantine", len(r.Quarantine()), 9)
		for n := range 9 {
			check.Equal(t, "note", r.noted(n), "failed")
		}
	})
}
