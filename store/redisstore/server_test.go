package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

func isErr(err, target error) bool { return errors.Is(err, target) }

func TestAServerThatDoesNotSyncIsRefused(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	for _, row := range []struct {
		name, value, back string
		says              string
		alsoRelaxed       bool
	}{
		{"appendonly", "no", "yes", "a restart loses", false},
		{"appendfsync", "everysec", "always", "the last second", false},
		{"appendfsync", "no", "always", "appendfsync is no", false},
		{"no-appendfsync-on-rewrite", "yes", "no", "while it rewrites", false},
		{"maxmemory-policy", "allkeys-lru", "noeviction", "noeviction", true},
	} {
		must(t, server, "CONFIG", "SET", row.name, row.value, "maxmemory", "1000000000")
		for _, d := range []Durability{Strict, Trusted, Relaxed} {
			s, err := store.Open(t.Context(), fmt.Sprintf("redis://%s/0?durability=%s", server.Addr, d))
			switch {
			case d == Relaxed && !row.alsoRelaxed:
				if err != nil {
					t.Errorf("%s %s, %s: %v", row.name, row.value, d, err)
				}
			case !isErr(err, store.ErrInvalid) || !strings.Contains(err.Error(), row.says):
				t.Errorf("%s %s, %s: %v, want it refused with %q", row.name, row.value, d, err, row.says)
			}
			if err == nil {
				_ = s.Close()
			}
		}
		must(t, server, "CONFIG", "SET", row.name, row.back)
	}
	s, err := store.Open(t.Context(), "redis://"+server.Addr)
	if err != nil {
		t.Fatalf("a server that syncs: %v", err)
	}
	_ = s.Close()
}

func TestAServerThatDoesNotTellItsConfigurationIsTrustedOnlyIfTheOperatorSaysSo(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	must(t, server, "ACL", "SETUSER", "abide", "on", ">secret", "~*", "&*", "+@all", "-config")
	for d, ok := range map[Durability]bool{Strict: false, Trusted: true, Relaxed: true} {
		s, err := store.Open(t.Context(), fmt.Sprintf("redis://abide:secret@%s/0?durability=%s", server.Addr, d))
		if (err == nil) != ok {
			t.Errorf("%s: %v", d, err)
		}
		if err == nil {
			_ = s.Close()
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error has the password: %v", err)
		}
	}
	must(t, server, "CONFIG", "SET", "appendonly", "no")
	_, err := store.Open(t.Context(), fmt.Sprintf("redis://abide:secret@%s/0?durability=trusted", server.Addr))
	if !isErr(err, store.ErrInvalid) {
		t.Errorf("a server without a file is trusted: %v", err)
	}
}

func TestURLsThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, u := range []string{
		"redis://", "redis:/x", "redis://127.0.0.1/x", "redis://127.0.0.1/-1", "redis://127.0.0.1?prefix=", "redis://127.0.0.1?prefix={a}",
		"redis://127.0.0.1?durability=some", "redis://127.0.0.1?replicas=-1", "redis://127.0.0.1?replicas=x", "rediss://127.0.0.1?other=1",
	} {
		if _, err := store.Open(t.Context(), u); !isErr(err, store.ErrInvalid) {
			t.Errorf("%s: %v, want it invalid", u, err)
		}
	}
	for _, o := range []Options{{}, {Addresses: []string{"x"}, Prefix: "{a}"}, {Addresses: []string{"x"}, Durability: "some"}, {Addresses: []string{"x"}, Replicas: -1}} {
		if _, err := Open(t.Context(), o); !isErr(err, store.ErrInvalid) {
			t.Errorf("%+v: %v, want it invalid", o, err)
		}
	}
}

func TestAnotherFormatIsRefused(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	prefix := newPrefix()
	must(t, server, "HSET", "{"+prefix+"}meta", "format", "0")
	if _, err := Open(t.Context(), Options{Addresses: []string{server.Addr}, Prefix: prefix}); !isErr(err, store.ErrFormat) {
		t.Errorf("got %v, want ErrFormat", err)
	}
}

func TestVersionsOfServers(t *testing.T) {
	t.Parallel()
	for version, ok := range map[string]bool{"7.0.15": true, "6.2.0": true, "6.10": true, "10": true, "6.0.9": false, "5.0": false, "6": false, "": false, "x": false} {
		if atLeast(version, 6, 2) != ok {
			t.Errorf("%q: %v, want %v", version, !ok, ok)
		}
	}
}

