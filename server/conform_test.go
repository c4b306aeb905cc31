package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

var nap = abide.NewOrchestration("nap", func(ctx abide.Context, _ abide.None) (abide.None, error) {
	return abide.None{}, abide.Sleep(ctx, time.Hour, abide.Named("nap"))
})

// script has a request for each operation that answers with JSON, in an order in which all
// of them succeed. {…} in a path is an ID that an answer had.
var script = []struct{ request, body, keep string }{
	{"POST /api/v1/instances", `{"orchestration":"nap","id":"one","tags":{"a":"b"}}`, ""},
	{"POST /api/v1/instances/bulk", `{"instances":[{"orchestration":"nap","id":"two"},{"orchestration":"nap","id":"three"}]}`, ""},
	{"GET /api/v1/instances?tenant=default", "", ""},
	{"GET /api/v1/instances/default/one", "", ""},
	{"GET /api/v1/instances/default/one/waits", "", ""},
	{"GET /api/v1/instances/default/one/history", "", ""},
	{"GET /api/v1/instances/default/one/result", "", ""},
	{"POST /api/v1/instances/default/one/events/paid", `{"cents":7}`, ""},
	{"POST /api/v1/instances/events", `{"events":[{"instance":"one","name":"paid","data":1}]}`, ""},
	{"POST /api/v1/instances/default/one/move-timer", `{"timer":"nap","at":"2099-01-01T00:00:00Z"}`, ""},
	{"POST /api/v1/instances/default/three/fork", `{"event":2,"id":"fork"}`, ""},
	{"POST /api/v1/instances/default/one/suspend?reason=x", "", ""},
	{"GET /api/v1/instances/default/one until suspended", "", ""},
	{"POST /api/v1/instances/default/one/resume", "", ""},
	{"GET /api/v1/instances/default/one until running", "", ""},
	{"POST /api/v1/instances/default/one/cancel?reason=x", "", ""},
	{"GET /api/v1/instances/default/one until cancelled", "", ""},
	{"POST /api/v1/instances/default/one/restart", "", ""},
	{"POST /api/v1/instances/default/two/terminate?reason=x", "", ""},
	{"GET /api/v1/instances/default/two until terminated", "", ""},
	{"DELETE /api/v1/instances/default/two", "", ""},
	{"POST /api/v1/operations", `{"kind":"cancel","filter":{"tenant":"default","orchestrations":["none"]},"reason":"x"}`, "id"},
	{"GET /api/v1/operations", "", ""},
	{"GET /api/v1/operations/{}?tenant=default", "", ""},
	{"POST /api/v1/operations/{}/cancel?tenant=default", "", ""},
	{"PUT /api/v1/timers/acme/later", `{"delay":"1h","payload":{"a":1},"correlation_id":"c"}`, ""},
	{"PUT /api/v1/timers/acme/now", `{"due_at":"2001-01-01T00:00:00Z"}`, ""},
	{"GET /api/v1/timers/acme/now until fired", "", ""},
	{"GET /api/v1/timers", "", ""},
	{"POST /api/v1/timers/acme/now/redeliver", `{"sink":"local"}`, ""},
	{"GET /api/v1/deliveries", "", ""},
	{"GET /api/v1/sinks", "", ""},
	{"POST /api/v1/timers/acme/later/snooze", `{"delay":"1h"}`, ""},
	{"DELETE /api/v1/timers/acme/later", "", ""},
	{"POST /api/v1/timers/bulk", `{"timers":[{"tenant":"acme","key":"x","delay":"1h"},{"tenant":"acme","key":"y","delay":"1h"}]}`, ""},
	{"POST /api/v1/timers/cancel", `{"tenant":"acme"}`, ""},
	{"POST /api/v1/actions", `{"id":"act","slug":"x","target":"none","delay":"1h","payload":{"k":[1]}}`, ""},
	{"GET /api/v1/actions", "", ""},
	{"GET /api/v1/actions/default/act", "", ""},
	{"GET /api/v1/actions/default/{delivery}/body", "", ""},
	{"POST /api/v1/actions/default/act/cancel", "", ""},
	{"POST /api/v1/actions/default/act/retry", "", ""},
	{"POST /api/v1/schedules", `{"id":"s","slug":"x","target":"none","cron":"30 2 * * *","zone":"Europe/Berlin"}`, ""},
	{"GET /api/v1/schedules", "", ""},
	{"GET /api/v1/schedules/default/s", "", ""},
	{"PUT /api/v1/schedules/default/s", `{"id":"s","slug":"x","target":"none","every":"1h"}`, ""},
	{"POST /api/v1/schedules/default/s/pause", "", ""},
	{"POST /api/v1/schedules/default/s/resume", "", ""},
	{"POST /api/v1/schedules/default/s/trigger", "", ""},
	{"POST /api/v1/schedules/default/s/backfill?from=2026-01-01T00:00:00Z&to=2026-01-01T03:00:00Z", "", ""},
	{"DELETE /api/v1/schedules/default/s", "", ""},
	{"GET /api/v1/quarantine", "", ""},
	{"GET /api/v1/quarantine/acme/{first}", "", ""},
	{"POST /api/v1/quarantine/acme/{first}/redrive", "", ""},
	{"DELETE /api/v1/quarantine/acme/{second}", "", ""},
	{"GET /api/v1/orchestrations", "", ""},
	{"GET /api/v1/workers", "", ""},
	{"GET /api/v1/unserved", "", ""},
	{"GET /api/v1/stats", "", ""},
	{"POST /api/v1/backups", `{"path":"/backups/monday"}`, ""},
	{"GET /api/v1/whoami", "", ""},
	{"POST /api/v1/tokens", `{"name":"x","role":"read","tenants":["acme"]}`, "id"},
	{"GET /api/v1/tokens", "", ""},
	{"DELETE /api/v1/tokens/{}", "", ""},
	{"GET /api/v1/sessions", "", ""},
	{"DELETE /api/v1/sessions/{session}", "", ""},
	{"DELETE /api/v1/sessions?subject=nobody", "", ""},
	{"GET /api/v1/audit", "", ""},
}

