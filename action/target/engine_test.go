package target_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/timer"
)

var (
	// echo returns its input, as text.
	echo = abide.NewOrchestration("echo", func(_ abide.Context, in json.RawMessage) (string, error) { return string(in), nil })

	// typed takes all that is known of an action.
	typed = abide.NewOrchestration("typed", func(_ abide.Context, in target.Input) (target.Input, error) { return in, nil }, abide.Version("2"))

	// listen returns the first two events that it gets, or one if no other comes in an hour.
	listen = abide.NewOrchestration("listen", func(ctx abide.Context, _ abide.None) ([]string, error) {
		var got []string
		for range 2 {
			v, err := abide.NewEvent[json.RawMessage]("deployed").Wait(ctx, abide.Timeout(time.Hour))
			if err != nil {
				return got, nil
			}
			got = append(got, string(v))
		}
		return got, nil
	})
)

// world is an engine on a store in memory, in virtual time.
type world struct {
	*testing.T
	*abide.Engine
	store *memstore.Store
	quiet *slog.Logger
}

func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, store: memstore.New(memstore.Options{}), quiet: slog.New(slog.DiscardHandler)}
		defer w.store.Close()
		engine, err := abide.New(w.store, abide.Config{Register: []abide.Definition{echo, typed, listen}, Logger: w.quiet})
		w.Engine = ok(t, engine, err)
		defer engine.Close()
		f(w)
	})
}

// pass lets time pass, and what happens then come to rest.
func (*world) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// resultOf waits for the result of an instance.
func resultOf[Out any](w *world, id string) Out {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 24*time.Hour)
	defer cancel()
	info, err := w.WaitEnd(ctx, abide.Ref{Tenant: "acme", ID: id})
	if err != nil {
		w.Fatal(err)
	}
	out, err := abide.ResultOf[Out](info)
	return ok(w.T, out, err)
}

func TestStart(t *testing.T) {
	inWorld(t, func(w *world) {
		s, err := target.NewStart(target.StartConfig{Client: w, Orchestration: "echo"})
		s = ok(w.T, s, err)
		for id, c := range map[string]struct {
			run  action.Run
			want string
		}{
			"payload":    {scheduled(`{"a":[1,"é"]}`), `{"a":[1,"é"]}`},
			"no-payload": {scheduled(""), "null"},
			"body":       {webhook(` {"b": 2} `, nil), `{"b":2}`},
			"no-body":    {webhook("", nil), "null"},
		} {
			c.run.Action.ID = id
			out, err := s.Run(w.Context(), c.run)
			if err != nil || out.Output != `started instance "acme/billing-2026-03-01-`+id+`"` || out.ExitCode != 0 {
				t.Errorf("%s: %+v, %v", id, out, err)
			}
			check.Equal(w.T, "the result", resultOf[string](w, "billing-2026-03-01-"+id), c.want)

			c.run.Action.Attempt++ // nothing is started twice
			out, err = s.Run(w.Context(), c.run)
			if err != nil || out.Output != `found instance "acme/billing-2026-03-01-`+id+`"` {
				t.Errorf("%s again: %+v, %v", id, out, err)
			}
		}
		page, err := w.List(w.Context(), abide.Filter{})
		check.Equal(w.T, "the number of instances", len(ok(w.T, page, err).Instances), 4)

		_, err = s.Run(w.Context(), webhook("a=b&c", nil))
		refuses(w.T, err, "target: start echo: the body of the webhook, of 5 bytes, is not JSON")
	})
}

