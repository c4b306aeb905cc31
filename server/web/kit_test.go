package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/server/telemetry"
	"github.com/abidehq/abide/server/web"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/timer"
)

// Orchestrations and activities of a small shop.
var (
	charge = abide.NewActivity("charge", func(_ context.Context, in map[string]any) (string, error) {
		switch in["card"] {
		case "declined":
			return "", abide.Final(abide.NewError("card-declined", "the card was declined"))
		case "panics":
			panic("no such card")
		}
		return "charge-17", nil
	})
	approved = abide.NewEvent[json.RawMessage]("approved")
	parcel   = abide.NewOrchestration("parcel", func(ctx abide.Context, _ abide.None) (string, error) {
		return "packed", abide.Sleep(ctx, time.Millisecond)
	})
	order = abide.NewOrchestration("order", func(ctx abide.Context, in map[string]any) (map[string]any, error) {
		abide.SetStatus(ctx, "waits for approval")
		if _, err := approved.Wait(ctx); err != nil {
			return nil, err
		}
		abide.SetStatus(ctx, "charging")
		id, err := charge.Call(ctx, in, abide.Retry(1))
		if err != nil {
			return nil, err
		}
		if _, err := abide.Step(ctx, "price", func(context.Context) (int, error) { return 42, nil }); err != nil {
			return nil, err
		}
		if _, err := parcel.Call(ctx, abide.None{}, abide.ID(abide.Self(ctx).ID+"-parcel")); err != nil {
			return nil, err
		}
		abide.NewValue[string]("charge").Set(ctx, id)
		abide.SetStatus(ctx, "done")
		return map[string]any{"charge": id}, nil
	})
	nap = abide.NewOrchestration("nap", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		return abide.None{}, abide.Sleep(ctx, 72*time.Hour, abide.Named("return-window"))
	})
	// long has a history of as many steps as its input says, and grows by one with each event.
	long = abide.NewOrchestration("long", func(ctx abide.Context, in map[string]int) (abide.None, error) {
		if _, err := parcel.Call(ctx, abide.None{}, abide.ID(abide.Self(ctx).ID+"-parcel")); err != nil {
			return abide.None{}, err
		}
		abide.NewTimer(ctx, time.Hour, abide.Named("window"))
		for i := 0; ; i++ {
			if i >= in["steps"] {
				if _, err := approved.Wait(ctx); err != nil {
					return abide.None{}, err
				}
			}
			if in["bytes"] > 1000 { // a turn each: a turn is one commit, which has a largest size
				if err := abide.Sleep(ctx, time.Millisecond); err != nil {
					return abide.None{}, err
				}
			}
			if _, err := abide.Step(ctx, fmt.Sprint("step-", i), func(context.Context) (string, error) {
				return strings.Repeat("x", in["bytes"]), nil
			}); err != nil {
				return abide.None{}, err
			}
		}
	})
	// fan starts as many children as its input says, each of which waits for an event.
	fan = abide.NewOrchestration("fan", func(ctx abide.Context, in map[string]int) (abide.None, error) {
		var parts []abide.Awaitable
		for i := range in["children"] {
			parts = append(parts, part.Go(ctx, abide.None{}, abide.ID(fmt.Sprint(abide.Self(ctx).ID, "-part-", i))))
		}
		return abide.None{}, abide.Join(ctx, parts...)
	})
	part = abide.NewOrchestration("part", func(ctx abide.Context, _ abide.None) (json.RawMessage, error) { return approved.Wait(ctx) })
	// invoice fails until the bank that its input names is open.
	openBanks sync.Map
	invoice   = abide.NewOrchestration("invoice", func(ctx abide.Context, bank string) (string, error) {
		return abide.NewActivity("transfer", transfer).Call(ctx, bank, abide.Retry(1))
	})
	broken = abide.NewOrchestration("broken", func(abide.Context, abide.None) (abide.None, error) { panic("a bug") })
)

func transfer(_ context.Context, bank string) (string, error) {
	if _, open := openBanks.Load(bank); !open {
		return "", abide.NewError("bank-closed", "the bank is closed")
	}
	return "paid by " + bank, nil
}

// sink takes every envelope, unless it is told not to.
type sink struct{ err error }

func (s *sink) Publish(context.Context, []bus.Envelope) error { return s.err }

// world is the page on a store in memory, with all services, as somebody sees it.
type world struct {
	t       *testing.T
	store   store.Store
	engine  *abide.Engine
	timers  *timer.Service
	actions *action.Service
	ops     *operation.Service
	handler http.Handler
	who     auth.Identity
	noted   []string
	log     strings.Builder
	samples []telemetry.Sample
}

// people are who looks at the page.
var (
	admin  = auth.Identity{Kind: auth.Local, Subject: "local", Name: "an operator", Role: auth.Admin}
	reader = auth.Identity{Kind: auth.ByToken, Subject: "token-1", Name: "a reader", Role: auth.Read}
	acme   = auth.Identity{Kind: auth.ByToken, Subject: "token-2", Name: "somebody of acme", Role: auth.Operate, Tenants: []string{"acme"}}
)

func newWorld(t *testing.T, change ...func(*web.Config)) *world {
	t.Helper()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = st.Close() })
	return newWorldOn(t, st, change...)
}

