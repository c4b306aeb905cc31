package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/sweep"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/storetest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newStore(t *testing.T) *memstore.Store {
	t.Helper()
	s := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func put(t *testing.T, s store.Store, kind, id, status string, at time.Time) {
	t.Helper()
	rec := store.Record{Key: store.RecordKey{Kind: kind, ID: id}, Status: status, Time: at}
	check.OK(t, s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: rec, Expect: store.AnyVersion}}}))
}

func ids(t *testing.T, s store.Store, kind string) (ids []string) {
	t.Helper()
	page, err := s.List(t.Context(), store.Query{Kind: kind, Limit: store.MaxPage})
	check.OK(t, err)
	for _, r := range page.Records {
		ids = append(ids, r.Key.ID)
	}
	slices.Sort(ids)
	return ids
}

// query matches what is over and older than noon.
func query(limit int) store.Query {
	return store.Query{Kind: "thing", Statuses: []string{"over"}, To: noon, Limit: limit}
}

// TestRemovesWhatMatches, page by page, with what goes with it, and nothing else.
func TestRemovesWhatMatches(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 7, 100} {
		s := newStore(t)
		for i := range 50 {
			put(t, s, "thing", fmt.Sprint("old ", i), "over", noon.Add(-time.Duration(i+1)*time.Second))
			put(t, s, "part", fmt.Sprint("old ", i), "", noon)
		}
		put(t, s, "thing", "young", "over", noon)
		put(t, s, "thing", "busy", "busy", noon.Add(-time.Hour))
		put(t, s, "part", "young", "", noon)
		commits := 0
		counted := storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method == "Commit" {
				commits++
			}
			return storetest.NoFault
		})
		n, err := sweep.Records(t.Context(), counted, query(limit), func(key store.RecordKey) []store.RecordKey {
			return []store.RecordKey{{Kind: "part", ID: key.ID}, {Kind: "none", ID: key.ID}}
		})
		if err != nil || n != 50 {
			t.Errorf("%d are removed, %v", n, err)
		}
		check.Equal(t, "there is left", fmt.Sprint(ids(t, s, "thing"), ids(t, s, "part")), "[busy young] [young]")
		if want := (50 + limit - 1) / limit; commits != want {
			t.Errorf("%d commits with pages of %d, want %d", commits, limit, want)
		}
	}
}

func TestNothingToRemove(t *testing.T) {
	t.Parallel()
	counted := storetest.NewFaulty(newStore(t), nil)
	if n, err := sweep.Records(t.Context(), counted, query(10), nil); n != 0 || err != nil || counted.Calls() != 1 {
		t.Errorf("%d are removed, %v, with %d calls", n, err, counted.Calls())
	}
}

// meddler is a store in which somebody else changes things just before a commit.
type meddler struct {
	store.Store
	meddle func()
}

func (m *meddler) Commit(ctx context.Context, tx *store.Tx) error {
	if f := m.meddle; f != nil {
		m.meddle = nil
		f()
	}
	return m.Store.Commit(ctx, tx)
}

// TestWhatIsChangedMeanwhileStays, and does not keep the others from going.
func TestWhatIsChangedMeanwhileStays(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for i := range 20 {
		put(t, s, "thing", fmt.Sprint(i), "over", noon.Add(-time.Hour))
		put(t, s, "part", fmt.Sprint(i), "", noon)
	}
	m := &meddler{Store: s, meddle: func() {
		put(t, s, "thing", "7", "busy", noon.Add(-time.Hour))
		gone := store.DeleteRecord{Key: store.RecordKey{Kind: "thing", ID: "8"}, Expect: store.AnyVersion}
		if err := s.Commit(t.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{gone}}); err != nil {
			t.Error(err)
		}
	}}
	n, err := sweep.Records(t.Context(), m, query(100), func(key store.RecordKey) []store.RecordKey {
		return []store.RecordKey{{Kind: "part", ID: key.ID}}
	})
	if err != nil || n != 18 {
		t.Errorf("%d are removed, %v", n, err)
	}
	check.Equal(t, "there is left", fmt.Sprint(ids(t, s, "thing"), ids(t, s, "part")), "[7] [7 8]")
}

// TestTroubleEndsIt: it says so, and how many were removed by then.
func TestTroubleEndsIt(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"List", "Commit"} {
		s := newStore(t)
		for i := range 20 {
			put(t, s, "thing", fmt.Sprint(i), "over", noon.Add(-time.Hour))
		}
		n := 0
		faulty := storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method != method {
				return storetest.NoFault
			}
			if n++; n == 2 {
				return storetest.FailBefore
			}
			return storetest.NoFault
		})
		removed, err := sweep.Records(t.Context(), faulty, query(5), nil)
		if !errors.Is(err, storetest.ErrFault) || removed != 5 || len(ids(t, s, "thing")) != 15 {
			t.Errorf("%s: %d are removed, %v, and %d are there", method, removed, err, len(ids(t, s, "thing")))
		}
	}
}
