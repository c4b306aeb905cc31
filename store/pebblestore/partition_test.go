package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// tenantMessage is a message of a tenant, due in an hour.
func tenantMessage(tenant int, route string) store.Message {
	return store.Message{
		Key: store.Key{Queue: "q", Tenant: fmt.Sprintf("t%d", tenant), Name: "k"}, ID: "m", Route: route, VisibleAt: start.Add(time.Hour),
	}
}

// partitionsOnDisk returns how many partitions the disk has.
func (h *house) partitionsOnDisk() (n int) {
	h.t.Helper()
	it, err := h.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tagPartition}, UpperBound: []byte{tagPartition + 1}})
	if err != nil {
		h.t.Fatal(err)
	}
	for it.First(); it.Valid(); it.Next() {
		n++
	}
	if err := closeIter(it, nil); err != nil {
		h.t.Fatal(err)
	}
	return n
}

// partitionsInMemory returns how many partitions, routes and listed routes there are in memory.
func (h *house) partitionsInMemory() (partitions, routes, listed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, q := range h.queues {
		routes += len(q.routes)
	}
	if len(h.partitionsByID) != len(h.partitions.byKey) {
		h.t.Errorf("%d partitions by number, %d by name", len(h.partitionsByID), len(h.partitions.byKey))
	}
	return len(h.partitionsByID), routes, len(h.listed) + len(h.unlisted)
}

func (h *house) stats() store.Stats {
	h.t.Helper()
	stats, err := h.Stats(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return stats
}

// TestTenantsWithNothingPendingCostNothing: the partitions of tenants and routes that have no
// messages left are dropped, but for a few, whether the messages were due or not, and
// whether they were claimed or deleted.
func TestTenantsWithNothingPendingCostNothing(t *testing.T) {
	t.Parallel()
	const tenants, kept = 300, 10
	for _, test := range []struct {
		name    string
		route   func(i int) string
		due     bool
		consume bool
	}{
		{"deleted before its time", func(int) string { return "r" }, false, false},
		{"deleted when due", func(int) string { return "r" }, true, false},
		{"consumed", func(int) string { return "r" }, true, true},
		{"a route each", func(i int) string { return fmt.Sprintf("r%d", i) }, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			lim := defaultLimits
			lim.partitions = kept
			h := newHouse(t, lim)
			for round := range 3 {
				var tx store.Tx
				var refs []store.MessageRef
				for i := range tenants {
					m := tenantMessage(i, test.route(i))
					tx.Put, refs = append(tx.Put, m), append(refs, store.MessageRef{Key: m.Key, ID: m.ID})
				}
				h.commit(&tx)
				if partitions, _, _ := h.partitionsInMemory(); partitions < tenants {
					t.Fatalf("round %d: %d partitions", round, partitions)
				}
				if test.due {
					h.clock.Advance(time.Hour)
				}
				if test.consume {
					claims, err := h.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: tenants, Lease: time.Minute})
					if err != nil || len(claims) != tenants {
						t.Fatalf("round %d: claimed %d, %v", round, len(claims), err)
					}
					h.finish(claims)
				} else {
					h.commit(&store.Tx{Delete: refs})
				}
				h.commit(&store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "k", ID: "i"}}, Expect: store.AnyVersion}}})
				if partitions, routes, listed := h.partitionsInMemory(); partitions > kept || routes > kept+1 || listed > kept+1 {
					t.Errorf("round %d: %d partitions, %d routes, %d listed are left in memory", round, partitions, routes, listed)
				}
				if n := h.partitionsOnDisk(); n > kept {
					t.Errorf("round %d: %d partitions are left on disk", round, n)
				}
				if stats := h.stats(); len(stats.Routes) != 0 || stats.Rest.Pending != 0 {
					t.Errorf("round %d: stats %+v", round, stats)
				}
				if round == 1 {
					h.reopen()
				}
			}
		})
	}
}

