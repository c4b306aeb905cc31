package storetest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/storetest"
)

func TestFaultsHappenAsPlanned(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault storetest.Fault
		fails bool
		there bool
	}{
		{"none", storetest.NoFault, false, true},
		{"before", storetest.FailBefore, true, false},
		{"after", storetest.FailAfter, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := memstore.New(memstore.Options{})
			defer s.Close()
			f := storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
				if c.N != 2 || c.Method != "Commit" {
					return storetest.NoFault
				}
				return tt.fault
			})
			for i, id := range []string{"first", "second"} {
				key := store.RecordKey{Kind: "kind", ID: id}
				err := f.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: key}}}})
				if fails := i == 1 && tt.fails; errors.Is(err, storetest.ErrFault) != fails {
					t.Errorf("commit %s: %v", id, err)
				}
				_, err = s.Get(t.Context(), key)
				if there := i == 0 || tt.there; (err == nil) != there {
					t.Errorf("get %s: %v", id, err)
				}
			}
			if n := f.Calls(); n != 2 {
				t.Errorf("%d calls, want 2", n)
			}
		})
	}
}

func TestKilledStoreFailsAndClaimsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New(memstore.Options{})
		defer s.Close()
		f := storetest.NewFaulty(s, nil)
		req := store.ClaimRequest{Queue: "turns", Routes: []string{"r"}, Max: 1, Lease: time.Hour, Wait: time.Hour}
		done := make(chan error)
		go func() {
			_, err := f.Claim(t.Context(), req)
			done <- err
		}()
		synctest.Wait() // it waits
		f.Kill()
		if err := <-done; !errors.Is(err, storetest.ErrFault) {
			t.Errorf("the claim that waited: %v", err)
		}
		if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{{Key: store.Key{Queue: "turns", Name: "k"}, ID: "m", Route: "r"}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Claim(t.Context(), req); !errors.Is(err, storetest.ErrFault) {
			t.Errorf("a claim: %v", err)
		}
		if stats, err := s.Stats(t.Context()); err != nil || stats.Leases != 0 {
			t.Errorf("%d leases, %v", stats.Leases, err)
		}
	})
}
