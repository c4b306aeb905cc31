package server_test

import (
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
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// world is a server over real HTTP, on a store in memory. Nothing ticks unless a test says.
type world struct {
	t       *testing.T
	store   store.Store
	actions *action.Service
	logged  *rig.Log
	base    string
	client  *http.Client
}

// transports are the ways to a server.
var transports = []string{"tcp", "unix"}

func newWorld(t *testing.T, transport string) *world {
	t.Helper()
	w := &world{t: t, logged: &rig.Log{}, base: "http://abide", client: &http.Client{}}
	log := slog.New(slog.NewTextHandler(w.logged, nil))
	w.store = memstore.New(memstore.Options{})
	t.Cleanup(func() { _ = w.store.Close() })
	done := action.Func(func(context.Context, action.Run) (action.Outcome, error) {
		return action.Outcome{ExitCode: 3, Output: "done"}, action.ErrInvalid
	})
	var err error
	w.actions, err = action.New(action.Config{Store: w.store, Logger: log, Targets: map[string]action.Definition{"fail": {Target: done}}})
	check.OK(t, err)
	handler, err := server.New(server.Config{Store: w.store, Actions: w.actions, Version: "v0.0.0-test", Logger: log})
	check.OK(t, err)
	s := httptest.NewUnstartedServer(handler)
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
	header http.Header
	kind   string
	body   string
	object map[string]any
}

// do makes a request, written as "METHOD /path Header:value …".
func (w *world) do(request, body string) answer {
	w.t.Helper()
	words := strings.Fields(request)
	method, path := words[0], words[1]
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, strings.NewReader(body))
	check.OK(w.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, ":")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Add(name, value)
	}
	resp, err := w.client.Do(req)
	check.OK(w.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	check.OK(w.t, err)
	a := answer{status: resp.StatusCode, header: resp.Header, kind: resp.Header.Get("Content-Type"), body: string(data)}
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
	check.OK(w.t, err)
	// It may take until the next millisecond before the action is due.
	for w.do("GET /api/v1/actions/default/bad", "").object["status"] != "failed" {
		check.OK(w.t, w.actions.Tick(w.t.Context()))
	}
}
