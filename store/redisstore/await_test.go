package redisstore

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// awaits starts an Await, and returns when it waits.
func awaits(t testing.TB, s *Store, id string, after int64) (result func() store.Record) {
	t.Helper()
	type outcome struct {
		record store.Record
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		r, err := s.Await(context.Background(), putRecord(id).Record.Key, after)
		done <- outcome{r, err}
	}()
	eventually(t, "it waits", func() bool {
		list := s.awaited()
		return len(list) == 1 && list[0].seen.Load() == after && s.listening.Load()
	})
	return func() store.Record {
		t.Helper()
		select {
		case o := <-done:
			if o.err != nil {
				t.Fatalf("await: %v", o.err)
			}
			return o.record
		case <-time.After(limit):
			t.Fatal("no Await call returned")
		}
		return store.Record{}
	}
}

func write(t testing.TB, s *Store, id, body string, expect int64) {
	t.Helper()
	p := putRecord(id)
	p.Record.Body, p.Expect = []byte(body), expect
	if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{p}}); err != nil {
		t.Fatal(err)
	}
}

func TestWhoWaitsForARecordOfTheSameProcessReadsNothing(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	s := open(t, Options{Addresses: []string{server.Addr}, poll: never})
	write(t, s, "warm-up", "a", 0)
	warm := awaits(t, s, "warm-up", 1)
	write(t, s, "warm-up", "b", 1)
	warm()
	write(t, s, "r", "first", 0)
	before := calls(t, server, "get")
	result := awaits(t, s, "r", 1)
	write(t, s, "r", "second", 1)
	if r := result(); r.Version != 2 || string(r.Body) != "second" {
		t.Errorf("got version %d with %q, want the second", r.Version, r.Body)
	}
	result = awaits(t, s, "r", 2)
	write(t, s, "r", "third", 2)
	if r := result(); r.Version != 3 || string(r.Body) != "third" {
		t.Errorf("got version %d with %q, want the third", r.Version, r.Body)
	}
	// A commit that does not know the version is told.
	result = awaits(t, s, "r", 3)
	write(t, s, "r", "fourth", store.AnyVersion)
	if r := result(); r.Version != 4 || string(r.Body) != "fourth" {
		t.Errorf("got version %d with %q, want the fourth", r.Version, r.Body)
	}
	result = awaits(t, s, "r", 4)
	errs := commitTogether(t, s,
		&store.Tx{PutRecords: []store.PutRecord{putRecord("other"), putRecord("another")}},
		&store.Tx{PutRecords: []store.PutRecord{{Record: putRecord("r").Record, Expect: 1}}},
		&store.Tx{PutRecords: []store.PutRecord{putRecord("r")}})
	if r := result(); r.Version != 5 || errs[0] != nil || !isErr(errs[1], store.ErrConflict) || errs[2] != nil {
		t.Errorf("got version %d and errors %v, want 5 and a conflict in the middle", r.Version, errs)
	}
	if n := calls(t, server, "get") - before; n != 0 {
		t.Errorf("the record was read %d times, want never", n)
	}
}

func TestWhatAnotherProcessWroteIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	a, b := two(t, testenv.SharedRedis(t), never)
	write(t, a, "warm-up", "a", 0)
	warm := awaits(t, a, "warm-up", 1) // now it listens
	write(t, a, "r", "first", 0)
	write(t, b, "r", "second", 1)
	write(t, b, "warm-up", "b", 1)
	warm() // so it has heard the other one too
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r, err := a.Await(ctx, putRecord("r").Record.Key, 1)
	if err != nil || r.Version != 2 {
		t.Errorf("got version %d, error %v, want 2", r.Version, err)
	}
	// A deleted record is not found, whichever process deleted it.
	for i, s := range []*Store{a, b} {
		id := string(rune('x' + i))
		write(t, a, id, "first", 0)
		err := s.Commit(t.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: putRecord(id).Record.Key, Expect: 1}}})
		if err != nil {
			t.Fatal(err)
		}
		if s == b {
			warm = awaits(t, a, "warm-up", 2)
			write(t, b, "warm-up", "c", 2)
			warm()
		}
		if _, err := a.Await(ctx, putRecord(id).Record.Key, 1); !isErr(err, store.ErrNotFound) {
			t.Errorf("%s: got %v, want that it is not there", id, err)
		}
	}
}

func TestAChangeThatNobodyHeardOfEndsAnAwaitAllTheSame(t *testing.T) {
	t.Parallel()
	a, b := two(t, testenv.SharedRedis(t), 50*time.Millisecond)
	write(t, a, "r", "first", 0)
	result := awaits(t, a, "other", 0)
	write(t, b, "r", "second", 1)
	a.mu.Lock()
	a.known.young = map[uint64]int64{digest(recordID(putRecord("r").Record.Key)): 1} // as if it had not heard
	a.mu.Unlock()
	if r, err := a.Await(t.Context(), putRecord("r").Record.Key, 1); err != nil || r.Version != 2 {
		t.Errorf("got version %d, error %v, want 2", r.Version, err)
	}
	write(t, b, "other", "x", 0)
	result()
}

func TestVersionsThatAreKnownAreFew(t *testing.T) {
	t.Parallel()
	var v versions
	for i := range uint64(10 * maxKnown) {
		v.note(i, 7)
		if n := len(v.young) + len(v.old); n > 2*maxKnown {
			t.Fatalf("%d versions are known, want %d at most", n, 2*maxKnown)
		}
	}
	if v.version(10*maxKnown-1) != 7 || v.version(0) != 0 {
		t.Error("the latest are not known, or the oldest are")
	}
	v.note(10*maxKnown-1, 6)
	if got := v.version(10*maxKnown - 1); got != 7 {
		t.Errorf("a version that came late is taken for the latest: %d", got)
	}
}

func TestARecordWithALongStatusLeavesTheListOfIt(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addresses: []string{testenv.SharedRedis(t).Addr}, poll: never})
	for _, n := range []int{109, 110, 111, 500} {
		for expect, status := range []string{strings.Repeat("x", n), "short"} {
			p := putRecord(strconv.Itoa(n))
			p.Record.Status, p.Expect = status, int64(expect)
			if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{p}}); err != nil {
				t.Fatal(err)
			}
		}
		count, err := s.Count(t.Context(), store.Query{Kind: "instance", Statuses: []string{strings.Repeat("x", n)}}, 10)
		if err != nil || count != 0 {
			t.Errorf("%d records have the status of %d bytes, error %v, want none", count, n, err)
		}
	}
	verifies(t, s)
}
