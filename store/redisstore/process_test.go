package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// age makes the server think that a process was last heard of a while ago.
func age(t *testing.T, server *testenv.RedisServer, s *Store, by time.Duration) {
	t.Helper()
	must(t, server, "ZADD", s.prefix+"p", itoa(time.Now().Add(-by).UnixMilli()), s.openID)
}

func TestAProcessThatIsNotHeardOfIsGone(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	a, b := two(t, server, never)
	age(t, server, b, processTimeout-10*time.Second)
	if _, err := a.Exclude(t.Context()); !isErr(err, store.ErrInUse) {
		t.Fatalf("a process that was heard of: %v, want ErrInUse", err)
	}
	age(t, server, b, processTimeout+time.Second)
	release, err := a.Exclude(t.Context())
	if err != nil {
		t.Fatalf("a process that was not heard of: %v", err)
	}
	// It was not gone, only slow: it is kept out until the release.
	if err := b.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{putRecord("r")}}); !isErr(err, store.ErrInUse) {
		t.Errorf("commit of one that is kept out: %v, want ErrInUse", err)
	}
	if _, err := b.Claim(t.Context(), request("turns", 0)); !isErr(err, store.ErrInUse) {
		t.Errorf("claim of one that is kept out: %v, want ErrInUse", err)
	}
	put(t, a, message("turns", "order-1", "a"))
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{putRecord("r")}}); err != nil {
		t.Errorf("commit after the release: %v", err)
	}
}

func TestAnExclusionEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	a, b := two(t, server, never)
	age(t, server, b, processTimeout+time.Second)
	if _, err := a.Exclude(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Nobody has heard of it since, so its time is over.
	must(t, server, "HSET", a.prefix+"meta", "owned", itoa(time.Now().Add(-time.Second).UnixMilli()))
	if err := b.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{putRecord("r")}}); err != nil {
		t.Errorf("commit: %v", err)
	}
	// A beat makes it last.
	if err := a.processCommand(t.Context(), "beat"); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{putRecord("r")}}); !isErr(err, store.ErrInUse) {
		t.Errorf("commit after a beat: %v, want ErrInUse", err)
	}
}

func TestACountInPartsIsThatOfOneMoment(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addresses: []string{testenv.SharedRedis(t).Addr}, countBatch: 7})
	tx := &store.Tx{}
	for i := range 100 {
		r := putRecord(fmt.Sprint(i))
		r.Record.Name = []string{"order", "refund"}[i%2]
		tx.PutRecords = append(tx.PutRecords, r)
	}
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	q := store.Query{Kind: "instance", Names: []string{"order"}}
	for _, limit := range []int{1, 7, 49, 50, 51, store.MaxCount} {
		if n, err := s.Count(t.Context(), q, limit); err != nil || n != min(limit, 50) {
			t.Errorf("counted %d up to %d, error %v", n, limit, err)
		}
	}
	// Each commit swaps the names of two: there are 50 at any moment.
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			swap := &store.Tx{PutRecords: []store.PutRecord{putRecord("0"), putRecord("99")}}
			swap.PutRecords[i%2].Record.Name = "order"
			swap.PutRecords[1-i%2].Record.Name = "refund"
			err := s.Commit(t.Context(), swap)
			select {
			case <-stop:
				stopped <- err
				return
			default:
			}
		}
	}()
	for range 50 {
		if n, err := s.Count(t.Context(), q, store.MaxCount); err != nil || n != 50 {
			t.Errorf("counted %d while names change, error %v", n, err)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
