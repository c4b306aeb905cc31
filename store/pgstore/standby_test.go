package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// duel is a primary with a synchronous standby, and a store that knows both.
type duel struct {
	*testenv.PostgresPair
	t       *testing.T
	network *testenv.Relay // between the store and the primary
	url     string
	store   *Store
	resume  func() // of a primary that hangs
}

func newDuel(t *testing.T) *duel {
	t.Helper()
	d := &duel{PostgresPair: testenv.NewPostgresPair(t), t: t}
	d.network = testenv.Proxy(t, d.Primary.Addr)
	d.url = testenv.HostsURL("postgres", d.network.Addr(), d.Standby.Addr)
	d.store = open(t, d.url, Options{Logger: quiet})
	return d
}

// ask returns what a server answers, directly.
func ask[T any](t *testing.T, server *testenv.PostgresServer, sql string) (v T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }() // what it said is known
	if err := conn.QueryRow(ctx, sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// Ways in which a primary is lost.
var losses = []struct {
	name   string
	lose   func(d *duel)
	revive func(d *duel) // so that it can be asked; nil if it is gone
}{
	{"killed", func(d *duel) { d.Primary.Kill() }, nil},
	{"frozen", func(d *duel) { d.resume = d.Primary.Hang() }, func(d *duel) { d.resume() }},
	{"cut off", func(d *duel) { d.network.Stall(); d.Replication.Stall() }, func(d *duel) { d.network.Resume() }},
	{"replaced", func(d *duel) { d.Replication.Cut() }, func(*duel) {}}, // it is there, and does not know
}

// counted is how far all counters have come, as a server shows it.
const counted = `SELECT coalesce(sum(version), 0)::int8 FROM abide.records WHERE kind = 'counter'`

// wantNoWork checks that a primary that was replaced gets no work any more, and has nothing that the
// new one does not have.
func (d *duel) wantNoWork(goesOn func(n int64)) {
	d.t.Helper()
	eventually(d.t, "nobody works on the old primary", func() bool {
		return ask[int](d.t, d.Primary, `SELECT count(*)::int FROM pg_stat_activity
			WHERE application_name = 'abide' AND wait_event IS DISTINCT FROM 'SyncRep'`) == 0
	})
	before := ask[int64](d.t, d.Primary, counted)
	goesOn(50)
	old, now := ask[int64](d.t, d.Primary, counted), ask[int64](d.t, d.Standby, counted)
	if old != before || old >= now {
		d.t.Errorf("the old primary has counted to %d, and to %d a moment later; the new one to %d", before, old, now)
	}
}

// TestFailoverToStandby: the primary is lost under load in each way, and the standby promoted.
// Nothing that was acknowledged is lost, work goes on within seconds, and nobody works on the old
// primary any more.
func TestFailoverToStandby(t *testing.T) {
	t.Parallel()
	rounds := len(losses)
	if testenv.Long() {
		rounds = 50
	}
	var gaps []time.Duration
	failed := 0
	for i := range rounds {
		loss := losses[i%len(losses)]
		t.Run(fmt.Sprintf("%d %s", i+1, loss.name), func(t *testing.T) {
			d := newDuel(t)
			failed += countUntil(t, d.store, 8, func(goesOn func(n int64)) {
				goesOn(50)
				began := time.Now()
				loss.lose(d)
				d.Standby.Promote()
				goesOn(20) // more than were under way
				gaps = append(gaps, time.Since(began))
				if loss.revive != nil {
					loss.revive(d)
					d.wantNoWork(goesOn)
					joined := open(t, d.url, Options{Logger: quiet})
					if got := joined.db.config.servers.names[joined.db.config.servers.chosen]; got != d.Standby.Addr {
						t.Errorf("a process that comes later works on %s", got)
					}
				}
			})
		})
	}
	if len(gaps) == 0 || failed == 0 {
		t.Fatalf("the test shows nothing: %d failovers, %d commits failed", len(gaps), failed)
	}
	slices.Sort(gaps)
	t.Logf("%d failovers: the gap was %v in the middle, p99 %v, at most %v", len(gaps), gaps[len(gaps)/2], gaps[len(gaps)*99/100], gaps[len(gaps)-1])
	if most := gaps[len(gaps)*99/100]; testenv.Long() && most > 10*time.Second {
		t.Errorf("p99 of the gap is %v", most)
	}
}

// TestUnreplicatedCommit: a commit whose wait for the standby is cancelled is not acknowledged,
// although the server reports that it is committed.
func TestUnreplicatedCommit(t *testing.T) {
	t.Parallel()
	d := newDuel(t)
	if err := d.store.Commit(t.Context(), put("turns", "order-1", "a", "order")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it listens", d.store.db.Hinted) // which is a commit too
	d.Replication.Cut()
	done := make(chan error, 1)
	go func() { done <- d.store.Commit(t.Context(), put("turns", "order-2", "a", "order")) }()
	eventually(t, "the commit waits for the standby", func() bool {
		return ask[int](t, d.Primary, `SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'abide' AND wait_event = 'SyncRep'`) == 1
	})
	ask[int](t, d.Primary, `SELECT count(pg_cancel_backend(pid))::int FROM pg_stat_activity WHERE application_name = 'abide' AND wait_event = 'SyncRep'`)
	if err := <-done; !errors.Is(err, errUnreplicated) {
		t.Errorf("a commit that no standby has: %v", err)
	}
}

// TestSeveralServers: of servers that are the same, any will do, and the URL of a store may name one
// that is not there.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	server := testenv.SharedPostgres(t)
	gone := testenv.Proxy(t, server.Addr)
	gone.Cut()
	u := withOptions(t, testenv.HostsURL("postgres", gone.Addr(), server.Addr), "schema", takeSchema(false))
	s := open(t, u, Options{Logger: quiet})
	if err := s.Commit(t.Context(), put("turns", "order-1", "a", "order")); err != nil {
		t.Fatal(err)
	}
	if claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "turns", Routes: []string{"order"}, Max: 1, Lease: time.Minute}); err != nil || len(claims) != 1 {
		t.Errorf("claim: %v, %v", claims, err)
	}
}
