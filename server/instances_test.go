package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
)

func TestInstanceRoutes(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.started("wait", "default", "w", abide.Running)
	h.started("wait", "acme", "w/1", abide.Running)
	h.started("fail", "default", "f", abide.Failed)
	h.started("stall", "default", "s", abide.Stalled)
	stuck := h.quarantine("acme")
	for _, tt := range []struct {
		request, body string
		status        int
		want          string // in the body
	}{
		{"POST /api/v1/instances", `{"orchestration":"echo","id":"e","input":{"a":["<x>",1.50]},"tags":{"k":"v:1"}}`, 201, `{"tenant":"default","id":"e"`},
		{"POST /api/v1/instances", `{"orchestration":"echo","id":"e","on_exists":"existing"}`, 200, `"existed":true`},
		{"POST /api/v1/instances?wait=20s", `{"orchestration":"echo","id":"e","input":2,"on_exists":"replace"}`, 201, `"result":2`},
		{"POST /api/v1/instances?wait=20s", `{"orchestration":"echo","id":"e","input":2,"replace_if":["running","completed"]}`, 201, `"result":2`},
		{"POST /api/v1/instances?wait=20s", `{"orchestration":"echo","input":{"$base64":"WzFd"}}`, 201, `"result":[1]`},
		{"POST /api/v1/instances?wait=20s", `{"orchestration":"echo","input":{"$base64":"AP8="},"unchecked":true}`, 201, `"status":"stalled"`}, // not for this codec
		{"POST /api/v1/instances?wait=20s", `{"orchestration":"fail"}`, 201, `"failure":{"type":"declined","message":"the card was declined"}`},
		{"POST /api/v1/instances?wait=1ms", `{"orchestration":"wait","tenant":"acme"}`, 201, `"tenant":"acme"`},
		{"POST /api/v1/instances", `{"orchestration":"echo","id":"later","delay":"1h"}`, 201, `"id":"later"`},
		{"POST /api/v1/instances", `{"orchestration":"echo","id":"then","start_at":"2099-01-01T00:00:00Z"}`, 201, `"id":"then"`},
		{"GET /api/v1/instances/default/then", "", 200, `"status":"pending"`},
		{"POST /api/v1/instances/bulk", `{"instances":[{"orchestration":"echo","id":"b1"},{"orchestration":"echo","id":"e"},{"orchestration":"echo"}]}`, 201, `{"tenant":"default","id":"e","existed":true}`},
		{"GET /api/v1/instances?page_size=1", "", 200, `"next_page_token":"`},
		{"GET /api/v1/instances?tenant=acme&status=running,pending&orchestration=wait&orchestration=x&latest=true", "", 200, `"id":"w/1"`},
		{"GET /api/v1/instances?tenant=nobody", "", 200, `{"instances":[]}`},
		{"GET /api/v1/instances?tag=k:v:1", "", 200, `{"instances":[]}`}, // it was replaced
		{"GET /api/v1/instances?from=2020-01-01T00:00:00Z&to=2021-01-01T00:00:00Z", "", 200, `{"instances":[]}`},
		{"GET /api/v1/instances/acme/w%2F1", "", 200, `"status_text":"waiting"`},
		{"GET /api/v1/instances/default/f", "", 200, `"failure":{"type":"declined"`},
		{"GET /api/v1/instances/default/s", "", 200, `"reason":"`},
		{"GET /api/v1/instances/default/e/result?wait=20s", "", 200, `{"tenant":"default","id":"e","status":"completed","result":2}`},
		{"GET /api/v1/instances/default/w/result", "", 202, `{"tenant":"default","id":"w","status":"running"}`},
		{"GET /api/v1/instances/default/w/history", "", 200, `{"instance":{"tenant":"default","id":"w"},"orchestration":"wait","execution":1,"events":[{"id":1,`},
		{"GET /api/v1/instances/acme/w%2F1/history?execution=1", "", 200, `{"instance":{"tenant":"acme","id":"w/1"}`},
		{"GET /api/v1/instances/default/w/waits", "", 200, `"kind":"TimerCreated","name":"go","at":"`},
		{"GET /api/v1/instances/default/w/waits", "", 200, `{"event":0,"kind":"EventReceived","name":"go","at":"`},
		{"GET /api/v1/instances/default/w/lease", "", 200, "{"},
		{"GET /api/v1/signatures", "", 200, `{"signatures":[{"name":"echo",`},
		{"POST /api/v1/instances/default/w/move-timer", `{"timer":"go","at":"2099-01-01T00:00:00+02:00"}`, 204, ""},
		{"POST /api/v1/instances/default/w/fork", `{"event":2,"id":"w2"}`, 201, `{"tenant":"default","id":"w2"}`},
		{"POST /api/v1/instances/default/w/suspend?reason=lunch", "", 204, ""},
		{"POST /api/v1/instances/default/w/resume", "", 204, ""},
		{"POST /api/v1/instances/default/w/cancel?reason=no+more", "", 204, ""},
		{"POST /api/v1/instances/default/w2/events/go?if_awaited=false&keep_for=1h&id=once", `{"a":1}`, 200, `"outcome":"`},
		{"GET /api/v1/instances/default/w2/result?wait=20s", "", 200, `"result":{"a":1}`},
		{"POST /api/v1/instances/acme/w%2F1/events/go", "", 200, `{"outcome":"awaited","text":"the instance waits for go and receives it","status":"running","awaited":["go"]}`},
		{"GET /api/v1/instances/acme/w%2F1/result?wait=20s", "", 200, `"status":"completed"`},
		{"POST /api/v1/instances/events", `{"events":[{"instance":"x","name":"go","data":null},{"instance":"y","name":"go","tenant":"acme"}]}`, 200, `{"events":[{"outcome":"no-instance","text":"kept until the instance is started: it does not exist"},`},
		{"POST /api/v1/instances/default/s/terminate?reason=that+is+all", `{"result":{"so":"far"},"recursive":true}`, 204, ""},
		{"POST /api/v1/instances/default/f/rewind?reason=the+bank+is+back", "", 204, ""},
		{"GET /api/v1/instances/default/f/result?wait=20s", "", 409, `"status":"failed"`},
		{"POST /api/v1/instances/default/f/restart", "", 204, ""},
		{"POST /api/v1/instances/default/e/restart", `{"id":"e2"}`, 204, ""},
		{"GET /api/v1/instances/default/e2/result?wait=20s", "", 200, `"result":2`},
		{"POST /api/v1/instances/default/e/restart", `{"id":"e2","reason":"once more"}`, 409, "already_exists"},
		{"DELETE /api/v1/instances/default/e2?recursive=true", "", 204, ""},
		{"GET /api/v1/instances/default/e2", "", 404, ""},
		{"DELETE /api/v1/instances/default/e", "", 204, ""},
		{"GET /api/v1/workers", "", 200, `"name":"desk"`},
		{"GET /api/v1/orchestrations", "", 200, `{"name":"echo","workers":["`},
		{"GET /api/v1/unserved", "", 200, `{"unserved":[`},
		{"GET /api/v1/stats", "", 200, `"queue":"turns"`},
		{"GET /api/v1/quarantine", "", 200, `"reason":"expired"`},
		{"GET /api/v1/quarantine?tenant=acme&page_size=1", "", 200, `"key":"nobody"`},
		{"GET /api/v1/quarantine?tenant=default", "", 200, `{"messages":[]}`},
		{"GET " + stuck, "", 200, `"queue":"turns"`},
		{"POST " + stuck + "/redrive", "", 204, ""},
	} {
		got := h.do(tt.request, tt.body)
		if got.status != tt.status || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s %s:\n%d %.800s\nwant %d with %s", tt.request, tt.body, got.status, got.body, tt.status, tt.want)
		}
	}
	h.want(http.StatusNotFound, "GET /api/v1/instances/default/e", "")
	stuck = h.quarantine("other")
	h.want(http.StatusNoContent, "DELETE "+stuck, "")
	h.want(http.StatusNotFound, "GET "+stuck, "")
}

