package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/timer"
)

// whole is a server of everything, with tokens.
type whole struct {
	t       *testing.T
	store   store.Store
	server  *server.Server
	guard   *auth.Guard
	engine  *abide.Engine
	logged  *rig.Log
	base    string
	tokens  map[string]string // by who has it
	actions *action.Service
}

var idle = abide.NewOrchestration("idle", func(ctx abide.Context, _ abide.None) (abide.None, error) {
	return abide.None{}, abide.Sleep(ctx, time.Hour)
})

func newWhole(t *testing.T, change ...func(*server.Config)) *whole {
	t.Helper()
	w := &whole{t: t, logged: &rig.Log{}, tokens: map[string]string{}, store: memstore.New(memstore.Options{})}
	log := slog.New(slog.NewTextHandler(w.logged, nil))
	t.Cleanup(func() { _ = w.store.Close() })
	var err error
	must := func(err error) {
		t.Helper()
		check.OK(t, err)
	}
	w.engine, err = abide.New(w.store, abide.Config{Register: []abide.Definition{idle}, Logger: log})
	must(err)
	t.Cleanup(func() { _ = w.engine.Close() })
	timers, err := timer.New(timer.Config{Store: w.store, Logger: log, Sinks: []outbox.Sink{{Name: "local", Bus: &bus.Local{}}}})
	must(err)
	w.actions, err = action.New(action.Config{Store: w.store, Logger: log})
	must(err)
	w.guard, err = auth.New(auth.Config{Store: w.store, Logger: log, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	must(err)
	cfg := server.Config{
		Store: w.store, Engine: w.engine, Timers: timers, Actions: w.actions, Auth: w.guard,
		Hooks:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }),
		Version: "v0.0.0-test", Logger: log, Page: true,
	}
	for _, f := range change {
		f(&cfg)
	}
	w.server, err = server.New(cfg)
	must(err)
	web := httptest.NewServer(w.server)
	t.Cleanup(web.Close)
	w.base = web.URL
	root := auth.With(t.Context(), auth.Identity{Kind: auth.Local, Subject: "root", Name: "root", Role: auth.Admin})
	for who, n := range map[string]auth.NewToken{
		"reader":   {Name: "reader", Role: auth.Read},
		"operator": {Name: "operator", Role: auth.Operate},
		"admin":    {Name: "admin", Role: auth.Admin},
		"acme":     {Name: "acme", Role: auth.Admin, Tenants: []string{"acme"}},
	} {
		_, w.tokens[who], err = w.guard.CreateToken(root, n)
		must(err)
	}
	w.tokens["nobody"] = ""
	w.tokens["unknown"] = strings.Replace(w.tokens["reader"], "abide_", "abide_x", 1)
	return w
}

// do makes a request with an identity, written as "METHOD /path Header:value …".
func (w *whole) do(who, request, body string) answer {
	w.t.Helper()
	words := strings.Fields(request)
	req, err := http.NewRequestWithContext(w.t.Context(), words[0], w.base+words[1], strings.NewReader(body))
	check.OK(w.t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token := w.tokens[who]; token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, word := range words[2:] {
		name, value, _ := strings.Cut(word, ":")
		if name == "Host" {
			req.Host = value
		}
		req.Header.Set(name, value)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	check.OK(w.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	check.OK(w.t, err)
	a := answer{status: resp.StatusCode, header: resp.Header, kind: resp.Header.Get("Content-Type"), body: string(data)}
	_ = json.Unmarshal(data, &a.object) // not all of them are objects
	return a
}

// apiRoute is a route of the OpenAPI document.
type apiRoute struct {
	id, method, path string
	role             auth.Role
}

// routes returns all routes that the document has.
func (w *whole) routes() []apiRoute {
	w.t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Description string `json:"description"`
			Security    []any  `json:"security"`
		} `json:"paths"`
	}
	check.OK(w.t, json.Unmarshal([]byte(w.do("nobody", "GET /openapi.json", "").body), &doc))
	var list []apiRoute
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			op := doc.Paths[path][method]
			_, role, _ := strings.Cut(op.Description, "Takes the role ")
			r := apiRoute{id: op.OperationID, method: strings.ToUpper(method), path: path, role: auth.Role(strings.TrimSuffix(role, "."))}
			if !slices.Contains(auth.Roles, r.role) || len(op.Security) == 0 {
				w.t.Errorf("%s does not say which role it takes, or that it takes a token: %q", r.id, op.Description)
			}
			list = append(list, r)
		}
	}
	if len(list) < 50 {
		w.t.Errorf("there are %d routes in the document: that is not all", len(list))
	}
	return list
}