func TestAServerThatIsFullRefusesACommitAsAWholeAndLetsWorkGoOn(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	s := open(t, Options{Addresses: []string{server.Addr}})
	for _, name := range []string{"a", "b", "c"} {
		put(t, s, message("turns", name, "m"))
	}
	claims := claim(t, s, store.ClaimRequest{Queue: "turns", Routes: []string{"order"}, Max: 2, Lease: time.Minute})
	must(t, server, "CONFIG", "SET", "maxmemory", "1mb")
	full := &store.Tx{
		Finish:     []store.Finish{{Lease: claims[0].Lease()}},
		Put:        []store.Message{message("turns", "d", "m")},
		Append:     []store.Append{{Key: claims[0].Key, Entries: [][]byte{[]byte("entry")}}},
		PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "k", ID: "r"}}}},
	}
	if err := s.Commit(t.Context(), full); !isErr(err, store.ErrFull) {
		t.Fatalf("commit: %v, want ErrFull", err)
	}
	if err := s.Release(t.Context(), store.Release{Lease: claims[0].Lease(), After: time.Second}); !isErr(err, store.ErrFull) {
		t.Errorf("release with a delay: %v, want ErrFull", err)
	}
	verifies(t, s)
	if page, err := s.ReadLog(t.Context(), claims[0].Key, 0); err != nil || page.Length != 0 {
		t.Errorf("a refused commit left a log of length %d, error %v", page.Length, err)
	}
	if lost, err := s.Renew(t.Context(), time.Hour, []store.Lease{claims[0].Lease(), claims[1].Lease()}); err != nil || len(lost) > 0 {
		t.Errorf("renew: lost %v, error %v", lost, err)
	}
	if err := s.Release(t.Context(), store.Release{Lease: claims[1].Lease()}); err != nil {
		t.Errorf("release: %v", err)
	}
	if got := claim(t, s, request("turns", 0)); len(got) != 2 {
		t.Errorf("claimed %d keys of a server that is full, want 2", len(got))
	}
	if err := s.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: claims[0].Lease()}}}); err != nil {
		t.Errorf("finish: %v", err)
	}
	verifies(t, s)
	must(t, server, "CONFIG", "SET", "maxmemory", "0")
	full.Finish = nil
	if err := s.Commit(t.Context(), full); err != nil {
		t.Errorf("commit when there is room again: %v", err)
	}
	verifies(t, s)
}

func TestTheTimeDoesNotRunBackwards(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	s := open(t, Options{Addresses: []string{server.Addr}})
	now := func() time.Time {
		stats, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return stats.Now
	}
	if d := time.Since(now()); d > time.Minute || d < -time.Minute {
		t.Errorf("the time of the store is off by %v", d)
	}
	put(t, s, message("turns", "order-1", "a"))
	later := now().Add(store.MaxClockLead - time.Second) // which stays so until a call has taken a second
	// Another server had a clock that is ahead.
	must(t, server, "HSET", s.prefix+"meta", "state", string(binary.BigEndian.AppendUint64(nil, uint64(later.UnixMilli())))+strings.Repeat("\x00", 24))
	for range 2 {
		if got := now(); got.Before(later) {
			t.Errorf("the time is %v, and was %v", got, later)
		}
	}
	if got := claim(t, s, request("turns", 0))[0].Now; got.Before(later) {
		t.Errorf("the time of a claim is %v, and was %v", got, later)
	}
}

func TestACommitMayBeAsLargeAsTheLimits(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Addresses: []string{testenv.Redis(t).Addr}}) // it keeps the server busy
	key := store.Key{Queue: "turns", Tenant: "acme", Name: "order-1"}
	tx := &store.Tx{Append: []store.Append{{Key: key, Entries: make([][]byte, 12_000)}}}
	for i := range 24_000 {
		tx.Put = append(tx.Put, message("turns", "order-1", fmt.Sprint(i)))
	}
	for i := range 9_000 {
		tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: store.RecordKey{Kind: "k", ID: fmt.Sprint(i)}}})
	}
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	req := request("turns", 0)
	req.MaxMessages = store.MaxMessages
	req.Routes = nil
	for i := range store.MaxRoutes - 1 {
		req.Routes = append(req.Routes, fmt.Sprint("route ", i))
	}
	req.Routes = append(req.Routes, "order", "order")[:store.MaxRoutes]
	claims := claim(t, s, req)
	if len(claims) != 1 || len(claims[0].Messages) != store.MaxMessages || claims[0].LogLength != 12_000 {
		t.Fatalf("claimed %d keys", len(claims))
	}
	finish := &store.Tx{Finish: []store.Finish{{Lease: claims[0].Lease()}}}
	for i := store.MaxMessages; i < 20_000; i++ {
		finish.Delete = append(finish.Delete, store.MessageRef{Key: key, ID: fmt.Sprint(i)})
	}
	if err := s.Commit(t.Context(), finish); err != nil {
		t.Fatal(err)
	}
	pending, err := s.Pending(t.Context(), key, 0)
	if err != nil || len(pending) != 4_000 || pending[0].ID != "20000" {
		t.Fatalf("%d messages are pending, error %v", len(pending), err)
	}
	put(t, s, store.Message{Key: key, ID: "0", Route: "another"}) // all move
	verifies(t, s)
	if err := s.Commit(t.Context(), &store.Tx{DeleteKeys: []store.Key{key}}); err != nil {
		t.Fatal(err)
	}
	verifies(t, s)
	if n, err := s.Count(context.Background(), store.Query{Kind: "k"}, store.MaxCount); err != nil || n != 9_000 {
		t.Errorf("%d records, error %v", n, err)
	}
}