// TestStatsDoNotLookAtIdleTenants: what is not due yet is not read tenant by tenant, and
// the oldest message is right also when others that came before it were deleted.
func TestStatsDoNotLookAtIdleTenants(t *testing.T) {
	t.Parallel()
	const tenants = 200
	h := newHouse(t, defaultLimits)
	var tx store.Tx
	for i := range tenants {
		m := tenantMessage(i, "r")
		m.VisibleAt = start.Add(time.Duration(i+1) * time.Second)
		late := m
		late.ID, late.VisibleAt = "late", start.Add(time.Hour)
		tx.Put = append(tx.Put, m, late)
	}
	h.commit(&tx)
	check := func(pending, ready int, oldest time.Time) {
		t.Helper()
		stats := h.stats()
		if len(stats.Routes) != 1 {
			t.Fatalf("stats: %+v", stats)
		}
		if row := stats.Routes[0]; row.Pending != pending || row.Ready != ready || !row.Oldest.Equal(oldest) {
			t.Errorf("stats: %+v, want %d pending, %d ready, oldest %v", row, pending, ready, oldest)
		}
	}
	check(2*tenants, 0, start.Add(time.Second))
	h.mu.Lock()
	rs := h.queues["q"].routes["r"]
	h.mu.Unlock()
	if _, onDisk := h.routeStats(rs, start.UnixMilli()); len(onDisk) != 0 {
		t.Errorf("%d partitions are read", len(onDisk))
	}
	var refs []store.MessageRef
	for i := range 150 {
		refs = append(refs, store.MessageRef{Key: tx.Put[2*i].Key, ID: "m"})
	}
	h.commit(&store.Tx{Delete: refs})
	check(2*tenants-150, 0, start.Add(151*time.Second))
	h.reopen()
	check(2*tenants-150, 0, start.Add(151*time.Second))
	h.clock.Advance(170 * time.Second)
	check(2*tenants-150, 20, start.Add(151*time.Second))
	h.clock.Advance(time.Hour)
	check(2*tenants-150, 2*tenants-150, start.Add(151*time.Second))
}

// TestStatsReportALimitedNumberOfRoutes, and sum up the rest.
func TestStatsReportALimitedNumberOfRoutes(t *testing.T) {
	t.Parallel()
	const more = 25
	lim := defaultLimits
	lim.partitions = 0
	h := newHouse(t, lim)
	put := func(from, to int) (refs []store.MessageRef) {
		var tx store.Tx
		for i := from; i < to; i++ {
			m := tenantMessage(i, fmt.Sprintf("r%d", i))
			tx.Put, refs = append(tx.Put, m), append(refs, store.MessageRef{Key: m.Key, ID: m.ID})
		}
		h.commit(&tx)
		return refs
	}
	check := func(rows, rest int) {
		t.Helper()
		stats := h.stats()
		if len(stats.Routes) != rows || stats.Rest != (store.RestStats{Routes: rest, Pending: rest}) {
			t.Errorf("%d rows, rest %+v; want %d and %d", len(stats.Routes), stats.Rest, rows, rest)
		}
	}
	first := put(0, store.MaxRouteStats)
	check(store.MaxRouteStats, 0)
	put(store.MaxRouteStats, store.MaxRouteStats+more)
	check(store.MaxRouteStats, more)
	h.reopen()
	check(store.MaxRouteStats, more)
	h.commit(&store.Tx{Delete: first[:10]})
	check(store.MaxRouteStats, more-10)
	h.commit(&store.Tx{Delete: first[10:]})
	check(more, 0)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Stats(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stats with a context that has ended: %v", err)
	}
}

// TestUnservedMessagesStayOnDisk: messages that are due and that no call waits for are in
// memory up to a limit, however many tenants they are of, and all can be claimed.
func TestUnservedMessagesStayOnDisk(t *testing.T) {
	t.Parallel()
	const tenants, total = 300, 20
	lim := defaultLimits
	lim.total = total
	h := newHouse(t, lim)
	var tx store.Tx
	for i := range tenants {
		m := tenantMessage(i, fmt.Sprintf("r%d", i%3))
		m.VisibleAt = time.Time{}
		tx.Put = append(tx.Put, m)
	}
	h.commit(&tx)
	if _, messages := h.inMemory(); messages > total {
		t.Errorf("%d messages are in memory, want at most %d", messages, total)
	}
	ready := 0
	for _, row := range h.stats().Routes {
		ready += row.Ready
	}
	if ready != tenants {
		t.Errorf("%d messages are ready, want %d", ready, tenants)
	}
	claims, err := h.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r0", "r1", "r2"}, Max: tenants, Lease: time.Minute})
	if err != nil || len(claims) != tenants {
		t.Errorf("claimed %d, %v", len(claims), err)
	}
}
