package pgstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/store"
)

func request(n int, wait time.Duration) store.ClaimRequest {
	return store.ClaimRequest{Queue: "turns", Routes: []string{"order"}, Max: n, Lease: time.Minute, Wait: wait}
}

// TestProcessesShareTheWork: two stores on one schema, as two processes have it. Each key
// is leased by one of them, and what one finishes the other does not get.
func TestProcessesShareTheWork(t *testing.T) {
	t.Parallel()
	u := newURL(t, "connections", "5")
	stores := []*Store{open(t, u, Options{}), open(t, u, Options{})}
	const keys = 200
	tx := &store.Tx{}
	for i := range keys {
		tx.Put = append(tx.Put, put("turns", fmt.Sprint(i), "a", "order").Put...)
	}
	if err := stores[0].Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	var wg sync.WaitGroup
	for i := range 6 {
		s := stores[i%2]
		wg.Go(func() {
			for {
				claims, err := s.Claim(t.Context(), request(7, 0))
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				if len(claims) == 0 {
					return
				}
				tx := &store.Tx{}
				for _, c := range claims {
					tx.Finish = append(tx.Finish, store.Finish{Lease: c.Lease()})
				}
				if err := s.Commit(t.Context(), tx); err != nil {
					t.Errorf("commit: %v", err)
				}
				mu.Lock()
				for _, c := range claims {
					seen[c.Key.Name]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i := range keys {
		if n := seen[fmt.Sprint(i)]; n != 1 {
			t.Errorf("key %d was claimed %d times", i, n)
		}
	}
	verifies(t, stores[0])
}

// verifies fails if the store contradicts itself.
func verifies(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Verify(t.Context(), func(problem string) { t.Error(problem) }); err != nil {
		t.Errorf("verify: %v", err)
	}
}

// within fails if something takes longer than it may.
func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	began := time.Now()
	f()
	if took := time.Since(began); took > limit {
		t.Errorf("%s took %v, at most %v is allowed", what, took, limit)
	}
}

// hintedStores returns two stores that hear each other.
func hintedStores(t *testing.T) (a, b *Store) {
	t.Helper()
	u := newURL(t)
	a, b = open(t, u, Options{}), open(t, u, Options{Tracer: &statementLog{}})
	eventually(t, "both listen", func() bool { return a.db.Hinted() && b.db.Hinted() })
	return a, b
}

// settles waits until a store of hintedStores that waits has looked, and asks nothing more.
func settles(t *testing.T, s *Store) {
	t.Helper()
	seen := s.db.others.Config().ConnConfig.Tracer.(*statementLog)
	for quiet := false; !quiet; {
		seen.take()
		<-time.After(300 * time.Millisecond)
		quiet = len(seen.take()) == 0
	}
}

// eventually waits until something is so.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("in vain: %s", what)
		}
	}
}

// TestHintsReachOthers: who waits in one process is woken by a commit of another, long
// before it would look by itself.
func TestHintsReachOthers(t *testing.T) {
	t.Parallel()
	a, b := hintedStores(t)
	claimed := make(chan error, 1)
	go func() {
		claims, err := b.Claim(t.Context(), request(1, time.Minute))
		if err == nil && len(claims) != 1 {
			err = fmt.Errorf("%d claims", len(claims))
		}
		claimed <- err
	}()
	key := store.RecordKey{Kind: "instance", Tenant: "acme", ID: "order-1"}
	awaited := make(chan error, 1)
	go func() {
		_, err := b.Await(t.Context(), key, 0)
		awaited <- err
	}()
	eventually(t, "the claim waits", func() bool { return b.Waiting() == 1 })
	settles(t, b)
	tx := put("turns", "order-1", "a", "order")
	tx.PutRecords = []store.PutRecord{{Record: store.Record{Key: key, Status: "running"}}}
	if err := a.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	within(t, 8*time.Second, "being told", func() {
		for _, done := range []chan error{claimed, awaited} {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestListeningAgain: a connection that listens and is lost is made again, and what was
// missed meanwhile is looked for.
func TestListeningAgain(t *testing.T) {
	t.Parallel()
	a, b := hintedStores(t)
	terminate := "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN " + `"` + channel(b.db.config.schema) + `"` + "%'"
	for range 3 {
		done := make(chan []store.Claim, 1)
		go func() {
			claims, err := b.Claim(t.Context(), request(1, time.Minute))
			if err != nil {
				t.Error(err)
			}
			done <- claims
		}()
		eventually(t, "the claim waits", func() bool { return b.Waiting() == 1 })
		execute(t, a.db.config.conn.ConnString(), terminate)
		if err := a.Commit(t.Context(), put("turns", "order-1", "a", "order")); err != nil {
			t.Fatal(err)
		}
		within(t, 8*time.Second, "finding what was missed", func() {
			for _, c := range <-done {
				if err := b.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: c.Lease()}}}); err != nil {
					t.Error(err)
				}
			}
		})
		eventually(t, "both listen again", func() bool { return a.db.Hinted() && b.db.Hinted() })
	}
}

// TestWithoutNotifications: with notifications off, and through a pooler that hands out
// another connection for each transaction, everything is found by looking.
func TestWithoutNotifications(t *testing.T) {
	t.Parallel()
	for _, options := range [][]string{{"notify", "off"}, {"pooler", "transaction"}} {
		t.Run(options[0], func(t *testing.T) {
			t.Parallel()
			u := newURL(t, options...)
			a, b := open(t, u, Options{}), open(t, u, Options{})
			if b.db.Hinted() {
				t.Error("there are no hints, and it says that they arrive")
			}
			done := make(chan []store.Claim, 1)
			go func() {
				claims, err := b.Claim(t.Context(), request(1, time.Minute))
				if err != nil {
					t.Error(err)
				}
				done <- claims
			}()
			eventually(t, "the claim waits", func() bool { return b.Waiting() == 1 })
			tx := put("turns", "order-1", "a", "order")
			tx.Append = []store.Append{{Key: tx.Put[0].Key, Entries: [][]byte{[]byte("one"), nil, []byte("three")}}}
			if err := a.Commit(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
			within(t, 8*time.Second, "finding it", func() {
				if claims := <-done; len(claims) != 1 || claims[0].LogLength != 3 {
					t.Errorf("claimed %v", claims)
				}
			})
			if n, err := b.Count(t.Context(), store.Query{Kind: "instance"}, 10); n != 0 || err != nil {
				t.Errorf("count: %d, %v", n, err)
			}
			verifies(t, a)
		})
	}
}

// TestALeaseOfAnotherEnds: a process that dies with a lease gives it back when the lease is
// over, and the attempt counts.
func TestALeaseOfAnotherEnds(t *testing.T) {
	t.Parallel()
	u := newURL(t)
	a, b := open(t, u, Options{}), open(t, u, Options{})
	if err := a.Commit(t.Context(), put("turns", "order-1", "a", "order")); err != nil {
		t.Fatal(err)
	}
	req := request(1, 0)
	req.Lease = 500 * time.Millisecond
	first, err := a.Claim(t.Context(), req)
	if err != nil || len(first) != 1 {
		t.Fatalf("claim: %v, %v", first, err)
	}
	kill(a)
	second, err := b.Claim(t.Context(), request(1, 20*time.Second))
	if err != nil || len(second) != 1 || second[0].Attempt() != 2 || second[0].Now.Before(first[0].Until) {
		t.Fatalf("claim of what the other left: %+v, %v", second, err)
	}
	err = b.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: first[0].Lease()}}})
	if !errors.Is(err, store.ErrClaimLost) {
		t.Errorf("commit with the lease that ended: %v, want ErrClaimLost", err)
	}
	verifies(t, b)
}

