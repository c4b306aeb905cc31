package action_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
)

// TestWhatFindsNoSlotFollowsWhenOneIsFree, and not only at the next tick. Until then it is
// pending, and not claimed by a service that cannot run it.
func TestWhatFindsNoSlotFollowsWhenOneIsFree(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, slots(3), func(c *action.Config) { c.Rate = time.Hour })
		r.will(takes(time.Second))
		for i := range 10 {
			r.add(action.Request{ID: fmt.Sprint(i), At: r.At(time.Duration(i) * time.Millisecond)})
		}
		rig.Pass(10 * time.Millisecond)
		began := time.Now()
		r.run()
		check.Equal(t, "runs", len(r.all()), 3)
		for i := range 10 {
			want := action.Pending
			if i < 3 {
				want = action.Running
			}
			r.wantStatus(fmt.Sprint(i), want, "")
		}
		stats, err := r.Store.Stats(t.Context())
		if err != nil || stats.Leases != 3 {
			t.Errorf("%d leases, %v", stats.Leases, err)
		}
		rig.Pass(time.Minute)
		for i, run := range r.all() {
			check.Equal(t, fmt.Sprint("the beginning of run ", i), run.began, began.Add(time.Duration(i/3)*time.Second))
		}
		check.Equal(t, "runs", len(r.all()), 10)
	})
}

// TestSlotsAreGivenBack by all that does not come to a run, too.
func TestSlotsAreGivenBack(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := newFixture(t, slots(2))
		for round := range 5 {
			for i := range 5 {
				key := store.Key{Queue: "actions", Tenant: "acme", Name: fmt.Sprint("bad", round, i)}
				err := r.Store.Commit(t.Context(), &store.Tx{Put: []store.Message{{Key: key, ID: "1", Route: "do", Body: []byte("bad")}}})
				check.OK(t, err)
				r.will(func(context.Context, action.Run) (action.Outcome, error) { panic("no") })
				r.add(action.Request{ID: fmt.Sprint(round, "-", i)})
			}
			r.tickAll()
		}
		check.Equal(t, "runs", len(r.all()), 25)
		check.Equal(t, "messages in quarantine", len(r.Records(store.KindQuarantine)), 25)
	})
}

// tickAll ticks until nothing is left.
func (r *fixture) tickAll() {
	r.T.Helper()
	for range 100 {
		if r.Pending() == 0 {
			return
		}
		r.tick()
	}
	r.T.Error("there is no end")
}

// TestTenThousandDueActionsInOneTick, on the embedded store: each runs once, and in bounded
// time.
func TestTenThousandDueActionsInOneTick(t *testing.T) {
	t.Parallel()
	const n = 10_000
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var count atomic.Int64
	var runs [n]atomic.Int32
	all := make(chan struct{})
	s := rig.Disk(t, t.TempDir())
	service, err := action.New(action.Config{
		Store: s, Rate: time.Hour, Slots: 1000, Logger: slog.New(slog.DiscardHandler),
		Targets: map[string]action.Definition{"do": {Target: action.Func(func(_ context.Context, r action.Run) (action.Outcome, error) {
			runs[r.Action.RunAt.Sub(from)/time.Second].Add(1)
			if count.Add(1) == n {
				close(all)
			}
			return action.Outcome{}, nil
		})}},
	})
	check.OK(t, err)
	plan := action.Plan{Tenant: "acme", Slug: "app", Target: "do", ID: "s", Every: time.Second, From: from.AddDate(1000, 0, 0)}
	if _, err := service.AddSchedule(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; i += action.MaxRuns {
		at := from.Add(time.Duration(i) * time.Second)
		if _, err := service.Backfill(t.Context(), "acme", "s", at, at.Add(action.MaxRuns*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	began := time.Now()
	go func() { done <- service.Run(ctx) }()
	select {
	case <-all:
	case <-time.After(time.Minute):
		t.Errorf("%d of %d have run", count.Load(), n)
	}
	t.Logf("%d actions in %v", n, time.Since(began))
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for i := range runs {
		if times := runs[i].Load(); times != 1 {
			t.Errorf("action %d has run %d times", i, times)
		}
	}
	completed, err := s.Count(t.Context(), store.Query{Kind: "action", Statuses: []string{"completed"}}, n+1)
	if err != nil || completed != n {
		t.Errorf("%d are completed, %v", completed, err)
	}
	if stats, err := s.Stats(t.Context()); err != nil || stats.Leases > 0 {
		t.Errorf("there are %d leases, %v", stats.Leases, err)
	}
}
