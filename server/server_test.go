package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// world is a server over real HTTP, on a store in memory. Nothing ticks unless a test says.
type world struct {
	t       *testing.T
	store   store.Store
	actions *action.Service
	logged  *bytes.Buffer
	base    string
	client  *http.Client
}

// transports are the ways to a server.
var transports = []string{"tcp", "unix"}

func newWorld(t *testing.T, transport string) *world {
	t.Helper()
	w := &world{t: t, logged: &bytes.Buffer{}, base: "http://abide", client: &http.Client{}}
	log := slog.New(slog.NewTextHandler(w.logged, nil))
	w.store = memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = w.store.Close() })
	done := action.Func(func(context.Context, action.Run) (action.Outcome, error) {
		return action.Outcome{ExitCode: 3, Output: "done"}, action.ErrInvalid
	})
	var err error
	w.actions, err = action.New(action.Config{Store: w.store, Logger: log, Targets: map[string]action.Definition{"fail": {Target: done}}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(server.New(server.Config{Actions: w.actions, Version: "v0.0.0-test", Logger: log}))
	if transport == "unix" {
		path := filepath.Join(t.TempDir(), "sock")
		_ = s.Listener.Close()
		if s.Listener, err = net.Listen("unix", path); err != nil {
			t.Fatal(err)
		}
		w.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}}
	}
	s.Start()
	t.Cleanup(s.Close)
	t.Cleanup(w.client.CloseIdleConnections)
	if transport == "tcp" {
		w.base = s.URL
	}
	return w
}

// answer is what came back.
type answer struct {
	status int
	kind   string
	body   string
	object map[string]any
}

// do makes a request, written as "METHOD /path".
func (w *world) do(request, body string) answer {
	w.t.Helper()
	method, path, _ := strings.Cut(request, " ")
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, kind: resp.Header.Get("Content-Type"), body: string(data)}
	_ = json.Unmarshal(data, &a.object) // not all of them are objects
	return a
}

// seed adds what the requests are about.
func (w *world) seed() {
	w.t.Helper()
	for _, body := range []string{
		`{"id":"later","slug":"billing","target":"none","at":"2099-01-01T00:00:00Z"}`,
		`{"id":"bad","slug":"billing","target":"fail"}`,
	} {
		if a := w.do("POST /api/v1/actions", body); a.status != http.StatusCreated {
			w.t.Fatalf("add %s: %d %s", body, a.status, a.body)
		}
	}
	if a := w.do("POST /api/v1/schedules", `{"id":"nightly","slug":"billing","target":"none","cron":"30 2 * * *","zone":"Europe/Berlin"}`); a.status != http.StatusCreated {
		w.t.Fatalf("add the schedule: %d %s", a.status, a.body)
	}
	_, _, err := w.actions.Receive(w.t.Context(), action.Received{Tenant: "default", Slug: "billing", Target: "none", Delivery: "1", Body: []byte("\x00\xffraw")})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.actions.Tick(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	for w.do("GET /api/v1/actions/default/bad", "").object["status"] != "failed" {
		if err := w.t.Context().Err(); err != nil {
			w.t.Fatal(err)
		}
	}
}
