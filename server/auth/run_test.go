package auth

import (
	"context"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
)

// TestRun: it removes what is old, again and again, until it is told to stop.
func TestRun(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	g := r.guard(Config{})
	gone := func(kind string) {
		t.Helper()
		for {
			n, err := r.store.Count(t.Context(), store.Query{Kind: kind}, 10)
			check.OK(t, err)
			if n == 0 {
				return
			}
			r.clock.Advance(sweepEvery)
		}
	}
	open := func() {
		t.Helper()
		if _, err := g.startSession(t.Context(), session{kind: BySession, subject: "p", name: "p", role: Read}); err != nil {
			t.Fatal(err)
		}
	}
	open()
	r.token(g, NewToken{Expires: r.clock.Now().Add(time.Minute)})
	r.note(g, Entry{Operation: "x"})
	r.clock.Advance(DefaultAuditRetention + time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- g.Run(ctx) }()
	gone(kindSession)
	gone(kindToken)
	gone(kindAudit)
	open()
	gone(kindSession)
	cancel()
	if err := <-stopped; err != nil {
		t.Errorf("told to stop: %v", err)
	}
	_ = r.store.Close()
	check.Error(t, g.Run(t.Context()), store.ErrClosed)
}