// of returns the path of a route for a tenant.
func (r *apiRoute) of(tenant string) string {
	return strings.NewReplacer("{tenant}", tenant, "{id}", "some", "{key}", "some", "{name}", "some", "{build}", "some").Replace(r.path)
}

// Requests of routes that have their tenant elsewhere than in the path, for the tenant
// other.
var elsewhere = map[string]string{
	"add-action":       `{"tenant":"other","slug":"x","target":"none"}`,
	"list-actions":     "?tenant=other",
	"add-schedule":     `{"tenant":"other","id":"x","slug":"x","target":"none","every":"1h"}`,
	"list-schedules":   "?tenant=other",
	"start-instance":   `{"tenant":"other","orchestration":"idle"}`,
	"start-instances":  `{"instances":[{"tenant":"acme","orchestration":"idle"},{"tenant":"other","orchestration":"idle"}]}`,
	"raise-events":     `{"events":[{"tenant":"acme","instance":"x","name":"e"},{"tenant":"other","instance":"x","name":"e"}]}`,
	"list-instances":   "?tenant=other",
	"stream-instances": "?tenant=other",
	"list-quarantine":  "?tenant=other",
	"list-entities":    "?tenant=other",
	"list-limits":      "?tenant=other",
	"list-timers":      "?tenant=other",
	"list-deliveries":  "?tenant=other",
	"schedule-timers":  `{"timers":[{"tenant":"acme","key":"k","delay":"1h"},{"tenant":"other","key":"k","delay":"1h"}]}`,
	"cancel-timers":    `{"tenant":"other"}`,
	"start-operation":  `{"kind":"cancel","filter":{"tenant":"other"}}`,
}

// Routes that are of no tenant. Who has some tenants alone gets what is theirs, or nothing.
var ofNobody = []string{
	"list-orchestrations", "list-signatures", "list-workers", "list-worker-leases", "drain-worker", "list-unserved", "list-builds", "get-build", "set-build", "move-build", "get-stats", "list-shards", "create-backup", "list-sinks", "whoami",
	"create-token", "list-tokens", "revoke-token", "list-sessions", "revoke-session", "revoke-sessions", "list-audit", "list-operations", "get-operation", "cancel-operation",
}

func TestEveryRouteKnowsWhoAsks(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	for i, r := range w.routes() {
		// Failures of an address are limited: each route is tried from another one.
		request := r.method + " " + r.of("acme") + fmt.Sprintf(" X-Forwarded-For:192.0.2.%d", i+1)
		for _, who := range []string{"nobody", "unknown"} {
			got := w.do(who, request, "")
			if got.status != http.StatusUnauthorized || got.object["code"] != "unauthenticated" || got.header.Get("Www-Authenticate") != "Bearer" {
				t.Errorf("%s %s: %d %s", who, request, got.status, got.body)
			}
		}
		for who, role := range map[string]auth.Role{"reader": auth.Read, "operator": auth.Operate} {
			if role.Includes(r.role) {
				continue
			}
			got := w.do(who, request, "")
			if got.status != http.StatusForbidden || got.object["code"] != "forbidden" || !strings.Contains(got.body, string(r.role)) {
				t.Errorf("%s %s: %d %s", who, request, got.status, got.body)
			}
		}
		if strings.Contains(r.path, "{tenant}") {
			got := w.do("acme", r.method+" "+r.of("other"), "")
			if got.status != http.StatusForbidden || got.object["code"] != "forbidden" || !strings.Contains(got.body, "other") {
				t.Errorf("acme %s %s: %d %s", r.method, r.of("other"), got.status, got.body)
			}
		}
	}
}