// TestStartAll: an orchestration can get all that is known, with a body that is not JSON.
func TestStartAll(t *testing.T) {
	inWorld(t, func(w *world) {
		s, err := target.NewStart(target.StartConfig{Client: w, Orchestration: "typed", Version: "2", ID: "{tenant}/{slug}/{id}", All: true})
		s = ok(w.T, s, err)
		hook := webhook("a=b\x00\xff", map[string]string{"X-Event": "push"})
		if _, err := s.Run(w.Context(), hook); err != nil {
			t.Fatal(err)
		}
		got := resultOf[target.Input](w, "acme/billing/0190-1")
		if got.Action != "0190-1" || got.Slug != "billing" || string(got.Body) != "a=b\x00\xff" || got.Header["X-Event"] != "push" || got.Payload != nil {
			t.Errorf("the input was %+v", got)
		}
		run := scheduled(`{"a":1}`)
		run.Action.ID, run.Action.Schedule, run.Action.RunAt = "2", "nightly", time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC)
		if _, err := s.Run(w.Context(), run); err != nil {
			t.Fatal(err)
		}
		got = resultOf[target.Input](w, "acme/billing/2")
		if string(got.Payload) != `{"a":1}` || got.Schedule != "nightly" || !got.RunAt.Equal(run.Action.RunAt) || got.Body != nil {
			t.Errorf("the input was %+v", got)
		}
	})
}

// TestStartUnder: an instance is started under limits, the key of which can be that of the action, and waits for
// them when its action has completed.
func TestStartUnder(t *testing.T) {
	inWorld(t, func(w *world) {
		one := abide.NewLimit("one", abide.Concurrency(1))
		perSlug := abide.NewLimit("per-slug", abide.Rate(1, time.Hour), abide.PerKey())
		cfg := target.StartConfig{Client: w, Orchestration: "listen", Under: []target.Under{{Limit: one}, {Limit: perSlug, Key: "{tenant}/{slug}"}}, Priority: 7}
		s, err := target.NewStart(cfg)
		s = ok(w.T, s, err)
		for _, id := range []string{"a", "b"} {
			run := scheduled("")
			run.Action.ID = id
			if out, err := s.Run(w.Context(), run); err != nil || !strings.HasPrefix(out.Output, "started") {
				t.Errorf("%s: %+v, %v", id, out, err)
			}
			w.pass(time.Second)
		}
		for id, want := range map[string]abide.Status{"a": abide.Running, "b": abide.Pending} {
			info, err := w.Get(w.Context(), abide.Ref{Tenant: "acme", ID: "billing-2026-03-01-" + id})
			info = ok(w.T, info, err)
			check.Equal(w.T, "status of "+id, info.Status, want)
			check.Equal(w.T, "priority", info.Priority, 7)
			check.Equal(w.T, "limits", len(info.Limits), 2)
			check.Equal(w.T, "key", info.Limits[1].Key, "acme/billing")
		}
		for says, under := range map[string][]target.Under{
			"StartConfig.Under is not allowed: abide: the name of a limit is empty": {{}},
			"there is no key":                       {{Limit: perSlug}},
			"and there is the key":                  {{Limit: one, Key: "{slug}"}},
			"neither a concurrency nor a rate":      {{Limit: abide.NewLimit("x")}},
			"9 limits, at most 8":                   slices.Repeat([]target.Under{{Limit: one}}, 9),
			"Under.Key is \"{sluk}\", with a place": {{Limit: perSlug, Key: "{sluk}"}},
		} {
			_, err := target.NewStart(target.StartConfig{Client: w, Orchestration: "listen", Under: under})
			refuses(w.T, err, says)
		}
		_, err = target.NewStart(target.StartConfig{Client: w, Orchestration: "listen", Under: cfg.Under, Priority: 101})
		refuses(w.T, err, "priority 101")
	})
}

func TestRaise(t *testing.T) {
	inWorld(t, func(w *world) {
		r, err := target.NewRaise(target.RaiseConfig{Client: w, Event: "deployed", Instance: "watch-{slug}"})
		r = ok(w.T, r, err)
		first, second := scheduled(`{"v":1}`), webhook(`"two"`, nil)
		second.Action.ID = "0190-2"
		// They wait for the instance, and one that is raised once more is the same.
		for _, run := range []action.Run{first, first, second} {
			out, err := r.Run(w.Context(), run)
			if err != nil || out.Output != `raised deployed for instance "acme/watch-billing", which does not exist; kept until it is started` {
				t.Errorf("%+v, %v", out, err)
			}
		}
		_, err = r.Run(w.Context(), webhook("{", nil))
		refuses(w.T, err, "target: raise deployed", "is not JSON")
		if _, err := listen.Start(w.Context(), w, abide.None{}, abide.ID("watch-billing"), abide.Tenant("acme")); err != nil {
			t.Fatal(err)
		}
		check.Equal(w.T, "what was received", strings.Join(resultOf[[]string](w, "watch-billing"), " "), `{"v":1} "two"`)
		wants := func(run action.Run, want string) {
			t.Helper()
			out, err := r.Run(w.Context(), run)
			if err != nil || out.Output != want {
				t.Errorf("%+v, %v; want %s", out, err, want)
			}
		}
		if _, err := listen.Start(w.Context(), w, abide.None{}, abide.ID("watch-waits"), abide.Tenant("acme")); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		waits := scheduled(`{"v":1}`)
		waits.Action.Slug = "waits"
		wants(waits, `raised deployed for instance "acme/watch-waits"`)
	})
}

