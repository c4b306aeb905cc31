package transfer_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/transfer"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/timer"
)

var quiet = slog.New(slog.DiscardHandler)

var (
	approved = abide.NewEvent[string]("approved")
	charge   = abide.NewActivity("charge", func(context.Context, string) (string, error) { return "ch_1", nil })
	absent   = abide.NewActivity("absent", func(context.Context, string) (string, error) { return "", nil })
	order    = abide.NewOrchestration("order", func(ctx abide.Context, in string) (string, error) {
		if _, err := charge.Call(ctx, in); err != nil {
			return "", err
		}
		switch in {
		case "event":
			return approved.Wait(ctx)
		case "timer":
			return "", abide.Sleep(ctx, 72*time.Hour)
		case "task":
			return absent.Call(ctx, in)
		}
		return in, nil
	})
)

// refusing is a sink that takes nothing, for the time being.
type refusing struct{}

func (refusing) Publish(context.Context, []bus.Envelope) error { return errors.New("nobody is there") }

// lived is a store that all parts of Abide have worked on, for an hour of virtual time, and
// were stopped in the middle of it.
type lived struct {
	t     *testing.T
	store *memstore.Store
}

// live has Abide work on the store.
func (l *lived) live() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	engine, err := abide.New(l.store, abide.Config{Register: []abide.Definition{order, charge}, Logger: quiet, WorkerName: "w"})
	check.OK(l.t, err)
	defer func() { check.OK(l.t, engine.Close()) }()
	timers, err := timer.New(timer.Config{Store: l.store, Logger: quiet, Sinks: []outbox.Sink{{Name: "bad", Bus: refusing{}}}})
	check.OK(l.t, err)
	actions, err := action.New(action.Config{Store: l.store, Logger: quiet, Targets: map[string]action.Definition{
		"do":   {Target: action.Func(func(context.Context, action.Run) (action.Outcome, error) { return action.Outcome{}, nil })},
		"fail": {Target: action.Func(func(context.Context, action.Run) (action.Outcome, error) { return action.Outcome{}, errors.New("no") })},
		"hang": {Target: action.Func(func(ctx context.Context, _ action.Run) (action.Outcome, error) {
			<-ctx.Done()
			return action.Outcome{}, ctx.Err()
		})},
	}})
	check.OK(l.t, err)
	operations, err := operation.New(operation.Config{Store: l.store, Client: engine.Client, Logger: quiet})
	check.OK(l.t, err)
	guard, err := auth.New(auth.Config{Store: l.store, Logger: quiet})
	check.OK(l.t, err)
	for _, run := range []func(context.Context) error{timers.Run, actions.Run, operations.Run} {
		wg.Go(func() { _ = run(ctx) })
	}

	for _, in := range []string{"", "event", "timer", "task", "suspended", "event before its instance"} {
		_, err := order.Start(ctx, engine, in, abide.ID("order-"+in))
		check.OK(l.t, err)
	}
	check.OK(l.t, approved.Raise(ctx, engine, "order-nobody", "yes"))
	for key, d := range map[string]time.Duration{"soon": time.Minute, "later": 24 * time.Hour, "cancelled": time.Hour, "moved": time.Hour} {
		_, err := timers.Schedule(ctx, timer.Request{Tenant: "acme", Key: key, Delay: d})
		check.OK(l.t, err)
	}
	_, err = timers.Cancel(ctx, "acme", "cancelled")
	check.OK(l.t, err)
	_, err = timers.Snooze(ctx, "acme", "moved", time.Hour)
	check.OK(l.t, err)
	for _, target := range []string{"do", "fail", "hang"} {
		_, _, err := actions.Receive(ctx, action.Received{Tenant: "acme", Slug: "hook", Target: target, Body: []byte("raw")})
		check.OK(l.t, err)
	}
	_, _, err = actions.Add(ctx, action.Request{Tenant: "acme", Slug: "later", Target: "do", Delay: 24 * time.Hour})
	check.OK(l.t, err)
	_, err = actions.AddSchedule(ctx, action.Plan{Tenant: "acme", ID: "s", Slug: "tick", Target: "do", Every: 7 * time.Minute})
	check.OK(l.t, err)
	<-time.After(30 * time.Second) // by now each instance waits for what its name says
	_, err = operations.Start(ctx, operation.Request{Kind: operation.Suspend, All: true, Reason: "a test"})
	check.OK(l.t, err)
	<-time.After(time.Second)
	_, err = order.Start(ctx, engine, "event", abide.ID("order-after"))
	check.OK(l.t, err)
	admin := auth.With(ctx, auth.Identity{Kind: auth.Local, Subject: "local", Name: "local", Role: auth.Admin})
	_, _, err = guard.CreateToken(admin, auth.NewToken{Name: "t", Role: auth.Admin})
	check.OK(l.t, err)
	check.OK(l.t, guard.Note(admin, auth.Entry{Operation: "create-token"}))

	<-time.After(time.Hour)
	synctest.Wait()
}

// TestWhatAbideKeepsHasNoProblems has all parts of Abide work on a store, and looks at what
// they leave: no rule is stricter than they are, and no queue and no kind is unknown.
func TestWhatAbideKeepsHasNoProblems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &lived{t, memstore.New(memstore.Options{})}
		defer func() { check.OK(l.t, l.store.Close()) }()
		l.live()
		found, checked := problems(t, l.store)
		for _, p := range found {
			t.Errorf("%s: %s", p.Rule, p.Found)
		}
		if checked.Unknown > 0 {
			t.Errorf("%d messages and records are unknown", checked.Unknown)
		}
		// Nothing of it is missing, or the rules had nothing to look at.
		for _, kind := range []string{"instance", "timer", "action", "action.body", "schedule", "operation", "token", "audit"} {
			if n, err := l.store.Count(t.Context(), store.Query{Kind: kind}, store.MaxCount); n == 0 || err != nil {
				t.Errorf("there are %d records of kind %s, error %v", n, kind, err)
			}
		}
		stats, err := l.store.Stats(t.Context())
		check.OK(l.t, err)
		pending := map[string]int{}
		for _, r := range stats.Routes {
			pending[r.Queue] += r.Pending
		}
		for _, queue := range []string{"turns", "activities", "timers", "outbox", "actions", "schedules", "operations"} {
			if pending[queue] == 0 {
				t.Errorf("there are no messages in queue %s", queue)
			}
		}
		// And it goes on the same in a copy.
		to := memstore.New(memstore.Options{})
		defer func() { check.OK(l.t, to.Close()) }()
		c := transfer.Copy{From: l.store, To: to, Source: source}
		if report, err := c.Run(t.Context()); err != nil || !report.Total.Same() {
			t.Fatalf("%+v, %v", report.Total, err)
		}
		l.goOn(to)
	})
}

// goOn has the instances of a copy go on to their end.
func (l *lived) goOn(s store.Store) {
	engine, err := abide.New(s, abide.Config{Register: []abide.Definition{order, charge, absent}, Logger: quiet})
	check.OK(l.t, err)
	defer func() { check.OK(l.t, engine.Close()) }()
	ctx := context.Background()
	for _, id := range []string{"order-event", "order-timer", "order-task"} {
		ref := order.Instance(engine, id)
		check.OK(l.t, engine.Resume(ctx, ref.Ref()))
		if id == "order-event" {
			check.OK(l.t, approved.Raise(ctx, engine, id, "yes"))
		}
		_, err := ref.Result(ctx)
		check.OK(l.t, err)
	}
}
