package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// TestCallsVisitOnlyWhatTheyName makes every call on a store that holds many keys and
// records which panic when they are visited: pending, without a route, leased, and ready
// for a route that no call claims.
func TestCallsVisitOnlyWhatTheyName(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	clock := base.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := memstore.New(memstore.Options{Clock: clock})
	t.Cleanup(func() { _ = s.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	claim := func(route string, n int, wait time.Duration) []store.Claim {
		t.Helper()
		claims, err := s.Claim(ctx, store.ClaimRequest{Queue: "q", Routes: []string{route}, Max: n, Lease: time.Hour, Wait: wait})
		must(err)
		return claims
	}
	const many = 500
	var tx store.Tx
	for i := range many {
		put := func(name, route string, at time.Time) {
			key := store.Key{Queue: "q", Tenant: fmt.Sprint(i % 7), Name: fmt.Sprintf("%s-%d", name, i)}
			tx.Put = append(tx.Put, store.Message{Key: key, ID: "m", Route: route, VisibleAt: at})
		}
		put("future", "r", clock.Now().Add(24*time.Hour))
		put("unrouted", "", time.Time{})
		put("leased", "leased", time.Time{})
		put("unserved", "unserved", time.Time{})
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: store.RecordKey{Kind: "k", ID: fmt.Sprint(i)}, Status: "on"}})
	}
	must(s.Commit(ctx, &tx))
	if n := len(claim("leased", many, 0)); n != many {
		t.Fatalf("%d claims", n)
	}
	s.Hide()

	key := store.Key{Queue: "q", Tenant: "a", Name: "k"}
	record := store.RecordKey{Kind: "k", Tenant: "a", ID: "r"}
	put := &store.Tx{Put: []store.Message{{Key: key, ID: "m", Route: "r"}}, PutRecords: []store.PutRecord{{Record: store.Record{Key: record, Status: "off"}, Expect: store.AnyVersion}}}
	waiting := make(chan []store.Claim, 1)
	go func() {
		claims, _ := s.Claim(ctx, store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: time.Second, Wait: time.Hour})
		waiting <- claims
	}()
	for stats, err := s.Stats(ctx); stats.Waiting == 0; stats, err = s.Stats(ctx) {
		must(err)
	}
	must(s.Commit(ctx, put))
	claims := <-waiting
	if len(claims) != 1 {
		t.Fatalf("%d claims", len(claims))
	}
	_, err := s.Renew(ctx, time.Minute, []store.Lease{claims[0].Lease()})
	must(err)
	must(s.Release(ctx, store.Release{Lease: claims[0].Lease(), After: time.Minute}))
	clock.Advance(time.Minute)
	claims = claim("r", 10, time.Second)
	if len(claims) != 1 {
		t.Fatalf("%d claims", len(claims))
	}
	must(s.Commit(ctx, &store.Tx{Finish: []store.Finish{{Lease: claims[0].Lease()}}, DeleteRecords: []store.DeleteRecord{{Key: record, Expect: 1}}}))
	if got := claim("r", 10, 0); len(got) != 0 {
		t.Fatalf("%d claims", len(got))
	}
	page, err := s.List(ctx, store.Query{Kind: "k", Statuses: []string{"off"}})
	if must(err); len(page.Records) != 0 {
		t.Errorf("%d records", len(page.Records))
	}
	n, err := s.Count(ctx, store.Query{Kind: "k"}, store.MaxCount)
	if must(err); n != many {
		t.Errorf("%d records", n)
	}
	stats, err := s.Stats(ctx)
	if must(err); stats.Leases != many || len(stats.Routes) != 4 || stats.Routes[2].Pending != many || stats.Routes[3].Ready != many {
		t.Errorf("stats %+v", stats)
	}
}
