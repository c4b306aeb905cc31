package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/timer"
)

// yard is a server with timers and operations, over real HTTP, on a store in memory.
type yard struct {
	t          *testing.T
	store      store.Store
	timers     *timer.Service
	operations *operation.Service
	engine     *abide.Engine
	client     *http.Client
	base       string
	down       *outage // the sink "down"
	logged     *rig.Log
}

// outage is a sink that refuses all, for good, until it is mended.
type outage struct {
	mu     sync.Mutex
	mended bool
	got    []string // IDs of envelopes
}

func (o *outage) Publish(_ context.Context, envelopes []bus.Envelope) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.mended {
		return errors.Join(errors.New("the sink is down"), bus.ErrPermanent)
	}
	for i := range envelopes {
		o.got = append(o.got, envelopes[i].ID)
	}
	return nil
}

func newYard(t *testing.T) *yard {
	t.Helper()
	y := &yard{t: t, store: memstore.New(memstore.Options{}), client: &http.Client{}, down: &outage{}, logged: &rig.Log{}}
	t.Cleanup(func() { _ = y.store.Close() })
	log := y.logged.Logger(slog.LevelError)
	quiet := rig.Quiet
	var err error
	y.timers, err = timer.New(timer.Config{
		Store: y.store, Logger: quiet,
		Sinks: []outbox.Sink{{Name: "up", Bus: &bus.Local{}}, {Name: "down", Bus: y.down}},
		SinksOf: func(tenant string) []string {
			return map[string][]string{"broken": {"down", "up"}, "far": {"elsewhere"}, "none": nil}[tenant]
		},
		QuotaOf: func(tenant string) int { return map[string]int{"small": 2}[tenant] },
	})
	check.OK(y.t, err)
	y.engine, err = abide.New(y.store, abide.Config{Register: []abide.Definition{echoFlow, waitFlow}, Logger: quiet})
	check.OK(y.t, err)
	t.Cleanup(func() { _ = y.engine.Close() })
	y.operations, err = operation.New(operation.Config{Store: y.store, Client: y.engine.Client, Logger: quiet})
	check.OK(y.t, err)
	handler, err := server.New(server.Config{
		Store: y.store, Timers: y.timers, Engine: y.engine, Operations: y.operations, Version: "v0.0.0-test", Logger: log,
	})
	check.OK(y.t, err)
	s := httptest.NewServer(asWho(handler))
	t.Cleanup(s.Close)
	t.Cleanup(y.client.CloseIdleConnections)
	y.base = s.URL
	return y
}

// run has timers fire and operations done until the test ends.
func (y *yard) run() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, f := range []func(context.Context) error{y.timers.Run, y.operations.Run} {
		wg.Go(func() { _ = f(ctx) })
	}
	y.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// do makes a request, written as "METHOD /path", with headers as "Name: value".
func (y *yard) do(request, body string, headers ...string) answer {
	y.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	req, err := http.NewRequestWithContext(y.t.Context(), method, y.base+path, strings.NewReader(body))
	check.OK(y.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := y.client.Do(req)
	check.OK(y.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	check.OK(y.t, err)
	a := answer{status: resp.StatusCode, header: resp.Header, kind: resp.Header.Get("Content-Type"), body: string(data)}
	_ = json.Unmarshal(data, &a.object) // not all of them are objects
	return a
}

// try is a request, and what is to come of it.
type try struct {
	request, body string
	status        int
	code          string // of a problem, or empty
	want          string // in the body
	headers       []string
}

// try makes requests, and compares what comes back.
func (y *yard) try(tries ...try) {
	y.t.Helper()
	for _, tt := range tries {
		got := y.do(tt.request, tt.body, tt.headers...)
		code, _ := got.object["code"].(string)
		if got.status != tt.status || !strings.Contains(got.body, tt.want) || code != tt.code {
			y.t.Errorf("%s %.200s %v:\n%d %.600s\nwant %d %s with %s", tt.request, tt.body, tt.headers, got.status, got.body, tt.status, tt.code, tt.want)
		}
		if tt.code != "" && got.kind != "application/problem+json" {
			y.t.Errorf("%s: Content-Type is %s", tt.request, got.kind)
		}
	}
}

// until asks until the answer has a text in it.
func (y *yard) until(request, text string) answer {
	y.t.Helper()
	for {
		got := y.do(request, "")
		if strings.Contains(got.body, text) {
			return got
		}
		check.OK(y.t, y.t.Context().Err())
	}
}

// guarded is a route, and what it takes.
type guarded struct {
	request, body string
	change        bool // it takes the role operate
	tenant        bool // it is about the tenant acme alone
}

// tryGuards checks that each route asks for a role, and for a tenant.
func (y *yard) tryGuards(routes ...guarded) {
	y.t.Helper()
	for _, g := range routes {
		for as, refused := range map[string]bool{
			"none:*": true, ":*": true, "read:*": g.change, "operate:*": false,
			"operate:other": g.tenant, "operate:acme,other": false,
		} {
			got := y.do(g.request, g.body, who+": "+as)
			isRefused := got.status == http.StatusForbidden || got.status == http.StatusNotFound && g.tenant && slices.Contains([]string{"operate:other"}, as)
			if isRefused != refused {
				y.t.Errorf("%s as %s: %d %.200s", g.request, as, got.status, got.body)
			}
		}
	}
}

// wantNothingLogged checks that no mistake of a client counts as one of the server.
func (y *yard) wantNothingLogged() {
	y.t.Helper()
	check.Equal(y.t, "mistakes of clients were logged as those of the server", y.logged.String(), "")
}
