package pgstore

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// TestNothingIsWrittenOverWhatOthersWrote: what an update has loaded without a lock may be
// changed by another one before it writes. Then it writes nothing, and is tried again.
func TestNothingIsWrittenOverWhatOthersWrote(t *testing.T) {
	t.Parallel()
	u := newURL(t)
	a, b := open(t, u, Options{}), open(t, u, Options{})
	key := store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}
	record := store.RecordKey{Kind: "instance", Tenant: "acme", ID: "order-1"}
	begin := &store.Tx{
		Append:     []store.Append{{Key: key, Entries: [][]byte{[]byte("first")}}},
		PutRecords: []store.PutRecord{{Record: store.Record{Key: record}}},
	}
	if err := a.Commit(t.Context(), begin); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]*store.Tx{
		"a key":         {Put: []store.Message{{Key: key, ID: "a", Route: "order"}}},
		"a record":      {PutRecords: []store.PutRecord{{Record: store.Record{Key: record}, Expect: store.AnyVersion}}},
		"a record gone": {DeleteRecords: []store.DeleteRecord{{Key: record, Expect: store.AnyVersion}}},
		"a key gone":    {DeleteKeys: []store.Key{key}},
	} {
		t.Run(name, func(t *testing.T) {
			restore := &store.Tx{
				DeleteKeys: []store.Key{key},
				Append:     []store.Append{{Key: key, Entries: [][]byte{[]byte("first")}}},
				PutRecords: []store.PutRecord{{Record: store.Record{Key: record}, Expect: store.AnyVersion}},
			}
			if err := a.Commit(t.Context(), restore); err != nil {
				t.Fatal(err)
			}
			id, recordNeed := rows.IDOf(key), []store.RecordKey{record}
			a.db.lockNext.Store(0)
			err := a.db.Update(t.Context(), &rows.ReadSet{Keys: []rows.ID{id}, Names: []store.Key{key}, Records: recordNeed}, func(_ int64, s *rows.State) *rows.Changes {
				if err := b.Commit(t.Context(), change); err != nil {
					t.Error(err)
				}
				row := *s.Keys[id]
				row.LogLength++
				return &rows.Changes{
					Append:        []rows.Entries{{Key: id, At: row.LogLength - 1, Entries: [][]byte{[]byte("second")}}},
					Update:        []*rows.KeyRow{&row},
					UpdateRecords: []store.Record{{Key: record, Version: s.Records[record] + 1}},
				}
			})
			if !errors.Is(err, rows.ErrRetry) {
				t.Errorf("update: %v, want that it is tried again", err)
			}
			if !a.db.takeLockNext() {
				t.Error("the next update does not lock what it loads")
			}
			if page, err := a.ReadLog(t.Context(), key, 0); err != nil || len(page.Entries) > 1 {
				t.Errorf("the log has %d entries, %v", len(page.Entries), err)
			}
		})
	}
}

// TestManyProcessesOnOneKey: what several processes append to one log at the same time is
// there once, in whichever order.
func TestManyProcessesOnOneKey(t *testing.T) {
	t.Parallel()
	u := newURL(t, "connections", "5")
	key := store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}
	const processes, each = 4, 25
	var crew sync.WaitGroup
	for p := range processes {
		s := open(t, u, Options{})
		crew.Go(func() {
			for i := range each {
				for done := false; !done; {
					page, err := s.ReadLog(t.Context(), key, 0)
					if err != nil {
						t.Error(err)
						return
					}
					entry := fmt.Sprintf("%d/%d", p, i)
					err = s.Commit(t.Context(), &store.Tx{Append: []store.Append{{Key: key, At: page.Length, Entries: [][]byte{[]byte(entry)}}}})
					done = err == nil
					if err != nil && !errors.Is(err, store.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	crew.Wait()
	s := open(t, u, Options{})
	seen := map[string]bool{}
	for entry, err := range store.Entries(t.Context(), s, key, 0) {
		if err != nil || seen[string(entry)] {
			t.Fatalf("entry %q comes twice, or %v", entry, err)
		}
		seen[string(entry)] = true
	}
	if len(seen) != processes*each {
		t.Errorf("%d entries, want %d", len(seen), processes*each)
	}
}
