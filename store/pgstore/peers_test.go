package pgstore

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// held makes a process hold a key: it appends to its log.
func held(t *testing.T, s *Store, name string) store.Key {
	t.Helper()
	key := store.Key{Queue: "turns", Tenant: "acme", Name: name}
	if err := s.Commit(t.Context(), &store.Tx{Append: []store.Append{{Key: key, Entries: [][]byte{{1}}}}}); err != nil {
		t.Fatal(err)
	}
	return key
}

// meets waits until one process knows that another one listens, and has its calls answered.
func meets(t *testing.T, s, other *Store) {
	t.Helper()
	eventually(t, "the other process is known", func() bool {
		if err := s.Commit(t.Context(), put("elsewhere", "any", "a", "order")); err != nil {
			t.Fatal(err)
		}
		return s.db.Present(other.db.number) && other.db.Hinted()
	})
}

// TestTurnsStayWithTheHolder: what another process puts to a key goes to the process that
// appended to its log last, also when the other one waits for it.
func TestTurnsStayWithTheHolder(t *testing.T) {
	t.Parallel()
	a, b := hintedStores(t)
	meets(t, b, a)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var taken, elsewhere atomic.Int64
	claims := func(s *Store, n *atomic.Int64) func() {
		return func() {
			for ctx.Err() == nil {
				got, err := s.Claim(ctx, request(10, time.Minute))
				for i := range got {
					n.Add(1)
					if err := s.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: got[i].Lease()}}}); err != nil {
						t.Error(err)
					}
				}
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		}
	}
	const n = 50
	names := make([]string, n)
	for i := range names {
		names[i] = string(rune('a'+i%26)) + string(rune('a'+i/26))
		held(t, a, names[i])
	}
	ended := make(chan struct{}, 2)
	for s, n := range map[*Store]*atomic.Int64{a: &taken, b: &elsewhere} {
		go func() { claims(s, n)(); ended <- struct{}{} }()
	}
	eventually(t, "both wait", func() bool { return a.Waiting() == 1 && b.Waiting() == 1 })
	for i, name := range names {
		if err := b.Commit(t.Context(), put("turns", name, "1", "order")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it was claimed", func() bool { return taken.Load()+elsewhere.Load() == int64(i)+1 })
	}
	cancel()
	<-ended
	<-ended
	if taken.Load() < n*95/100 {
		t.Errorf("the holder claimed %d of %d", taken.Load(), n)
	}
	verifies(t, a)
}

// TestReservationEnds: a key that its holder does not claim is claimed by another process, as the
// first attempt, soon after, although nobody is told of it again.
func TestReservationEnds(t *testing.T) {
	t.Parallel()
	a, b := hintedStores(t)
	meets(t, b, a)
	key := held(t, a, "order-1")
	if err := b.Commit(t.Context(), put("turns", "order-1", "1", "order")); err != nil {
		t.Fatal(err)
	}
	if leases, err := b.Leases(t.Context(), store.LeaseQuery{Key: key}); err != nil || len(leases) != 0 {
		t.Errorf("a reservation is shown as the leases %v, %v", leases, err)
	}
	if got, err := b.Claim(t.Context(), request(1, 0)); err != nil || len(got) != 0 {
		t.Fatalf("%d keys claimed at once, %v; want none, it is reserved", len(got), err)
	}
	within(t, 10*time.Second, "another process claims it", func() {
		got, err := b.Claim(t.Context(), request(1, time.Minute))
		if err != nil || len(got) != 1 || got[0].Attempt() != 1 {
			t.Errorf("claimed %v, %v; want the key at its first attempt", got, err)
		}
	})
}

// TestNothingIsReservedForThoseThatAreGone: the key of a process that has closed the store is
// claimed at once.
func TestNothingIsReservedForThoseThatAreGone(t *testing.T) {
	t.Parallel()
	a, b := hintedStores(t)
	meets(t, b, a)
	held(t, a, "order-1")
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is known to be gone", func() bool {
		if err := b.Commit(t.Context(), put("elsewhere", "any", "b", "order")); err != nil {
			t.Fatal(err)
		}
		return !b.db.Present(a.db.number)
	})
	if err := b.Commit(t.Context(), put("turns", "order-1", "1", "order")); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Claim(t.Context(), request(1, 0)); err != nil || len(got) != 1 {
		t.Errorf("%d keys claimed, %v; want the one", len(got), err)
	}
}

// TestWorkOfOneProcessIsNotAnnounced: commits that put messages which calls of the same process
// claim, and change records that it awaits itself, are announced to others hardly ever.
func TestWorkOfOneProcessIsNotAnnounced(t *testing.T) {
	t.Parallel()
	a, b := hintedStores(t)
	meets(t, a, b)
	eventually(t, "it knows what the other one awaits", a.db.knowsAwaited)
	conn, err := pgx.ConnectConfig(t.Context(), a.db.config.conn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	schema := a.db.config.schema
	for _, name := range []string{channel(schema), ownChannel(schema, b.db.number), watchChannel(schema)} {
		if _, err := conn.Exec(t.Context(), "LISTEN "+pgx.Identifier{name}.Sanitize()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		done := make(chan error, 1)
		go func() {
			got, err := a.Claim(t.Context(), request(1, time.Minute))
			for i := range got {
				err = a.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: got[i].Lease()}}})
			}
			done <- err
		}()
		eventually(t, "it waits", func() bool { return a.Waiting() == 1 })
		tx := put("turns", "order-1", "1", "order")
		tx.PutRecords = []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "instance", ID: "1"}}, Expect: int64(i)}}
		if err := a.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Commit(t.Context(), put("last", "order-1", "1", "order")); err != nil { // which nobody here claims
		t.Fatal(err)
	}
	last := rows.PartitionOf("last", "order")
	for n := 0; ; n++ {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		note, err := conn.WaitForNotification(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if _, h := decodeHint(note.Payload); h.Due[last] != 0 {
			if n > 3 {
				t.Errorf("%d notifications of 100 commits, want hardly any", n)
			}
			return
		}
	}
}

