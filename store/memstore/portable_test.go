package memstore

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// TestVerifyFindsWhatIsBroken breaks the maps in each way that Verify knows.
func TestVerifyFindsWhatIsBroken(t *testing.T) {
	t.Parallel()
	key := store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}
	record := store.RecordKey{Kind: "instance", ID: "order-1"}
	for what, c := range map[string]struct {
		breaks func(s *Store)
		found  []string
	}{
		"nothing":                {func(*Store) {}, nil},
		"a key has nothing":      {func(s *Store) { s.key(store.Key{Queue: "q", Name: "k"}).route = "r" }, []string{"key q//k has neither messages nor a log"}},
		"messages change places": {func(s *Store) { slices.Reverse(s.find(key).messages) }, []string{"the messages of turns/acme/order-1 are not in the order"}},
		"a lease is of nothing": {func(s *Store) {
			l := s.find(key).lease
			l.delivered = append(l.delivered, &message{Message: store.Message{ID: "x"}})
		}, []string{`the lease of turns/acme/order-1 is of message "x"`}},
		"a record has no version": {func(s *Store) { s.records.byKey[record] = &store.Record{Key: record} }, []string{"with version 0"}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := New(Options{})
			t.Cleanup(func() { _ = s.Close() })
			err := s.Commit(t.Context(), &store.Tx{
				Put:        []store.Message{{Key: key, ID: "a", Route: "r"}, {Key: key, ID: "b", VisibleAt: time.Now().Add(time.Hour)}},
				PutRecords: []store.PutRecord{{Record: store.Record{Key: record}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "turns", Routes: []string{"r"}, Max: 1, Lease: time.Hour}); err != nil || len(claims) != 1 {
				t.Fatalf("%d claims, %v", len(claims), err)
			}
			s.mu.Lock()
			c.breaks(s)
			s.mu.Unlock()
			var found []string
			if err := s.Verify(t.Context(), func(problem string) { found = append(found, problem) }); err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(found, c.found, strings.Contains) {
				t.Errorf("found %q, want %q", found, c.found)
			}
		})
	}
}