func TestEveryRouteKnowsWhoseItIs(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	for _, r := range w.routes() {
		in, known := elsewhere[r.id]
		switch {
		case strings.Contains(r.path, "{tenant}"), slices.Contains(ofNobody, r.id):
			if known {
				t.Errorf("%s is in two places of this test", r.id)
			}
			continue
		case !known:
			t.Errorf("%s has its tenant nowhere in this test", r.id)
			continue
		}
		request, body := r.method+" "+r.path, in
		if strings.HasPrefix(in, "?") {
			request, body = request+in, ""
		}
		got := w.do("acme", request, body)
		if got.status != http.StatusForbidden || got.object["code"] != "forbidden" || !strings.Contains(got.body, "other") {
			t.Errorf("%s %s: %d %s", request, body, got.status, got.body)
		}
	}
	// Nothing was done of what was refused in part.
	page, err := w.engine.List(t.Context(), abide.Filter{})
	if err != nil || len(page.Instances) > 0 {
		t.Errorf("instances %+v, %v", page.Instances, err)
	}
}

// Who has one tenant gets that one's when asking for all.
func TestListsOfWhoHasOneTenant(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	for _, tenant := range []string{"acme", "other"} {
		for request, body := range map[string]string{
			"POST /api/v1/instances":                         `{"tenant":"` + tenant + `","orchestration":"idle","id":"in-` + tenant + `"}`,
			"POST /api/v1/actions":                           `{"tenant":"` + tenant + `","slug":"x","target":"none","id":"in-` + tenant + `","delay":"1h"}`,
			"POST /api/v1/schedules":                         `{"tenant":"` + tenant + `","id":"in-` + tenant + `","slug":"x","target":"none","every":"1h"}`,
			"PUT /api/v1/timers/" + tenant + "/in-" + tenant: `{"delay":"1h"}`,
		} {
			if got := w.do("operator", request, body); got.status >= 300 {
				t.Fatalf("%s %s: %d %s", request, body, got.status, got.body)
			}
		}
	}
	for _, list := range []string{"instances", "actions", "schedules", "timers"} {
		all := w.do("reader", "GET /api/v1/"+list, "")
		if !strings.Contains(all.body, "in-acme") || !strings.Contains(all.body, "in-other") {
			t.Errorf("who may see all gets %s: %s", list, all.body)
		}
		own := w.do("acme", "GET /api/v1/"+list, "")
		if own.status != http.StatusOK || !strings.Contains(own.body, "in-acme") || strings.Contains(own.body, "in-other") {
			t.Errorf("acme gets %s: %d %s", list, own.status, own.body)
		}
	}
}

func TestCallsThatChangeSomethingAreInTheAuditLog(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	w.do("operator", "POST /api/v1/instances X-Request-Id:request-1", `{"tenant":"acme","orchestration":"idle","id":"one"}`)
	w.do("operator", "POST /api/v1/instances/acme/none/cancel X-Request-Id:request-2", "")
	w.do("operator", "POST /api/v1/instances/bulk X-Request-Id:request-3", `{"instances":[{"tenant":"acme","orchestration":"idle"},{"orchestration":"idle"}]}`)
	w.do("operator", "POST /instances/acme/one/cancel X-Request-Id:request-4", "")
	w.do("reader", "GET /api/v1/instances", "")
	w.do("reader", "POST /api/v1/instances", `{"orchestration":"idle"}`)
	root := auth.With(t.Context(), auth.Identity{Kind: auth.Local, Subject: "root", Name: "root", Role: auth.Admin})
	page, err := w.guard.Audit(root, auth.AuditQuery{})
	check.OK(t, err)
	byRequest := map[string]auth.Entry{}
	for _, e := range page.Entries {
		byRequest[e.RequestID] = e
		if e.Name == "reader" && (e.Operation != "start-instance" || e.Status != http.StatusForbidden) {
			t.Errorf("%+v was not refused", e)
		}
	}
	if e := byRequest["request-1"]; e.Operation != "start-instance" || e.Tenant != "acme" || e.Name != "operator" || e.Remote != "127.0.0.1" || e.Status >= 300 || e.Error != "" {
		t.Errorf("the start is in the log as %+v", e)
	}
	if e := byRequest["request-3"]; e.Operation != "start-instances" || e.Tenant != "" {
		t.Errorf("what is about two tenants is in the log as %+v", e)
	}
	if e := byRequest["request-4"]; e.Operation != "cancel-instance" || e.Tenant != "acme" || e.Target != "acme/one" {
		t.Errorf("what was done on the page is in the log as %+v", e)
	}
	if e := byRequest["request-2"]; e.Operation != "cancel-instance" || e.Tenant != "acme" || e.Target != "/api/v1/instances/acme/none/cancel" || e.Status != http.StatusNotFound || e.Error == "" {
		t.Errorf("what failed is in the log as %+v", e)
	}
}