func TestRaiseAll(t *testing.T) {
	inWorld(t, func(w *world) {
		r, err := target.NewRaise(target.RaiseConfig{Client: w, Event: "deployed", Instance: "watch", All: true})
		r = ok(w.T, r, err)
		if _, err := listen.Start(w.Context(), w, abide.None{}, abide.ID("watch"), abide.Tenant("acme")); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Run(w.Context(), webhook("no JSON", nil)); err != nil {
			t.Fatal(err)
		}
		var in target.Input
		got := resultOf[[]string](w, "watch")
		if err := json.Unmarshal([]byte(got[0]), &in); err != nil || string(in.Body) != "no JSON" {
			t.Errorf("what was received is %q, %v", got, err)
		}
	})
}

// fired is a bus that keeps what is published.
type fired chan bus.Envelope

func (f fired) Publish(_ context.Context, envelopes []bus.Envelope) error {
	for _, e := range envelopes {
		f <- e
	}
	return nil
}

func (w *world) timers() (*timer.Service, fired) {
	w.Helper()
	sink := make(fired, 10)
	s, err := timer.New(timer.Config{Store: w.store, Sinks: []outbox.Sink{{Name: "sink", Bus: sink}}, Logger: w.quiet})
	return ok(w.T, s, err), sink
}