func TestInstanceProblems(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.started("wait", "default", "w", abide.Running)
	h.started("echo", "default", "e", abide.Completed)
	h.started("fail", "acme", "f", abide.Failed)
	h.started("stall", "default", "s", abide.Stalled)
	h.started("loop", "default", "l", abide.Running)
	large := `"` + strings.Repeat("x", 5<<20) + `"`
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	many := `{"instances":[` + strings.TrimSuffix(strings.Repeat(`{"orchestration":"echo"},`, 1001), ",") + `]}`
	for _, tt := range []struct {
		request, body string
		status        int
		code          string
		want          string // in the body
	}{
		{"POST /api/v1/instances", "", 400, "invalid", "body"},
		{"POST /api/v1/instances", `{"orchestration":`, 400, "invalid", ""},
		{"POST /api/v1/instances", `{}`, 422, "invalid", "orchestration"},
		{"POST /api/v1/instances", `{"orchestration":""}`, 422, "invalid", "orchestration"},
		{"POST /api/v1/instances", `{"orchestration":"echo","dlay":"1h"}`, 422, "invalid", "dlay"},
		{"POST /api/v1/instances", `{"orchestration":"a@b"}`, 400, "invalid", "@"},
		{"POST /api/v1/instances", `{"orchestration":".x"}`, 400, "invalid", "dot"},
		{"POST /api/v1/instances", `{"orchestration":"` + strings.Repeat("x", 129) + `"}`, 400, "invalid", "129"},
		{"POST /api/v1/instances", `{"orchestration":"echo","id":"` + strings.Repeat("x", 513) + `"}`, 400, "invalid", "513"},
		{"POST /api/v1/instances", `{"orchestration":"echo","tenant":"` + strings.Repeat("x", 129) + `"}`, 400, "invalid", "129"},
		{"POST /api/v1/instances", `{"orchestration":"echo","input":{"$base64":"!"}}`, 400, "invalid", "base64"},
		{"POST /api/v1/instances", `{"orchestration":"echo","delay":"1h","start_at":"2099-01-01T00:00:00Z"}`, 400, "invalid", "only one"},
		{"POST /api/v1/instances", `{"orchestration":"echo","delay":"-1h"}`, 400, "invalid", "negative"},
		{"POST /api/v1/instances", `{"orchestration":"echo","delay":"soon"}`, 422, "invalid", "soon"},
		{"POST /api/v1/instances", `{"orchestration":"echo","start_at":"tomorrow"}`, 422, "invalid", "start_at"},
		{"POST /api/v1/instances", `{"orchestration":"echo","on_exists":"shrug"}`, 422, "invalid", "on_exists"},
		{"POST /api/v1/instances", `{"orchestration":"echo","id":"e","on_exists":"reject"}`, 409, "already_exists", "completed"},
		{"POST /api/v1/instances", `{"orchestration":"echo","id":"e","replace_if":["running"]}`, 409, "already_exists", "completed"},
		{"POST /api/v1/instances", `{"orchestration":"echo","id":"e","replace_if":["completed"],"on_exists":"reject"}`, 400, "invalid", "only one"},
		{"POST /api/v1/instances", `{"orchestration":"echo","id":"e","replace_if":["asleep"]}`, 422, "invalid", "replace_if"},
		{"POST /api/v1/instances", `{"orchestration":"wait","id":"e"}`, 409, "already_exists", "echo"},
		{"POST /api/v1/instances?wait=soon", `{"orchestration":"echo"}`, 422, "invalid", "soon"},
		{"POST /api/v1/instances?wait=-1s", `{"orchestration":"echo"}`, 422, "invalid", "negative"},
		{"POST /api/v1/instances", `{"orchestration":"echo","input":` + large + `}`, 413, "too_large", ""},
		{"POST /api/v1/instances", `{"orchestration":"echo","input":` + large[:3<<20] + `"}`, 400, "invalid", "2097152"},
		{"POST /api/v1/instances", `{"orchestration":"echo","input":` + deep + `}`, 400, "invalid", ""},
		{"POST /api/v1/instances/bulk", `{"instances":[]}`, 422, "invalid", "instances"},
		{"POST /api/v1/instances/bulk", many, 422, "invalid", "1000"},
		{"POST /api/v1/instances/bulk", `{"instances":[{"orchestration":"echo","id":"n"},{"orchestration":"echo","id":"e","on_exists":"reject"}]}`, 409, "already_exists", `\"e\"`},
		{"GET /api/v1/instances/default/n", "", 404, "not_found", "n"},
		{"POST /api/v1/instances/bulk", `{"instances":[{"orchestration":"echo","id":"n"},{"orchestration":"echo","id":"n"}]}`, 400, "invalid", "twice"},
		{"GET /api/v1/instances?page_size=0", "", 422, "invalid", "page_size"},
		{"GET /api/v1/instances?page_size=10001", "", 422, "invalid", "page_size"},
		{"GET /api/v1/instances?page_token=forged", "", 400, "invalid", ""},
		{"GET /api/v1/instances?status=asleep", "", 422, "invalid", "status"},
		{"GET /api/v1/instances?from=yesterday", "", 422, "invalid", "from"},
		{"GET /api/v1/instances?tag=k", "", 400, "invalid", "name=value"},
		{"GET /api/v1/instances?tag=%25zz:1", "", 400, "invalid", "name=value"},
		{"GET /api/v1/instances?stauts=failed", "", 422, "invalid", "stauts"},
		{"GET /api/v1/instances/default/none", "", 404, "not_found", "none"},
		{"GET /api/v1/instances/acme/e", "", 404, "not_found", "acme/e"},
		{"GET /api/v1/instances/default/%FF", "", 400, "invalid", "UTF-8"},
		{"GET /api/v1/instances/default/" + strings.Repeat("x", 10_000), "", 400, "invalid", "10000"},
		{"GET /api/v1/instances/default/%2E%2E", "", 404, "not_found", ".."},
		{"GET /api/v1/instances/default/%00", "", 404, "not_found", ""},
		{"GET /api/v1/instances/default/w?after=-1", "", 422, "invalid", "after"},
		{"GET /api/v1/instances/default/w?wait=x", "", 422, "invalid", "wait"},
		{"GET /api/v1/instances/default/none/result?wait=20s", "", 404, "not_found", "none"},
		{"GET /api/v1/instances/acme/f/result", "", 409, "instance_failed", `"failure":{"type":"declined","message":"the card was declined"}`},
		{"GET /api/v1/instances/default/s/result?wait=20s", "", 409, "instance_stalled", `"status":"stalled"`},
		{"GET /api/v1/instances/default/none/history", "", 404, "not_found", "none"},
		{"GET /api/v1/instances/default/w/history?execution=7", "", 404, "not_found", "not of 7"},
		{"GET /api/v1/instances/default/w/history?execution=-1", "", 422, "invalid", "execution"},
		{"GET /api/v1/instances/default/w/history?page_token=x", "", 400, "invalid", "page_token"},
		{"GET /api/v1/instances/default/w/history?page_token=1.99999", "", 404, "not_found", "no event 99999"},
		{"GET /api/v1/instances/default/none/history/stream", "", 404, "not_found", "none"},
		{"GET /api/v1/instances/default/w/history/stream?after=x", "", 400, "invalid", "1.42"},
		{"GET /api/v1/instances/default/none/waits", "", 404, "not_found", "none"},
		{"GET /api/v1/instances/default/none/lease", "", 404, "not_found", "none"},
		{"GET /api/v1/instances/stream?status=asleep", "", 422, "invalid", "status"},
		{"POST /api/v1/instances/default/w/events/a@b", "", 400, "invalid", "@"},
		{"POST /api/v1/instances/default/w/events/go", `{`, 400, "invalid", ""},
		{"POST /api/v1/instances/default/none/events/go?must_exist=true", "1", 404, "not_found", "none"},
		{"POST /api/v1/instances/default/e/events/go", "1", 409, "wrong_state", "completed"},
		{"POST /api/v1/instances", `{"orchestration":"ecko"}`, 422, "unserved", "echo"},
		{"POST /api/v1/instances", `{"orchestration":"echo","input":{"$base64":"AP8="}}`, 422, "invalid_payload", "not JSON"},
		{"POST /api/v1/instances/default/w/correct", `{"data":1}`, 409, "wrong_state", "running"},
		{"POST /api/v1/instances/default/none/correct", `{"data":1}`, 404, "not_found", "none"},
		{"POST /api/v1/instances/default/s/correct", `{"data":1}`, 409, "wrong_state", "not stalled because of a payload"},
		{"POST /api/v1/instances/default/s/resume", "", 409, "instance_stalled", "stalled again"},
		{"POST /api/v1/instances/default/w/events/go", large, 413, "too_large", ""},
		{"POST /api/v1/instances/default/w/events/go?keep_for=-1s", "", 422, "invalid", "keep_for"},
		{"POST /api/v1/instances/default/w/events/go?id=" + strings.Repeat("x", 129), "", 400, "invalid", "129"},
		{"POST /api/v1/instances/events", `{"events":[{"instance":"x"}]}`, 422, "invalid", "name"},
		{"POST /api/v1/instances/events", `{"events":[{"instance":"x","name":"go","data":{"$base64":3}}]}`, 400, "invalid", "base64"},
		{"POST /api/v1/instances/default/none/cancel", "", 404, "not_found", "none"},
		{"POST /api/v1/instances/default/e/cancel", "", 409, "wrong_state", "completed"},
		{"POST /api/v1/instances/default/w/cancel?reason=" + strings.Repeat("x", 5000), "", 400, "invalid", "4096"},
		{"POST /api/v1/instances/default/none/terminate", "", 404, "not_found", "none"},
		{"POST /api/v1/instances/default/e/terminate", "", 409, "wrong_state", "completed"},
		{"POST /api/v1/instances/default/none/suspend", "", 404, "not_found", "none"},
		{"POST /api/v1/instances/default/e/suspend", "", 409, "wrong_state", "completed"},
		{"POST /api/v1/instances/default/none/resume", "", 404, "not_found", "none"},
		{"POST /api/v1/instances/default/e/resume", "", 409, "wrong_state", "completed"},
		{"POST /api/v1/instances/default/none/rewind", "", 404, "not_found", "none"},
		{"POST /api/v1/instances/default/w/rewind", "", 409, "wrong_state", "failed"},
		{"POST /api/v1/instances/default/none/restart", "", 404, "not_found", "none"},
		{"POST /api/v1/instances/default/w/restart", "", 409, "wrong_state", "ended"},
		{"POST /api/v1/instances/default/none/fork", `{"event":1}`, 404, "not_found", "none"},
		{"POST /api/v1/instances/default/w/fork", `{"event":0}`, 422, "invalid", "event"},
		{"POST /api/v1/instances/default/w/fork", `{"event":999}`, 400, "invalid", "events 1 to"},
		{"POST /api/v1/instances/default/w/fork", `{"event":2,"id":"e"}`, 409, "already_exists", "e"},
		{"POST /api/v1/instances/default/none/move-timer", `{"timer":"go","at":"2099-01-01T00:00:00Z"}`, 404, "not_found", "none"},
		{"POST /api/v1/instances/default/w/move-timer", `{"timer":"nap","at":"2099-01-01T00:00:00Z"}`, 404, "not_found", "nap"},
		{"POST /api/v1/instances/default/w/move-timer", `{"timer":"go","at":"9500-01-01T00:00:00Z"}`, 400, "invalid", "9000"},
		{"POST /api/v1/instances/default/w/move-timer", `{"timer":"go"}`, 422, "invalid", "at"},
		{"DELETE /api/v1/instances/default/none", "", 404, "not_found", "none"},
		{"DELETE /api/v1/instances/default/w", "", 409, "wrong_state", "running"},
		{"PUT /api/v1/instances/default/w", `{}`, 405, "wrong_method", "DELETE"},
		{"GET /api/v1/quarantine/default/none", "", 404, "not_found", "none"},
		{"POST /api/v1/quarantine/default/none/redrive", "", 404, "not_found", "none"},
		{"DELETE /api/v1/quarantine/default/none", "", 404, "not_found", "none"},
		{"GET /api/v1/quarantine?page_token=forged", "", 400, "invalid", ""},
		{"GET /api/v1/workers?x=1", "", 422, "invalid", "x"},
	} {
		got := h.do(tt.request, tt.body)
		if got.status != tt.status || got.object["code"] != tt.code || !strings.Contains(got.body, tt.want) {
			t.Errorf("%.200s %.100s:\n%d %.500s\nwant %d %s with %s", tt.request, tt.body, got.status, got.body, tt.status, tt.code, tt.want)
		}
		if got.kind != "application/problem+json" || got.object["status"] != float64(tt.status) || got.object["title"] == "" {
			t.Errorf("%.200s: not a problem as RFC 9457 has it: %s %.500s", tt.request, got.kind, got.body)
		}
	}
}