// TestTenantsTakeTurns: however many keys of a tenant are ready, more than a claim looks
// at, those of others are among the next few.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	s := open(t, newURL(t), Options{})
	var flood []store.Message
	message := func(tenant, name string, at time.Time) store.Message {
		return store.Message{Key: store.Key{Queue: "turns", Tenant: tenant, Name: name}, ID: "a", Route: "order", VisibleAt: at}
	}
	for i := range 3000 {
		flood = append(flood, message("flood", fmt.Sprint(i), time.Time{}))
	}
	for i := range 2000 { // who have nothing ready, and are not asked in vain for long
		flood = append(flood, message(fmt.Sprintf("later %d", i), "x", time.Now().Add(time.Hour)))
	}
	if err := s.Commit(t.Context(), &store.Tx{Put: flood}); err != nil {
		t.Fatal(err)
	}
	var small []store.Message
	for i := range 20 {
		small = append(small, message(fmt.Sprintf("small %d", i), "x", time.Time{}))
	}
	if err := s.Commit(t.Context(), &store.Tx{Put: small}); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for range 12 {
		claims, err := s.Claim(t.Context(), request(10, 0))
		if err != nil || len(claims) != 10 {
			t.Fatalf("claim: %d, %v", len(claims), err)
		}
		for _, c := range claims {
			got[c.Key.Tenant]++
		}
	}
	if len(got) != 21 || got["flood"] != 100 {
		t.Errorf("of 120 keys, so many of each tenant were claimed: %v; want one of each small one", got)
	}
}