// TestAnswersAreAsTheDocumentSays makes each operation succeed once, and compares what comes
// back with the schema that the document has for it.
func TestAnswersAreAsTheDocumentSays(t *testing.T) {
	t.Parallel()
	var timers *timer.Service
	w := newWhole(t, func(c *server.Config) {
		engine, err := abide.New(c.Store, abide.Config{Register: []abide.Definition{nap}, Logger: c.Logger, WorkerName: "test"})
		check.OK(t, err)
		t.Cleanup(func() { _ = engine.Close() })
		timers, err = timer.New(timer.Config{Store: c.Store, Logger: c.Logger, Sinks: []outbox.Sink{{Name: "local", Bus: &bus.Local{}}}})
		check.OK(t, err)
		c.Engine, c.Timers, c.Store = engine, timers, backedUp{c.Store, nil}
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- timers.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	ids := w.prepare()
	done := map[string]bool{"stream-instances": true, "stream-history": true} // which are no JSON
	for _, step := range script {
		request, until, _ := strings.Cut(step.request, " until ")
		for name, id := range ids {
			request = strings.ReplaceAll(request, "{"+name+"}", id)
		}
		got := w.do("admin", request, step.body)
		for until != "" && got.object["status"] != until && t.Context().Err() == nil {
			got = w.do("admin", request, step.body)
		}
		if got.status >= 300 {
			t.Fatalf("%s: %d %s", request, got.status, got.body)
		}
		if step.keep != "" {
			ids[""], _ = got.object[step.keep].(string)
		}
		done[w.conforms(step.request, request, got)] = true
	}
	for _, r := range w.routes() {
		if !done[r.id] {
			t.Errorf("%s is not in the script", r.id)
		}
	}
}

// prepare makes what the script needs and no operation makes.
func (w *whole) prepare() map[string]string {
	w.t.Helper()
	a, _, err := w.actions.Receive(w.t.Context(), action.Received{Tenant: "default", Slug: "x", Target: "none", Delivery: "1", Body: []byte("{}")})
	check.OK(w.t, err)
	ids := map[string]string{"delivery": a.ID}
	for _, name := range []string{"first", "second"} {
		m := store.Message{Key: store.Key{Queue: "outbox", Tenant: "acme", Name: "far/" + name}, ID: name, Body: []byte(name)}
		q := store.Quarantine(m, "far", store.ReasonAttempts, time.Now())
		check.OK(w.t, w.store.Commit(w.t.Context(), &store.Tx{PutRecords: []store.PutRecord{q}}))
		ids[name] = q.Record.Key.ID
	}
	w.login("reader")
	sessions, err := w.guard.Sessions(rootContext(w.t), auth.SessionQuery{})
	if err != nil || len(sessions.Sessions) != 1 {
		w.t.Fatal(sessions, err)
	}
	ids["session"] = sessions.Sessions[0].ID
	return ids
}

// conforms compares an answer with the document, and returns the operation that it is of.
func (w *whole) conforms(step, request string, got answer) string {
	w.t.Helper()
	method, path, _ := strings.Cut(strings.Fields(step)[0]+" "+strings.Split(strings.Fields(step)[1], "?")[0], " ")
	doc := w.server.Document()
	for template, item := range doc.Paths {
		op := map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete}[method]
		if op == nil || !fits(template, path) {
			continue
		}
		response := op.Responses[strconv.Itoa(got.status)]
		if response == nil {
			for status, r := range op.Responses {
				if strings.HasPrefix(status, "2") {
					response = r
				}
			}
		}
		if got.status == http.StatusNoContent {
			if got.body != "" {
				w.t.Errorf("%s: 204 with %q", request, got.body)
			}
			return op.OperationID
		}
		if response == nil || response.Content["application/json"] == nil {
			if got.kind == "application/json" {
				w.t.Errorf("%s: the document has no schema for %d, and the answer is %s", request, got.status, got.body)
			}
			return op.OperationID
		}
		var v any
		if err := json.Unmarshal([]byte(got.body), &v); err != nil {
			w.t.Errorf("%s: %v in %s", request, err, got.body)
			return op.OperationID
		}
		res := &huma.ValidateResult{}
		huma.Validate(doc.Components.Schemas, response.Content["application/json"].Schema, huma.NewPathBuffer([]byte("answer"), 6), huma.ModeReadFromServer, v, res)
		for _, err := range res.Errors {
			w.t.Errorf("%s: %v\n%s", request, err, got.body)
		}
		return op.OperationID
	}
	w.t.Errorf("%s is not in the document", request)
	return ""
}

// fits reports whether a path is one of a template. Where both have literal text, that
// must be the same, so that the most literal template is the one that fits.
func fits(template, path string) bool {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if !strings.HasPrefix(want[i], "{") && want[i] != have[i] {
			return false
		}
	}
	return true
}