// routesOfInstances are all routes of instances, workers, quarantine and statistics, with
// what a request to them needs.
var routesOfInstances = []struct {
	request, body string
	changes       bool
}{
	{"POST /api/v1/instances", `{"orchestration":"echo","tenant":"TENANT"}`, true},
	{"POST /api/v1/instances/bulk", `{"instances":[{"orchestration":"echo","tenant":"TENANT"}]}`, true},
	{"POST /api/v1/instances/events", `{"events":[{"instance":"x","name":"go","tenant":"TENANT"}]}`, true},
	{"GET /api/v1/instances?tenant=TENANT", "", false},
	{"GET /api/v1/instances/stream?tenant=TENANT", "", false},
	{"GET /api/v1/instances/TENANT/i", "", false},
	{"DELETE /api/v1/instances/TENANT/i", "", true},
	{"GET /api/v1/instances/TENANT/i/result", "", false},
	{"GET /api/v1/instances/TENANT/i/history", "", false},
	{"GET /api/v1/instances/TENANT/i/history/stream", "", false},
	{"GET /api/v1/instances/TENANT/i/waits", "", false},
	{"GET /api/v1/instances/TENANT/i/lease", "", false},
	{"POST /api/v1/instances/TENANT/i/events/go", "", true},
	{"POST /api/v1/instances/TENANT/i/cancel", "", true},
	{"POST /api/v1/instances/TENANT/i/terminate", "", true},
	{"POST /api/v1/instances/TENANT/i/suspend", "", true},
	{"POST /api/v1/instances/TENANT/i/resume", "", true},
	{"POST /api/v1/instances/TENANT/i/restart", "", true},
	{"POST /api/v1/instances/TENANT/i/rewind", "", true},
	{"POST /api/v1/instances/TENANT/i/fork", `{"event":1}`, true},
	{"POST /api/v1/instances/TENANT/i/correct", `{"discard":true}`, true},
	{"GET /api/v1/instances/TENANT/i/undelivered", "", false},
	{"POST /api/v1/instances/TENANT/i/move-timer", `{"timer":"x","at":"2099-01-01T00:00:00Z"}`, true},
	{"GET /api/v1/quarantine?tenant=TENANT", "", false},
	{"GET /api/v1/quarantine/TENANT/q", "", false},
	{"POST /api/v1/quarantine/TENANT/q/redrive", "", true},
	{"DELETE /api/v1/quarantine/TENANT/q", "", true},
	{"GET /api/v1/orchestrations", "", false},
	{"GET /api/v1/workers", "", false},
	{"GET /api/v1/workers/WORKER/leases", "", false},
	{"POST /api/v1/workers/WORKER/drain", "", true},
	{"GET /api/v1/unserved", "", false},
	{"GET /api/v1/stats", "", false},
	{"GET /api/v1/shards", "", false},
}

