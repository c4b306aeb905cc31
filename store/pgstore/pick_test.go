package pgstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// TestNoneMeansNothingIsReady: a key that another transaction holds at the moment of a
// claim is waited for, if there is nothing else: it may be ready when the lock is released.
func TestNoneMeansNothingIsReady(t *testing.T) {
	t.Parallel()
	s := open(t, newURL(t), Options{})
	if err := s.Commit(t.Context(), put("turns", "order-1", "a", "order")); err != nil {
		t.Fatal(err)
	}
	tx, err := s.db.commits.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), s.db.text.translate.Replace(`SELECT FROM {schema}.keys FOR UPDATE`)); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan int, 1)
	go func() {
		claims, err := s.Claim(t.Context(), request(5, 0))
		if err != nil {
			t.Error(err)
		}
		claimed <- len(claims)
	}()
	eventually(t, "the claim waits for the key", func() bool {
		var waiting int
		err := s.db.readOne(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (
			SELECT pid FROM pg_stat_activity WHERE query LIKE '%"`+s.db.config.schema+`".keys%')`, nil, &waiting)
		return err == nil && waiting == 1
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := <-claimed; n != 1 {
		t.Errorf("%d keys were claimed, want 1", n)
	}
}

// TestClaimSurvivesADeadlock: a claim that the server chose to end a deadlock with an update
// is tried again.
func TestClaimSurvivesADeadlock(t *testing.T) {
	t.Parallel()
	s := open(t, testenv.SharedPostgres(t).Database(t), Options{})
	both := put("turns", "order-1", "a", "order")
	both.Put = append(both.Put, put("turns", "order-1", "b", "order").Put...) // it has a row of its own
	if err := s.Commit(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	brief := request(1, 0)
	brief.Lease = time.Millisecond
	first, err := s.Claim(t.Context(), brief)
	if err != nil || len(first) != 1 {
		t.Fatalf("claim: %v, %v", first, err)
	}
	// It fails where a deadlock would: when the attempt of an ended lease is counted.
	execute(t, s.db.config.conn.ConnString(), `CREATE SEQUENCE public.tries;
CREATE FUNCTION public.deadlock() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('public.tries') < 3 THEN RAISE EXCEPTION 'deadlock detected' USING ERRCODE = 'deadlock_detected'; END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER deadlock BEFORE UPDATE ON abide.messages FOR EACH ROW EXECUTE FUNCTION public.deadlock()`)
	claims, err := s.Claim(t.Context(), request(1, time.Minute))
	if err != nil || len(claims) != 1 || claims[0].Attempt() != 2 {
		t.Errorf("claim: %v, %v, want the second attempt", claims, err)
	}
}

// TestPickTakesNothingThatChanged: a key that was changed after the pick took its snapshot
// is not leased with the messages that it had before.
func TestPickTakesNothingThatChanged(t *testing.T) {
	t.Parallel()
	u := newURL(t)
	a, b := open(t, u, Options{}), open(t, u, Options{})
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() { // consumes and puts again, all the time
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := a.Commit(t.Context(), put("turns", "order-1", fmt.Sprint(i), "order")); err != nil {
				t.Error(err)
				return
			}
			del := &store.Tx{Delete: []store.MessageRef{{Key: store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}, ID: fmt.Sprint(i)}}}
			del.Put = put("turns", "order-1", fmt.Sprint(i, " more"), "order").Put
			if err := a.Commit(t.Context(), del); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		claims, err := b.Claim(t.Context(), request(1, 0))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range claims {
			pending, err := b.Pending(t.Context(), c.Key, 0)
			if err != nil {
				t.Fatal(err)
			}
			err = b.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: c.Lease()}}})
			if err != nil {
				continue // a delete has ended the lease
			}
			for _, m := range c.Messages {
				if !slices.ContainsFunc(pending, func(p store.Message) bool { return p.ID == m.ID }) {
					t.Errorf("message %q was delivered, and is not pending: %d are", m.ID, len(pending))
				}
			}
		}
	}
	close(stop)
	<-done
	verifies(t, b)
}

// TestManyRoutes: a claim may serve thousands of routes, of which few have anything.
func TestManyRoutes(t *testing.T) {
	t.Parallel()
	s := open(t, newURL(t), Options{})
	req := store.ClaimRequest{Queue: "turns", Max: 10, Lease: time.Minute}
	for i := range store.MaxRoutes {
		req.Routes = append(req.Routes, fmt.Sprintf("route %d", i))
	}
	for _, route := range []string{"route 7", "route 9999", "another"} {
		if err := s.Commit(t.Context(), put("turns", route, "a", route)); err != nil {
			t.Fatal(err)
		}
	}
	claims, err := s.Claim(t.Context(), req)
	var got []string
	for _, c := range claims {
		got = append(got, c.Key.Name)
	}
	slices.Sort(got)
	if want := []string{"route 7", "route 9999"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("claimed %q, %v; want %q", got, err, want)
	}
}

// TestTallyIsFolded: the rows that commits leave in the tally do not become many.
func TestTallyIsFolded(t *testing.T) {
	t.Parallel()
	s := open(t, newURL(t), Options{})
	schema := s.db.config.quoted()
	execute(t, s.db.config.conn.ConnString(), fmt.Sprintf(
		`INSERT INTO %s.tally SELECT %d, 'turns', 'order', CASE WHEN i = 1 THEN 0 ELSE (i %% 2) * 2 - 1 END FROM generate_series(1, 9000) i`, schema, rows.PartitionOf("turns", "order")))
	if err := s.Commit(t.Context(), put("turns", "order-1", "a", "order")); err != nil {
		t.Fatal(err)
	}
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := s.db.readOne(t.Context(), `SELECT count(*) FROM `+schema+`.tally`, nil, &n); err != nil || n > 1 {
		t.Errorf("%d rows are left, %v", n, err)
	}
	again, err := s.Stats(t.Context())
	if err != nil || fmt.Sprint(stats.Routes) != fmt.Sprint(again.Routes) {
		t.Errorf("before %v, after %v, %v", stats.Routes, again.Routes, err)
	}
}

func TestHintText(t *testing.T) {
	t.Parallel()
	partitions, records := map[int64]int64{-5: 0, 9: 1_800_000_000_000}, map[int64]bool{-7: true, 77: true}
	reserved := map[rows.ID]int64{{1, 2, 255}: -3, {}: 3}
	encode := func() []string {
		c := contents{due: partitions, records: records, reserved: reserved}
		return c.encode("me", maxNotifications)
	}
	said := func(hints []string) (map[int64]int64, []int64) {
		allPartitions, allRecords := map[int64]int64{}, []int64{}
		allReserved := map[rows.ID]int64{}
		for _, text := range hints {
			process, h := decodeHint(text)
			if process != "me" || len(text) > maxNotification {
				t.Errorf("%d bytes of %q", len(text), process)
			}
			maps.Copy(allPartitions, h.Due)
			allRecords = append(allRecords, h.Records...)
			for _, r := range h.Reserved {
				allReserved[r.Key] = r.Partition
			}
		}
		if !maps.Equal(allReserved, reserved) {
			t.Errorf("reserved %v, want %v", allReserved, reserved)
		}
		slices.Sort(allRecords)
		return allPartitions, allRecords
	}
	gotPartitions, gotRecords := said(encode())
	if fmt.Sprint(gotPartitions) != fmt.Sprint(partitions) || !slices.Equal(gotRecords, []int64{-7, 77}) {
		t.Errorf("%v %v", gotPartitions, gotRecords)
	}
	for i := range int64(1000) {
		partitions[i<<50], records[-i<<50] = i, true
	}
	hints := encode()
	gotPartitions, gotRecords = said(hints)
	if len(hints) < 2 || fmt.Sprint(gotPartitions) != fmt.Sprint(partitions) || len(gotRecords) != len(records) {
		t.Errorf("%d notifications say %d partitions and %d records, want %d and %d", len(hints), len(gotPartitions), len(gotRecords), len(partitions), len(records))
	}
	for i := range int64(10_000) {
		partitions[i<<45] = i
	}
	if hints := encode(); len(hints) != 1 || hints[0] != "me *" {
		t.Errorf("a very long one is %d notifications", len(hints))
	}
	for _, text := range []string{"me *", "me ", "me x", "me 1@", "me #", "me 1@2;3", "me 1!x", "me 1!AAAA", strings.Repeat("x", 100)} {
		if _, h := decodeHint(text); len(h.Due)+len(h.Records)+len(h.Reserved) != 0 {
			t.Errorf("%q says %v, want that anything may have happened", text, h)
		}
	}
}
