package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store/memstore"
)

// hall is a server with an engine, over real HTTP, on a store in memory.
type hall struct {
	t      *testing.T
	store  *memstore.Store
	engine *abide.Engine
	server *server.Server
	http   *httptest.Server
	client *http.Client
	logged *strings.Builder
}

// What the hall serves.
var (
	echoFlow = abide.NewOrchestration("echo", func(_ abide.Context, in json.RawMessage) (json.RawMessage, error) { return in, nil })
	waitFlow = abide.NewOrchestration("wait", func(ctx abide.Context, _ abide.None) (json.RawMessage, error) {
		abide.SetStatus(ctx, "waiting")
		return abide.NewEvent[json.RawMessage]("go").Wait(ctx, abide.Timeout(24*time.Hour))
	})
	failFlow = abide.NewOrchestration("fail", func(abide.Context, abide.None) (abide.None, error) {
		return abide.None{}, abide.NewError("declined", "the card was declined")
	})
	stallFlow = abide.NewOrchestration("stall", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		abide.SetStatus(ctx, strings.Repeat("x", 2000))
		return abide.None{}, nil
	})
	loopFlow = abide.NewOrchestration("loop", func(ctx abide.Context, n int) (int, error) {
		if _, err := abide.NewEvent[int]("go").Wait(ctx); err != nil || n == 3 {
			return n, err
		}
		return n, abide.ContinueAsNew(ctx, n+1)
	})
)

// who is a header in which the tests of roles and tenants say who asks: role, and tenants.
const who = "Test-Who"

func newHall(t *testing.T) *hall {
	t.Helper()
	h := &hall{t: t, store: memstore.New(memstore.Options{}), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}, logged: &strings.Builder{}}
	t.Cleanup(func() { _ = h.store.Close() })
	log := rig.Quiet
	var err error
	h.engine, err = abide.New(h.store, abide.Config{Register: []abide.Definition{echoFlow, waitFlow, failFlow, stallFlow, loopFlow}, Logger: log, WorkerName: "desk"})
	check.OK(t, err)
	t.Cleanup(func() { _ = h.engine.Close() })
	h.server, err = server.New(server.Config{Store: h.store, Engine: h.engine, Version: "v0.0.0-test", Logger: log})
	check.OK(t, err)
	h.http = httptest.NewServer(asWho(h.server))
	t.Cleanup(h.http.Close)
	t.Cleanup(h.server.Drain)
	t.Cleanup(h.client.CloseIdleConnections)
	return h
}

// asWho gives a request the identity in its header.
func asWho(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if role, tenants, ok := strings.Cut(r.Header.Get(who), ":"); ok {
			i := auth.Identity{Kind: auth.ByToken, Subject: "t1", Name: "user", Role: auth.Role(role)}
			if tenants != "*" {
				i.Tenants = strings.Split(tenants, ",")
			}
			r = r.WithContext(auth.With(r.Context(), i))
		}
		next.ServeHTTP(w, r)
	})
}

// do makes a request, written as "METHOD /path", with headers as "Name: value".
func (h *hall) do(request, body string, headers ...string) answer {
	h.t.Helper()
	resp := h.send(h.t.Context(), request, body, headers...)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	check.OK(h.t, err)
	a := answer{status: resp.StatusCode, header: resp.Header, kind: resp.Header.Get("Content-Type"), body: string(data)}
	_ = json.Unmarshal(data, &a.object) // not all of them are objects
	return a
}

func (h *hall) send(ctx context.Context, request, body string, headers ...string) *http.Response {
	h.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	req, err := http.NewRequestWithContext(ctx, method, h.http.URL+path, strings.NewReader(body))
	check.OK(h.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	resp, err := h.client.Do(req)
	check.OK(h.t, err)
	return resp
}

// want makes a request that must be answered with a status.
func (h *hall) want(status int, request, body string, headers ...string) answer {
	h.t.Helper()
	a := h.do(request, body, headers...)
	if a.status != status {
		h.t.Fatalf("%s %.300s: %d %.500s, want %d", request, body, a.status, a.body, status)
	}
	return a
}

// started starts an instance and waits until it has a status.
func (h *hall) started(orchestration, tenant, id string, status abide.Status) {
	h.t.Helper()
	h.want(http.StatusCreated, "POST /api/v1/instances", `{"orchestration":"`+orchestration+`","tenant":"`+tenant+`","id":"`+id+`"}`)
	h.until(tenant, id, status)
}

// until waits until an instance has a status.
func (h *hall) until(tenant, id string, status abide.Status) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 20*time.Second)
	defer cancel()
	ref := abide.Ref{Tenant: tenant, ID: id}
	info, err := h.engine.Get(ctx, ref)
	for err == nil && (info.Status != status || status == abide.Running && info.Orchestration == "wait" && info.StatusText == "") {
		info, err = h.engine.WaitChange(ctx, ref, info.Revision)
	}
	if err != nil {
		h.t.Fatalf("%v is %s: %v", ref, info.Status, err)
	}
}

// quarantine puts an event for nobody into quarantine, and returns its path.
func (h *hall) quarantine(tenant string) string {
	h.t.Helper()
	h.want(http.StatusOK, "POST /api/v1/instances/"+tenant+"/nobody/events/go?keep_for=1ms", `1`)
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		page, err := h.engine.Quarantine(h.t.Context(), abide.QuarantineFilter{Tenant: &tenant})
		check.OK(h.t, err)
		if len(page.Messages) > 0 {
			return "/api/v1/quarantine/" + tenant + "/" + page.Messages[0].ID
		}
		// A claim is what moves it there.
		h.do("POST /api/v1/instances?wait=5s", `{"orchestration":"echo"}`)
	}
	h.t.Fatal(errors.New("nothing came to quarantine"))
	return ""
}