func newWorldOn(t *testing.T, st store.Store, change ...func(*web.Config)) *world {
	t.Helper()
	w := &world{t: t, store: st, who: admin}
	quiet := slog.New(slog.DiscardHandler)
	var err error
	if w.engine, err = abide.New(st, abide.Config{
		Register: []abide.Definition{order, parcel, nap, long, fan, part, broken, claim, charge, invoice, abide.NewActivity("transfer", transfer)}, Logger: quiet, WorkerName: "shop",
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.engine.Close() })
	if w.timers, err = timer.New(timer.Config{Store: st, Logger: quiet, Sinks: []outbox.Sink{{Name: "billing", Bus: &sink{}}}}); err != nil {
		t.Fatal(err)
	}
	runs := action.Func(func(_ context.Context, r action.Run) (action.Outcome, error) {
		if r.Action.Slug == "fails" {
			return action.Outcome{ExitCode: 3, Output: "no route to the bank"}, errors.New("exit status 3")
		}
		return action.Outcome{Output: "done: " + string(r.Body)}, nil
	})
	if w.actions, err = action.New(action.Config{
		Store: st, Logger: quiet, Rate: 20 * time.Millisecond, Targets: map[string]action.Definition{"command": {Target: runs}},
	}); err != nil {
		t.Fatal(err)
	}
	if w.ops, err = operation.New(operation.Config{Store: st, Client: w.engine.Client, Logger: quiet}); err != nil {
		t.Fatal(err)
	}
	cfg := web.Config{
		Store: st, Engine: w.engine, Timers: w.timers, Actions: w.actions, Operations: w.ops, Version: "v0.0.0-test",
		Logger:  slog.New(slog.NewTextHandler(&w.log, nil)),
		Samples: func() []telemetry.Sample { return w.samples },
		Note:    func(_ context.Context, op, _, target, _ string, _ error) { w.noted = append(w.noted, op+" "+target) },
	}
	for _, f := range change {
		f(&cfg)
	}
	page, err := web.New(cfg)
	check.OK(t, err)
	w.handler = http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Request-Id", "request-17")
		page.ServeHTTP(rw, r.WithContext(auth.With(r.Context(), w.who)))
	}))
	return w
}

// runs starts the services that do things by themselves.
func (w *world) runs() {
	w.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{}, 3)
	for _, run := range []func(context.Context) error{w.timers.Run, w.actions.Run, w.ops.Run} {
		go func() {
			_ = run(ctx) // the store is closed at the end of the test
			over <- struct{}{}
		}()
	}
	w.t.Cleanup(func() {
		stop()
		for range 3 {
			<-over
		}
	})
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

func (w *world) do(r *http.Request) answer {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	body, err := io.ReadAll(rec.Result().Body)
	check.OK(w.t, err)
	return answer{rec.Code, rec.Header(), string(body)}
}

// get asks for a page.
func (w *world) get(path string) answer {
	w.t.Helper()
	return w.do(httptest.NewRequest(http.MethodGet, path, nil))
}

// see asks for a page that must be there.
func (w *world) see(path string) string {
	w.t.Helper()
	a := w.get(path)
	if a.status != http.StatusOK {
		w.t.Fatalf("GET %s: status %d:\n%s\n%s", path, a.status, a.body, w.log.String())
	}
	return a.body
}

// post sends a form. Names and values alternate.
func (w *world) post(path string, pairs ...string) answer {
	w.t.Helper()
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Add(pairs[i], pairs[i+1])
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return w.do(r)
}

// done sends a form that must be accepted, and returns where it leads.
func (w *world) done(path string, pairs ...string) string {
	w.t.Helper()
	a := w.post(path, pairs...)
	if a.status != http.StatusSeeOther {
		w.t.Fatalf("POST %s: status %d, want 303:\n%s\n%s", path, a.status, a.body, w.log.String())
	}
	return a.header.Get("Location")
}

// contains reports what a page lacks.
func (w *world) contains(body string, parts ...string) {
	w.t.Helper()
	for _, part := range parts {
		if !strings.Contains(body, part) {
			w.t.Errorf("the page lacks %q:\n%s", part, body)
		}
	}
}

// lacks reports what a page should not have.
func (w *world) lacks(body string, parts ...string) {
	w.t.Helper()
	for _, part := range parts {
		if strings.Contains(body, part) {
			w.t.Errorf("the page has %q:\n%s", part, body)
		}
	}
}

// start starts an instance, and waits until it is in one of the statuses.
func (w *world) start(name, id, tenant string, statuses ...abide.Status) abide.Ref {
	w.t.Helper()
	request, err := abide.OrchestrationNamed[json.RawMessage, abide.None](name).Prepare(w.engine, json.RawMessage(`{"order":17}`), abide.ID(id), abide.Tenant(tenant), abide.Unchecked())
	check.OK(w.t, err)
	started, err := w.engine.Start(w.t.Context(), request)
	check.OK(w.t, err)
	w.until(started[0].Ref, func(i abide.Info) bool {
		return len(statuses) == 0 || slices.Contains(statuses, i.Status)
	})
	return started[0].Ref
}

// until waits until something is true of an instance.
func (w *world) until(ref abide.Ref, f func(abide.Info) bool) abide.Info {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	for after := int64(0); ; {
		info, err := w.engine.WaitChange(ctx, ref, after)
		if err != nil {
			w.t.Fatalf("instance %v: %v", ref, err)
		}
		if f(info) {
			return info
		}
		after = info.Revision
	}
}

// quarantine puts a message into quarantine, and returns its record's ID.
func (w *world) quarantine(tenant, key, reason string, body []byte) string {
	w.t.Helper()
	m := store.Message{Key: store.Key{Queue: "turns", Tenant: tenant, Name: key}, ID: "e/message-1", Body: body, Attempt: 20, PutAt: time.Now()}
	put := store.Quarantine(m, "order", reason, time.Now())
	check.OK(w.t, w.store.Commit(w.t.Context(), &store.Tx{PutRecords: []store.PutRecord{put}}))
	return put.Record.Key.ID
}
