package pebblestore

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// TestQueriesOverAllTenantsAreCheap: what a list or a count of all tenants costs does not
// depend on how many tenants there are.
func TestQueriesOverAllTenantsAreCheap(t *testing.T) {
	t.Parallel()
	const tenants, most = 2000, 64
	s := openUnwritten(t)
	var tx store.Tx
	for i := range tenants {
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{
			Key:    store.RecordKey{Kind: "timer", Tenant: fmt.Sprintf("tenant-%d", i), ID: "k"},
			Status: []string{"armed", "cancelled"}[i%2], Time: start.Add(time.Duration(i) * time.Second),
		}})
	}
	commitTo(t, s, &tx)
	for name, c := range map[string]struct {
		q    store.Query
		want int
	}{
		"a page":             {store.Query{Limit: 10}, 10},
		"a page from behind": {store.Query{Limit: 10, Descending: true}, 10},
		"a page of a status": {store.Query{Limit: 10, Statuses: []string{"armed"}}, 10},
		"a sweep":            {store.Query{Statuses: []string{"fired", "cancelled"}, To: start.Add(4 * time.Second)}, 2},
		"a sweep of nothing": {store.Query{Statuses: []string{"fired", "cancelled"}, To: start}, 0},
		"a time":             {store.Query{From: start.Add(7 * time.Second), To: start.Add(9 * time.Second)}, 2},
	} {
		c.q.Kind = "timer"
		var l lister
		var err error
		if l.scan, err = s.scan(&c.q); err != nil {
			t.Fatal(err)
		}
		page, err := s.list(t.Context(), &l, position{}, false)
		checkMoves(t, "list of "+name, l.it, most)
		if err := l.close(err); err != nil || len(page.Records) != c.want {
			t.Errorf("list of %s: %d records, %v, want %d", name, len(page.Records), err, c.want)
		}
		counts := counter{store: s, limit: math.MaxInt}
		if c.q.Limit > 0 {
			counts.limit = c.q.Limit
		}
		if counts.scan, err = s.scan(&c.q); err != nil {
			t.Fatal(err)
		}
		err = counts.count(t.Context())
		checkMoves(t, "count of "+name, counts.it, most)
		if err := counts.close(err); err != nil || counts.n != c.want {
			t.Errorf("count of %s: %d, %v, want %d", name, counts.n, err, c.want)
		}
	}
}

// checkMoves checks how often an iterator was moved.
func checkMoves(t *testing.T, what string, it *pebble.Iterator, most int) {
	t.Helper()
	stats := it.Stats()
	moves := 0
	for _, n := range [][pebble.NumStatsKind]int{stats.ForwardSeekCount, stats.ReverseSeekCount, stats.ForwardStepCount, stats.ReverseStepCount} {
		moves += n[pebble.InterfaceCall]
	}
	if moves > most {
		t.Errorf("%s moved an iterator %d times, want %d at most", what, moves, most)
	}
}