// The document, and what the server says, have the same statuses and schemas. A generator
// needs names that are used once.
func TestOpenAPIDocumentIsSound(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	ids := map[string]bool{}
	for _, r := range w.routes() {
		if r.id == "" || ids[r.id] {
			t.Errorf("%s %s has the operation ID %q, which is empty or used twice", r.method, r.path, r.id)
		}
		ids[r.id] = true
	}
	doc := w.do("nobody", "GET /openapi.json", "")
	var tree any
	check.OK(t, json.Unmarshal([]byte(doc.body), &tree))
	components := tree.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok && components[strings.TrimPrefix(ref, "#/components/schemas/")] == nil {
				t.Errorf("%s leads nowhere", ref)
			}
			for _, child := range v {
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(tree)
	for _, kind := range []string{"/openapi.yaml", "/docs"} {
		if got := w.do("nobody", "GET "+kind, ""); got.status != http.StatusOK || !strings.Contains(got.body, "/api/v1/instances/{tenant}/{id}") {
			t.Errorf("%s: %d %.200s", kind, got.status, got.body)
		}
	}
	if policy := w.do("nobody", "GET /docs", "").header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("the policy of the page is %q", policy)
	}
}

func TestRequestsHaveAnID(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	if got := w.do("reader", "GET /api/v1/whoami X-Request-Id:order-7.x_Y", ""); got.header.Get("X-Request-Id") != "order-7.x_Y" {
		t.Errorf("the ID of the client came back as %q", got.header.Get("X-Request-Id"))
	}
	for _, id := range []string{"", "X-Request-Id:<script>", "X-Request-Id:" + strings.Repeat("a", 65)} {
		if got := w.do("reader", "GET /api/v1/whoami "+id, "").header.Get("X-Request-Id"); len(got) != 26 {
			t.Errorf("%.40q: the request has the ID %q", id, got)
		}
	}
}

// Clients on this machine may do everything if the configuration says so. A page of
// another origin is not on this machine, whatever its name points to.
func TestPagesOfOthersCanDoNothing(t *testing.T) {
	t.Parallel()
	w := newWhole(t, func(c *server.Config) {
		var err error
		c.Auth, err = auth.New(auth.Config{Store: c.Store, Anonymous: &auth.Identity{Kind: auth.Local, Subject: "local", Name: "local", Role: auth.Admin}})
		check.OK(t, err)
		c.Hosts = []string{"abide.internal", "Abide.Example"}
	})
	const start = "POST /api/v1/instances"
	body := `{"orchestration":"idle"}`
	for request, want := range map[string]int{
		start:                                             http.StatusCreated,
		start + " Host:localhost:7171":                    http.StatusCreated,
		start + " Host:abide.internal":                    http.StatusCreated,
		start + " Host:abide.example:7171":                http.StatusCreated,
		start + " Host:[::1]:7171":                        http.StatusCreated,
		start + " Host:evil.example":                      http.StatusForbidden,
		"GET /api/v1/instances Host:evil.example":         http.StatusForbidden,
		"GET / Host:evil.example Accept:text/html":        http.StatusForbidden,
		start + " Sec-Fetch-Site:cross-site":              http.StatusForbidden,
		start + " Origin:https://evil.example":            http.StatusForbidden,
		start + " Sec-Fetch-Site:same-origin":             http.StatusCreated,
		"GET /api/v1/instances Sec-Fetch-Site:cross-site": http.StatusOK, // which the page cannot read
	} {
		in := ""
		if strings.HasPrefix(request, start) {
			in = body
		}
		if got := w.do("nobody", request, in); got.status != want {
			t.Errorf("%s: %d %.200s, want %d", request, got.status, got.body, want)
		}
	}
	// What is for everybody does not ask for a name.
	for _, request := range []string{"GET /healthz Host:balancer.example", "GET /readyz Host:balancer.example", "POST /hooks/x Sec-Fetch-Site:cross-site Host:hooks.example"} {
		if got := w.do("nobody", request, ""); got.status >= 300 {
			t.Errorf("%s: %d %s", request, got.status, got.body)
		}
	}
}