func TestInstanceRoutesAreInTheDocument(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	doc := h.want(http.StatusOK, "GET /openapi.json", "")
	var spec struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	check.OK(t, json.Unmarshal([]byte(doc.body), &spec))
	known := strings.NewReplacer("/TENANT/i", "/{tenant}/{id}", "/TENANT/q", "/{tenant}/{id}", "/events/go", "/events/{name}", "/workers/WORKER", "/workers/{id}")
	listed := map[string]bool{}
	for _, r := range routesOfInstances {
		method, path, _ := strings.Cut(r.request, " ")
		path, _, _ = strings.Cut(known.Replace(path), "?")
		if spec.Paths[path][strings.ToLower(method)] == nil {
			t.Errorf("%s %s is not in the document", method, path)
		}
		listed[strings.ToLower(method)+path] = true
	}
	for path, methods := range spec.Paths {
		for method, op := range methods {
			noun, _, _ := strings.Cut(strings.TrimPrefix(path, "/api/v1/"), "/")
			if slices.Contains([]string{"instances", "quarantine", "workers", "orchestrations", "unserved", "stats"}, noun) && !listed[method+path] {
				t.Errorf("%s %s is in the document, and not in this test", method, path)
			}
			if strings.HasSuffix(path, "/stream") && !strings.Contains(string(op), "text/event-stream") {
				t.Errorf("%s is not a stream in the document", path)
			}
		}
	}
}

