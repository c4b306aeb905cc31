package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

func TestAServerThatIsKilledUnderLoadLosesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	s := open(t, Options{Addresses: []string{server.Addr}})
	l := newLedger(s, 8)
	for range 3 {
		before := l.commits()
		eventually(t, "there are commits", func() bool { return l.commits() > before+50 })
		server.Kill()
		server.Start()
	}
	before := l.commits()
	eventually(t, "there are commits again", func() bool { return l.commits() > before+50 })
	l.end(t, s)
}

func TestScriptsThatTheServerForgetsUnderLoadAreSentAgain(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	s := open(t, Options{Addresses: []string{server.Addr}})
	l := newLedger(s, 4)
	for range 10 {
		before := l.commits()
		eventually(t, "there are commits", func() bool { return l.commits() > before+5 })
		must(t, server, "SCRIPT", "FLUSH")
	}
	l.end(t, s)
	if l.lost > 0 {
		t.Errorf("%d commits failed", l.lost)
	}
}

func TestAConnectionThatIsLostDuringACommitIsNoSentinel(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	relay := testenv.Proxy(t, server.Addr)
	s := open(t, Options{Addresses: []string{relay.Addr()}})
	relay.Stall()
	result := make(chan error, 1)
	go func() {
		result <- s.Commit(context.Background(), &store.Tx{Put: []store.Message{message("turns", "order-1", "a")}})
	}()
	relay.Cut()
	err := <-result
	relay.Resume()
	if err == nil || matchesSentinel(err) {
		t.Errorf("a commit whose connection was cut: %v", err)
	}
	eventually(t, "commits succeed again", func() bool {
		return s.Commit(context.Background(), &store.Tx{Put: []store.Message{message("turns", "order-2", "b")}}) == nil
	})
	// It is there once or not at all, and never twice.
	claims := claim(t, s, request("turns", 0))
	if len(claims) < 1 || len(claims) > 2 {
		t.Errorf("claimed %d keys", len(claims))
	}
	verifies(t, s)
}

func TestAClaimThatWaitsOutlivesARestart(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	o := Options{Addresses: []string{server.Addr}, Prefix: newPrefix(), poll: 50 * time.Millisecond}
	s := open(t, o)
	claimed := make(chan []store.Claim)
	go func() {
		for {
			// While the server is away a claim may return an error: the caller tries again.
			if claims, err := s.Claim(context.Background(), request("turns", time.Hour)); err == nil {
				claimed <- claims
				return
			}
		}
	}()
	eventually(t, "the claim waits", func() bool { return s.waiting() == 1 })
	server.Kill()
	server.Start()
	put(t, open(t, o), message("turns", "order-1", "a"))
	select {
	case claims := <-claimed:
		if len(claims) != 1 {
			t.Errorf("claimed %d keys, want one", len(claims))
		}
	case <-time.After(limit):
		t.Fatal("no waiting call returned")
	}
}

func TestAServerThatHangsEndsWithTheContext(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	s := open(t, Options{Addresses: []string{server.Addr}})
	resume := server.Hang()
	defer resume()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	calls := map[string]func() error{
		"commit": func() error { return s.Commit(ctx, &store.Tx{Put: []store.Message{message("turns", "order-1", "a")}}) },
		"claim":  func() error { _, err := s.Claim(ctx, request("turns", 0)); return err },
		"get":    func() error { _, err := s.Get(ctx, store.RecordKey{Kind: "k", ID: "r"}); return err },
		"stats":  func() error { _, err := s.Stats(ctx); return err },
	}
	for name, call := range calls {
		if err := call(); err == nil {
			t.Errorf("%s: a server that hangs answers", name)
		}
	}
}

func matchesSentinel(err error) bool {
	for _, sentinel := range []error{
		store.ErrConflict, store.ErrClaimLost, store.ErrNotFound, store.ErrInvalid, store.ErrFull,
		store.ErrClosed, store.ErrInUse, store.ErrCorrupt, store.ErrFormat, store.ErrFailed,
	} {
		if isErr(err, sentinel) {
			return true
		}
	}
	return false
}