// TestLastWords: what a process commits just before it closes the store is told too.
func TestLastWords(t *testing.T) {
	t.Parallel()
	u := newURL(t)
	s := open(t, u, Options{})
	open(t, u, Options{}) // a process to be notified
	conn, err := pgx.ConnectConfig(t.Context(), s.db.config.conn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), `LISTEN "`+channel(s.db.config.schema)+`"`); err != nil {
		t.Fatal(err)
	}
	s.cancel() // what tells others has come to its end before the commit
	s.tasks.Wait()
	if err := s.Commit(t.Context(), put("turns", "order-1", "a", "order")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	n, err := conn.WaitForNotification(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, h := decodeHint(n.Payload); len(h.Due) != 1 {
		t.Errorf("told %q", n.Payload)
	}
}

// TestManyRecordsAtOnce: a commit of many records costs another process, which awaits many
// others, next to nothing: whether it is told of each of them, or that anything may have
// changed.
func TestManyRecordsAtOnce(t *testing.T) {
	t.Parallel()
	for _, records := range []int{1000, 20_000} {
		t.Run(fmt.Sprint(records), func(t *testing.T) {
			t.Parallel()
			u := newURL(t)
			seen := &statementLog{}
			a, b := open(t, u, Options{}), open(t, u, Options{Tracer: seen})
			key := func(i int) store.RecordKey { return store.RecordKey{Kind: "instance", ID: fmt.Sprint(i)} }
			const awaited = 1000
			told := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			for i := range awaited {
				wg.Go(func() {
					r, err := b.Await(ctx, key(-i), 0)
					if i == 0 {
						told <- err
					} else if ctx.Err() == nil {
						t.Errorf("awaited %v, %v", r, err)
					}
				})
			}
			reads := 0
			eventually(t, "all were read, and are awaited", func() bool {
				for _, sql := range seen.take() {
					if sql == b.db.text.sql(readRecord) {
						reads++
					}
				}
				return reads >= awaited && b.db.Hinted()
			})
			tx := &store.Tx{}
			for i := range records { // the first of them is awaited
				tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: key(i)}})
			}
			seen.take()
			if err := a.Commit(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
			if err := <-told; err != nil {
				t.Fatal(err)
			}
			if list := seen.take(); len(list) > 20 {
				t.Errorf("%d statements, the last is %s", len(list), list[len(list)-1])
			}
			cancel()
			wg.Wait()
		})
	}
}