// TestInstanceRolesAndTenants: each route, with a role that is too low, with none, and for a
// tenant that the caller may not use.
func TestInstanceRolesAndTenants(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	for _, r := range routesOfInstances {
		ask := func(identity, tenant string) answer {
			resp := h.send(t.Context(), strings.ReplaceAll(r.request, "TENANT", tenant), strings.ReplaceAll(r.body, "TENANT", tenant), who+": "+identity)
			defer resp.Body.Close()
			a := answer{status: resp.StatusCode}
			if resp.StatusCode == http.StatusForbidden {
				_ = json.NewDecoder(resp.Body).Decode(&a.object) // checked by its code
			}
			return a
		}
		refused := func(what string, a answer) {
			if a.status != http.StatusForbidden || a.object["code"] != "forbidden" {
				t.Errorf("%s: %s: %d", r.request, what, a.status)
			}
		}
		allowed := func(what string, a answer) {
			if a.status == http.StatusForbidden || a.status == http.StatusUnauthorized || a.status >= 500 {
				t.Errorf("%s: %s: %d %v", r.request, what, a.status, a.object)
			}
		}
		refused("no role", ask("nobody:*", "acme"))
		if r.changes {
			refused("read", ask("read:*", "acme"))
		} else {
			allowed("read", ask("read:*", "acme"))
		}
		allowed("operate", ask("operate:*", "acme"))
		if !strings.Contains(r.request+r.body, "TENANT") { // it is about all of them
			refused("some tenants", ask("admin:other,acme", "acme"))
			continue
		}
		allowed("its tenant", ask("operate:other,acme", "acme"))
		allowed("the default tenant", ask("operate:default", "default"))
		refused("another tenant", ask("operate:acme", "other"))
		refused("the default tenant is another", ask("operate:acme", "default"))
		refused("another tenant than default", ask("operate:default", "acme"))
	}
	// Without a tenant it is the default one, or the only one that the caller has.
	for _, body := range []string{`{"orchestration":"echo"}`, `{"orchestration":"echo","tenant":""}`} {
		h.want(http.StatusForbidden, "POST /api/v1/instances", body, who+": operate:acme")
		h.want(http.StatusCreated, "POST /api/v1/instances", body, who+": operate:default")
	}
	h.want(http.StatusForbidden, "POST /api/v1/instances/bulk", `{"instances":[{"orchestration":"echo","tenant":"acme"},{"orchestration":"echo"}]}`, who+": operate:acme")
	h.started("echo", "acme", "mine", abide.Completed)
	h.started("echo", "other", "theirs", abide.Completed)
	for _, path := range []string{"instances", "quarantine"} {
		h.want(http.StatusForbidden, "GET /api/v1/"+path, "", who+": read:acme,other")
		got := h.want(http.StatusOK, "GET /api/v1/"+path, "", who+": read:acme")
		if strings.Contains(got.body, "theirs") {
			t.Errorf("%s of all tenants: %s", path, got.body)
		}
	}
}