func TestTimer(t *testing.T) {
	inWorld(t, func(w *world) {
		service, sink := w.timers()
		ctx, cancel := context.WithCancel(w.Context())
		done := make(chan error)
		go func() { done <- service.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		late, err := target.NewTimer(target.TimerConfig{Service: service, Delay: time.Hour})
		late = ok(w.T, late, err)
		out, err := late.Run(w.Context(), scheduled(`[1]`))
		due := time.Now().Add(time.Hour).UTC()
		check.Equal(w.T, "the output", ok(w.T, out, err).Output, "timer billing-2026-03-01-0190-1 is due at "+due.Format(time.RFC3339Nano))

		// It does no harm to run it again, before it fires and after.
		again := scheduled(`[1]`)
		again.Action.Attempt = 2
		w.pass(30 * time.Minute)
		if _, err := late.Run(w.Context(), again); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		if _, err := late.Run(w.Context(), again); err != nil {
			t.Fatal(err)
		}
		w.pass(2 * time.Hour)
		check.Equal(w.T, "how often it fired", len(sink), 1)
		e := <-sink
		var reached timer.DueTimeReached
		check.OK(t, json.Unmarshal(e.Payload, &reached))
		if e.TenantID != "acme" || e.CorrelationID != "0190-1" || reached.ServiceCallID != "billing-2026-03-01-0190-1" || !reached.DueAt.Equal(due) || string(reached.Payload) != "[1]" {
			t.Errorf("the envelope is %+v, %+v", e, reached)
		}
	})
}

// TestTimerDueAt: the input may say itself when the timer is due, and a key that is not the
// action's own is moved by the next one.
func TestTimerDueAt(t *testing.T) {
	inWorld(t, func(w *world) {
		service, _ := w.timers()
		own, err := target.NewTimer(target.TimerConfig{Service: service, Key: "{slug}"})
		own = ok(w.T, own, err)
		either, err := target.NewTimer(target.TimerConfig{Service: service, Key: "{slug}", Delay: time.Minute})
		either = ok(w.T, either, err)
		begun := time.Now()
		for i, c := range []struct {
			target *target.Timer
			run    action.Run
			want   time.Time
		}{
			{own, scheduled(`{"dueAt": "2030-01-02T03:04:05+01:00"}`), time.Date(2030, 1, 2, 2, 4, 5, 0, time.UTC)},
			{own, webhook(` {"x": 1, "dueAt": 1900000000123}`, nil), time.UnixMilli(1900000000123)},
			{either, scheduled(`{"dueAt": 1900000000000}`), time.UnixMilli(1900000000000)},
			{either, scheduled(`{"due": 1}`), begun.Add(time.Minute)},
			{either, scheduled(`{"dueAt": null}`), begun.Add(time.Minute)},
			{either, scheduled(`"dueAt"`), begun.Add(time.Minute)},
			{either, webhook("", nil), begun.Add(time.Minute)},
		} {
			c.run.Action.ID = string(rune('a' + i))
			if _, err := c.target.Run(w.Context(), c.run); err != nil {
				t.Fatal(err)
			}
			got, err := service.Get(w.Context(), "acme", "billing")
			if !ok(w.T, got, err).DueAt.Equal(c.want) {
				t.Errorf("%s%s: it is due at %v, want %v", c.run.Action.Payload, c.run.Body, got.DueAt, c.want)
			}
		}
		for text, run := range map[string]action.Run{
			"the input has no dueAt, and TimerConfig.Delay is not set": scheduled(`{"a": 1}`),
			"the body of the webhook, of 1 bytes, is not JSON":         webhook("{", nil),
			"dueAt is not a time; RFC 3339 or milliseconds":            scheduled(`{"dueAt": "tomorrow"}`),
		} {
			_, err := own.Run(w.Context(), run)
			refuses(w.T, err, "target: schedule timer billing: ", text)
		}
	})
}

// TestConfigs: errors name the field and what is allowed.
func TestConfigs(t *testing.T) {
	inWorld(t, func(w *world) {
		service, _ := w.timers()
		long := strings.Repeat("x", 200)
		for says, c := range map[string]any{
			"StartConfig.Client is nil":                          target.StartConfig{Orchestration: "echo"},
			"StartConfig.Orchestration is not allowed":           target.StartConfig{Client: w},
			"StartConfig.Version is not allowed":                 target.StartConfig{Client: w, Orchestration: "echo", Version: long},
			`StartConfig.ID is "{name}", with a placeholder`:     target.StartConfig{Client: w, Orchestration: "echo", ID: "{name}"},
			"RaiseConfig.Client is nil":                          target.RaiseConfig{Event: "e", Instance: "i"},
			"RaiseConfig.Event is not allowed":                   target.RaiseConfig{Client: w, Instance: "i"},
			"RaiseConfig.Instance is empty":                      target.RaiseConfig{Client: w, Event: "e"},
			"RaiseConfig.Instance is \"}\"":                      target.RaiseConfig{Client: w, Event: "e", Instance: "}"},
			"TimerConfig.Service is nil":                         target.TimerConfig{},
			"TimerConfig.Delay is -1s; 0 to 876000h0m0s":         target.TimerConfig{Service: service, Delay: -time.Second},
			`TimerConfig.Key is "{", with a placeholder at byte`: target.TimerConfig{Service: service, Key: "{"},
		} {
			var err error
			switch c := c.(type) {
			case target.StartConfig:
				_, err = target.NewStart(c)
			case target.RaiseConfig:
				_, err = target.NewRaise(c)
			case target.TimerConfig:
				_, err = target.NewTimer(c)
			}
			refuses(t, err, says)
		}
	})
}

// TestEngineErrors: what the engine refuses fails the action.
func TestEngineErrors(t *testing.T) {
	inWorld(t, func(w *world) {
		s, err := target.NewStart(target.StartConfig{Client: w, Orchestration: "echo"})
		run := webhook(`"`+strings.Repeat("x", action.MaxBody)+`"`, nil)
		_, err = ok(w.T, s, err).Run(w.Context(), run)
		fails(w.T, err, "target: start echo: ", "at most 2097152 are allowed")
		check.Error(t, err, abide.ErrInvalid)
	})
}