func TestReadyUntilItDrains(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := w.do("nobody", "GET "+path, ""); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	w.server.Drain()
	if got := w.do("nobody", "GET /healthz", ""); got.status != http.StatusOK {
		t.Errorf("a server that drains is not dead: %d", got.status)
	}
	if got := w.do("nobody", "GET /readyz", ""); got.status != http.StatusServiceUnavailable || got.object["code"] != "unavailable" {
		t.Errorf("a server that drains is ready: %d %s", got.status, got.body)
	}
	if got := w.do("reader", "GET /api/v1/whoami", ""); got.status != http.StatusOK {
		t.Errorf("a server that drains does not answer: %d %s", got.status, got.body)
	}
}

func TestServerUnderAPrefix(t *testing.T) {
	t.Parallel()
	w := newWhole(t, func(c *server.Config) { c.Prefix = "/abide" })
	for request, want := range map[string]int{
		"GET /abide/healthz":                  http.StatusOK,
		"GET /abide":                          http.StatusPermanentRedirect,
		"GET /abide/ Accept:text/html":        http.StatusSeeOther,
		"GET /healthz":                        http.StatusNotFound,
		"GET /abidex/healthz":                 http.StatusNotFound,
		"GET /abide/api/v1/none":              http.StatusUnauthorized,
		"PUT /abide/api/v1/timers/acme/a%2Fb": http.StatusUnauthorized,
	} {
		if got := w.do("nobody", request, ""); got.status != want {
			t.Errorf("%s: %d %.200s, want %d", request, got.status, got.body, want)
		}
	}
	if got := w.do("nobody", "GET /abide/x?y=1 Accept:text/html", ""); got.header.Get("Location") != "/abide/auth/login?next=%2Fabide%2Fx%3Fy%3D1" {
		t.Errorf("who wants the page is sent to %q", got.header.Get("Location"))
	}
	if got := w.do("operator", "PUT /abide/api/v1/timers/acme/a%2Fb", `{"delay":"1h"}`); got.status >= 300 || got.object["key"] != "a/b" {
		t.Errorf("a key with a slash: %d %s", got.status, got.body)
	}
	for request, want := range map[string]string{
		"POST /abide//api/v1/instances?wait=1s": "/abide/api/v1/instances?wait=1s",
		"GET /abide/static/../instances":        "/abide/instances",
		"GET /abide///evil.example/":            "/abide/evil.example/",
		"GET /abide/../evil":                    "/abide/evil",
	} {
		if got := w.do("nobody", request, ""); got.status != http.StatusTemporaryRedirect || got.header.Get("Location") != want {
			t.Errorf("%s: %d to %q, want %q", request, got.status, got.header.Get("Location"), want)
		}
	}
	if doc := w.do("nobody", "GET /abide/openapi.json", ""); !strings.Contains(doc.body, `"url":"/abide"`) {
		t.Error("the document does not know where the server is")
	}
	for _, prefix := range []string{"abide", "/abide/", "/"} {
		if _, err := server.New(server.Config{Prefix: prefix}); err == nil || !strings.Contains(err.Error(), "prefix") {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

// A mistake in a handler is one answer, and not the end of the server.
func TestPanicsAreAnswered(t *testing.T) {
	t.Parallel()
	w := newWhole(t, func(c *server.Config) {
		c.Hooks = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a secret") })
	})
	got := w.do("nobody", "POST /hooks/x X-Request-Id:request-9", "")
	if got.status != http.StatusInternalServerError || got.object["code"] != "internal" || strings.Contains(got.body, "secret") || !strings.Contains(got.body, "request-9") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if log := w.logged.String(); !strings.Contains(log, "a secret") || !strings.Contains(log, "request-9") || !strings.Contains(log, "stack") {
		t.Errorf("the log says %s", log)
	}
	if got := w.do("reader", "GET /api/v1/whoami", ""); got.status != http.StatusOK {
		t.Errorf("after that: %d %s", got.status, got.body)
	}
}