// TestAwaitedRecordIsAnnounced: a process that awaits a record which another one changes is told,
// and a third is not.
func TestAwaitedRecordIsAnnounced(t *testing.T) {
	t.Parallel()
	a, b := hintedStores(t)
	meets(t, a, b)
	meets(t, b, a)
	key := store.RecordKey{Kind: "instance", ID: "1"}
	got := make(chan error, 1)
	go func() {
		_, err := a.Await(t.Context(), key, 0)
		got <- err
	}()
	told := map[int64]map[int64]bool{}
	eventually(t, "the other process knows who awaits it", func() bool {
		b.db.peers.of([]int64{rows.RecordOf(key)}, told)
		return told[a.db.number] != nil
	})
	if len(told) != 1 {
		t.Errorf("%v are told, want one process", told)
	}
	if err := b.Commit(t.Context(), version(key, 0)); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "it is told", func() {
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}

// awaits has a process await a version of a record, and returns what it is told.
func awaits(t *testing.T, s *Store, key store.RecordKey, after int64) <-chan error {
	t.Helper()
	got := make(chan error, 1)
	go func() {
		_, err := s.Await(t.Context(), key, after)
		got <- err
	}()
	return got
}

// TestNewProcessAnnouncesAwaitedRecords: a process that has just opened the store changes a record which
// another one has awaited since before, and has been alone with. That one is told, at once and also when
// the new one announces changes to those only that have said what they await.
func TestNewProcessAnnouncesAwaitedRecords(t *testing.T) {
	t.Parallel()
	u := newURL(t)
	a := open(t, u, Options{})
	eventually(t, "it listens", a.db.Hinted)
	at, later := store.RecordKey{Kind: "instance", ID: "1"}, store.RecordKey{Kind: "instance", ID: "2"}
	told, toldLater := awaits(t, a, at, 0), awaits(t, a, later, 0)
	b := open(t, u, Options{})
	changes := func(key store.RecordKey, got <-chan error) {
		t.Helper()
		if err := b.Commit(t.Context(), version(key, 0)); err != nil {
			t.Fatal(err)
		}
		within(t, 10*time.Second, "it is told", func() {
			if err := <-got; err != nil {
				t.Error(err)
			}
		})
	}
	changes(at, told)
	eventually(t, "the new process knows what is awaited", b.db.knowsAwaited)
	changes(later, toldLater)
}

// TestAwaitedRecordsAreRepeated: a process that lost its listening connection has missed what others
// await, and hears it again.
func TestAwaitedRecordsAreRepeated(t *testing.T) {
	t.Parallel()
	a, b := hintedStores(t)
	meets(t, a, b)
	meets(t, b, a)
	key := store.RecordKey{Kind: "instance", ID: "1"}
	told := awaits(t, a, key, 0)
	eventually(t, "it is known", func() bool { return knows(b, a, key) })
	b.db.peers.forget()
	since := b.db.listening.Load()
	kill := b.db.text.translate.Replace(`SELECT pg_terminate_backend(p.backend) FROM {schema}.processes p WHERE p.id = $1`)
	if _, err := b.db.others.Exec(t.Context(), kill, b.db.process); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it listens again", func() bool { return b.db.listening.Load() != since && b.db.Hinted() })
	within(t, 10*time.Second, "it is told again", func() { // a poll would repeat it, too, after half a minute
		eventually(t, "it is known again", func() bool { return knows(b, a, key) })
	})
	if err := b.Commit(t.Context(), version(key, 0)); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
}

// knows reports whether a process knows that another one awaits a record.
func knows(s, other *Store, key store.RecordKey) bool {
	told := map[int64]map[int64]bool{}
	s.db.peers.of([]int64{rows.RecordOf(key)}, told)
	return told[other.db.number] != nil
}

// forget forgets what others await.
func (i *interest) forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.young)
	clear(i.old)
}

// TestOwnRecordThatAnotherProcessChanges: a process that awaits a record which it wrote last is
// told of a change by another process, if later.
func TestOwnRecordThatAnotherProcessChanges(t *testing.T) {
	t.Parallel()
	a, b := hintedStores(t)
	meets(t, a, b)
	meets(t, b, a)
	key := store.RecordKey{Kind: "instance", ID: "1"}
	if err := a.Commit(t.Context(), version(key, 0)); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := a.Await(t.Context(), key, 1)
		got <- err
	}()
	if err := b.Commit(t.Context(), version(key, 1)); err != nil {
		t.Fatal(err)
	}
	within(t, 10*time.Second, "it is told", func() {
		if err := <-got; err != nil {
			t.Error(err)
		}
	})
}