func TestETagsOfInstances(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	h.started("wait", "acme", "w", abide.Running)
	const path = "/api/v1/instances/acme/w"
	first := h.want(http.StatusOK, "GET "+path, "")
	tag := first.header.Get("ETag")
	same := h.want(http.StatusNotModified, "GET "+path, "", "If-None-Match: "+tag)
	if same.body != "" || same.header.Get("ETag") != tag {
		t.Errorf("304 has %q, and the ETag is %q instead of %q", same.body, same.header.Get("ETag"), tag)
	}
	// With a wait that nothing happens in, it stays as it is.
	h.want(http.StatusNotModified, "GET "+path+"?wait=10ms", "", "If-None-Match: "+tag)
	unchanged := h.want(http.StatusOK, "GET "+path+"?wait=10ms&after="+fmt.Sprint(first.object["revision"]), "")
	check.Equal(t, "after a wait", unchanged.body, first.body)
	done := make(chan answer, 2)
	for _, header := range []string{"If-None-Match: " + tag, "Accept: application/json"} {
		go func() {
			done <- h.do("GET "+path+"?wait=30s&after="+fmt.Sprint(first.object["revision"]), "", header)
		}()
	}
	h.want(http.StatusOK, "POST "+path+"/events/go", `"on"`)
	for range 2 {
		if a := <-done; a.status != http.StatusOK || a.object["status"] != "completed" || a.header.Get("ETag") == tag {
			t.Errorf("the wait ended with %d %s", a.status, a.body)
		}
	}
	// One that was deleted and started again is another one, even at the same revision.
	for revision := func(a answer) float64 { return a.object["revision"].(float64) }; ; {
		h.want(http.StatusNoContent, "DELETE "+path, "")
		h.started("wait", "acme", "w", abide.Running)
		again := h.want(http.StatusOK, "GET "+path, "", "If-None-Match: "+tag)
		if revision(again) < revision(first) { // it began with its start, in one commit
			h.want(http.StatusNoContent, "POST "+path+"/suspend", "")
			h.until("acme", "w", abide.Suspended)
			again = h.want(http.StatusOK, "GET "+path, "", "If-None-Match: "+tag)
		}
		if revision(again) == revision(first) {
			return
		}
		h.want(http.StatusNoContent, "POST "+path+"/terminate", "")
		h.until("acme", "w", abide.Terminated)
	}
}

// TestAKeyStartsOneInstance: the ID is made of the key.
func TestAKeyStartsOneInstance(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	first := h.want(http.StatusCreated, "POST /api/v1/instances", `{"orchestration":"wait"}`, "Idempotency-Key: k")
	if !strings.Contains(first.body, `"id":"key-`) {
		t.Errorf("the ID is not made of the key: %s", first.body)
	}
	if again := h.want(http.StatusCreated, "POST /api/v1/instances", `{"orchestration":"wait"}`, "Idempotency-Key: k"); again.body != first.body {
		t.Errorf("the second time: %s", again.body)
	}
	h.want(http.StatusCreated, "POST /api/v1/instances/bulk", `{"instances":[{"orchestration":"echo"},{"orchestration":"echo"}]}`, "Idempotency-Key: l")
	page, err := h.engine.List(t.Context(), abide.Filter{Orchestrations: []string{"echo"}})
	if err != nil || len(page.Instances) != 2 || !strings.HasPrefix(page.Instances[0].Ref.ID, "key-") || page.Instances[0].Ref.ID == page.Instances[1].Ref.ID {
		t.Errorf("%+v, %v", page.Instances, err)
	}
}
