package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/server/auth"
)

const onStripe = "/api/v1/limits/acme/stripe"

func TestLimitRoutes(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.try(
		try{request: "GET /api/v1/limits?tenant=acme", status: 200, want: `{"limits":[]}`},
		try{request: "PATCH " + onStripe, body: `{"set":{"concurrency":10,"rate":100,"per":"1s"}}`, status: 200, want: `"set":{"concurrency":10,"rate":100,"per":"1s","burst":10}`, headers: []string{who + ": operate:*"}},
		try{request: "GET " + onStripe, status: 200, want: `"changed_by":"user","in_use":0,"waiting":0,"admitted":0,"revision":1}`},
		try{request: "PATCH " + onStripe, body: `{"set":{"rate":7,"per":"1m","burst":3},"paused":true}`, status: 200, want: `"set":{"rate":7,"per":"1m0s","burst":3},"paused":true`},
		try{request: "POST " + onStripe + "/resume", status: 200, want: `"burst":3},"changed_at"`},
		try{request: "POST " + onStripe + "/pause", status: 200, want: `"paused":true`},
		try{request: "PATCH " + onStripe, body: `{"paused":false}`, status: 200, want: `"burst":3},"changed_at"`},
		try{request: "PATCH /api/v1/limits/acme/per-user", body: `{"set":{"concurrency":1},"per_key":true}`, status: 200, want: `"name":"per-user","per_key":true`},
		try{request: "GET /api/v1/limits?tenant=acme", status: 200, want: `{"limits":[{"tenant":"acme","name":"per-user"`},
		try{request: "GET /api/v1/limits", status: 200, want: `{"limits":[]}`}, // those of default
		try{request: "POST " + onStripe + "/unset", status: 200, want: `"revision":0}`},
		try{request: "GET " + onStripe, status: 404, code: "not_found"},
		try{request: "PATCH /api/v1/limits/default/stripe", body: `{"set":{"concurrency":1}}`, status: 200, want: `"tenant":"default"`},
		try{request: "GET /api/v1/limits", status: 200, want: `"name":"stripe"`},
	)
	y.wantNothingLogged()
}

// TestLimitsOfARevision: who has seen a limit that was changed meanwhile changes nothing.
func TestLimitsOfARevision(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	first := y.do("PATCH "+onStripe, `{"set":{"concurrency":1}}`)
	check.Equal(t, "the tag", first.header.Get("Etag"), `"1"`)
	y.try(
		try{request: "PATCH " + onStripe, body: `{"set":{"concurrency":2}}`, status: 200, want: `"revision":2`, headers: []string{`If-Match: "1"`}},
		try{request: "PATCH " + onStripe, body: `{"unset":true}`, status: 412, code: "precondition_failed", want: "revision 2", headers: []string{`If-Match: "1"`}},
		try{request: "PATCH " + onStripe, body: `{"unset":true}`, status: 400, code: "invalid", want: "If-Match", headers: []string{`If-Match: one`}},
		try{request: "PATCH " + onStripe, body: `{"paused":true}`, status: 200, headers: []string{`If-Match: *`}},
		try{request: "GET " + onStripe, status: 200, want: `"set":{"concurrency":2}`},
	)
	check.Equal(t, "the tag", y.do("GET "+onStripe, "").header.Get("Etag"), `"3"`)
	if got := y.do("POST "+onStripe+"/unset", "").header; len(got["Etag"]) > 0 {
		t.Errorf("what was deleted has the tag %q", got["Etag"])
	}
}

func TestLimitProblems(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	long := strings.Repeat("x", 10<<10)
	y.try(
		try{request: "PATCH " + onStripe, body: `{}`, status: 400, code: "invalid", want: "nothing is changed"},
		try{request: "PATCH " + onStripe, body: `{"paused":true}`, status: 404, code: "not_found", want: "stripe"},
		try{request: "POST " + onStripe + "/pause", status: 404, code: "not_found", want: "stripe"},
		try{request: "POST " + onStripe + "/unset", status: 404, code: "not_found", want: "stripe"},
		try{request: "PATCH " + onStripe, body: `{"set":{}}`, status: 400, code: "invalid", want: "neither a concurrency nor a rate"},
		try{request: "PATCH " + onStripe, body: `{"set":{"concurrency":-1}}`, status: 422, code: "invalid", want: "concurrency"},
		try{request: "PATCH " + onStripe, body: `{"set":{"concurrency":10001}}`, status: 422, code: "invalid", want: "10000"},
		try{request: "PATCH " + onStripe, body: `{"set":{"rate":5}}`, status: 400, code: "invalid", want: "a rate of 5 in 0s, a millisecond to"},
		try{request: "PATCH " + onStripe, body: `{"set":{"concurrency":5,"per":"1s"}}`, status: 400, code: "invalid", want: "a period or a burst without a rate"},
		try{request: "PATCH " + onStripe, body: `{"set":{"rate":5,"per":"soon"}}`, status: 422, code: "invalid", want: "soon"},
		try{request: "PATCH " + onStripe, body: `{"set":{"concurrency":5},"unset":true}`, status: 400, code: "invalid", want: "both set and unset"},
		try{request: "PATCH " + onStripe, body: `{"set":{"concurency":5}}`, status: 422, code: "invalid", want: "concurency"},
		try{request: "PATCH /api/v1/limits/acme/a%2Fb", body: `{"set":{"concurrency":5}}`, status: 400, code: "invalid", want: "slash"},
		try{request: "PATCH /api/v1/limits/acme/" + long, body: `{"set":{"concurrency":5}}`, status: 400, code: "invalid", want: "10240"},
		try{request: "GET /api/v1/limits/acme/%FF", status: 400, code: "invalid"},
		try{request: "GET /api/v1/limits/acme/none", status: 404, code: "not_found", want: "none"},
		try{request: "DELETE " + onStripe, status: 405, code: "wrong_method", want: "PATCH"},
		try{request: "PATCH " + onStripe, body: `{"set":{"concurrency":5}}`, status: 200},
		try{request: "PATCH " + onStripe, body: `{"set":{"concurrency":5},"per_key":true}`, status: 400, code: "invalid", want: "no keys, which cannot be changed"},
	)
	y.wantNothingLogged()
}

// TestLimitsAskWhoItIs: a tenant has limits of its own, which others neither see nor change.
func TestLimitsAskWhoItIs(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	as := func(text string) []string { return []string{who + ": " + text} }
	y.try(
		try{request: "PATCH " + onStripe, body: `{"set":{"concurrency":5}}`, status: 200},
		try{request: "PATCH /api/v1/limits/other/stripe", body: `{"set":{"concurrency":6}}`, status: 200},
	)
	y.tryGuards(
		guarded{"GET /api/v1/limits?tenant=acme", "", false, true},
		guarded{"GET " + onStripe, "", false, true},
		guarded{"PATCH " + onStripe, `{"set":{"concurrency":5}}`, true, true},
		guarded{"POST " + onStripe + "/pause", "", true, true},
		guarded{"POST " + onStripe + "/resume", "", true, true},
	)
	y.try(
		try{request: "GET /api/v1/limits", status: 200, want: `[{"tenant":"other","name":"stripe","set":{"concurrency":6}`, headers: as("read:other")},
		try{request: "GET /api/v1/limits", status: 403, code: "forbidden", want: "tenant=", headers: as("read:acme,other")},
		try{request: "POST " + onStripe + "/unset", status: 403, code: "forbidden", headers: as("operate:other")},
		try{request: "POST /api/v1/limits/other/stripe/unset", status: 200, headers: as("operate:other")},
		try{request: "GET " + onStripe, status: 200, want: `"set":{"concurrency":5}`, headers: as("read:acme")},
	)
}

// TestStartsUnderLimits: an instance that waits says for what, and so does one whose activity waits.
func TestStartsUnderLimits(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	charge := abide.NewActivity("charge", func(context.Context, abide.None) (abide.None, error) { return abide.None{}, nil },
		abide.Under(abide.NewLimit("stripe", abide.Concurrency(5))))
	buy := abide.NewOrchestration("buy", func(ctx abide.Context, _ abide.None) (abide.None, error) { return charge.Call(ctx, abide.None{}) })
	e, err := abide.New(y.store, abide.Config{Register: []abide.Definition{buy, charge}, Logger: rig.Quiet})
	check.OK(t, err)
	t.Cleanup(func() { _ = e.Close() })
	const limit = `"limits":[{"name":"per-user","per_key":true,"key":"ann","rate":2,"per":"1h0m0s","burst":1},{"name":"two","concurrency":1}],"priority":7`
	y.try(
		try{request: "POST /api/v1/instances", body: `{"tenant":"acme","id":"first","orchestration":"wait","limits":[{"name":"two","concurrency":1}]}`, status: 201},
	)
	y.until("GET /api/v1/instances/acme/first", `"status":"running"`)
	y.try(
		try{request: "GET /api/v1/instances/acme/first", status: 200, want: `"limits":[{"name":"two","concurrency":1}]}`}, // and it is admitted
		try{request: "POST /api/v1/instances", body: `{"tenant":"acme","id":"second","orchestration":"wait",` + limit + `}`, status: 201},
		try{request: "GET /api/v1/instances/acme/second", status: 200, want: `"status":"pending"`},
		try{request: "GET /api/v1/instances/acme/second", status: 200, want: limit + `,"not_admitted":true}`},
	)
	got := y.until("GET /api/v1/instances/acme/second/waits", `"limit":{"limit":"two","since":"20`)
	for _, want := range []string{`"kind":"ExecutionStarted"`, `"ahead":0}`} {
		if !strings.Contains(got.body, want) {
			t.Errorf("%s\nhas no %s", got.body, want)
		}
	}
	y.try(
		try{request: "POST /api/v1/instances/bulk", body: `{"instances":[{"tenant":"acme","id":"third","orchestration":"wait","limits":[{"name":"two","concurrency":1}]}]}`, status: 201},
	)
	y.until("GET /api/v1/instances/acme/third/waits", `"ahead":1}`)
	y.try(
		try{request: "GET /api/v1/limits/acme/two", status: 200, want: `"declared":{"concurrency":1},"in_use":1,"waiting":2,"admitted":1`},
		try{request: "GET /api/v1/limits/acme/per-user", status: 200, want: `"keys":[{"key":"ann","in_use":0,"waiting":0,"admitted":1}]`},
		try{request: "PATCH /api/v1/limits/acme/two", body: `{"set":{"concurrency":2}}`, status: 200},
	)
	y.until("GET /api/v1/instances/acme/second", `"status":"running"`)
	y.try(
		try{request: "PATCH " + onStripe, body: `{"set":{"concurrency":5},"paused":true}`, status: 200},
		try{request: "POST /api/v1/instances", body: `{"tenant":"acme","id":"buys","orchestration":"buy"}`, status: 201},
	)
	y.until("GET /api/v1/instances/acme/buys/waits", `"kind":"ActivityScheduled","name":"charge","limit":{"limit":"stripe","since":"20`)
	y.try(try{request: "POST " + onStripe + "/resume", status: 200})
	y.until("GET /api/v1/instances/acme/buys", `"status":"completed"`)
}

func TestStartsUnderLimitsThatAreNotValid(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	start := func(rest string, status int, want string) try {
		return try{request: "POST /api/v1/instances", body: `{"id":"one","orchestration":"wait",` + rest + `}`, status: status, code: "invalid", want: want}
	}
	y.try(
		start(`"limits":[{"concurrency":1}]`, 422, "name"),
		start(`"limits":[{"name":"two"}]`, 400, "neither a concurrency nor a rate"),
		start(`"limits":[{"name":"two","concurrency":1,"key":"k"}]`, 400, "no keys"),
		start(`"limits":[{"name":"two","concurrency":1,"per_key":true}]`, 400, "there is no key"),
		start(`"limits":[{"name":"two","concurrency":1,"burst":1}]`, 400, "a period or a burst without a rate"),
		start(`"limits":[{"name":"a/b","concurrency":1}]`, 400, "slash"),
		start(`"limits":[{"name":"two","concurrency":1,"many":1}]`, 422, "many"),
		start(`"priority":101`, 422, "100"),
		start(`"limits":[`+strings.Repeat(`{"name":"two","concurrency":1},`, 8)+`{"name":"two","concurrency":1}]`, 422, "8"),
		try{request: "GET /api/v1/instances/default/one", status: 404, code: "not_found"},
	)
	y.wantNothingLogged()
}

// TestChangesOfLimitsAreInTheAuditLog with what was changed, also if it was changed to nothing.
func TestChangesOfLimitsAreInTheAuditLog(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	for i, r := range []struct{ request, body string }{
		{"PATCH " + onStripe, `{"set":{"rate":100,"per":"1s"}}`},
		{"PATCH " + onStripe, `{"paused":false}`},
		{"POST " + onStripe + "/pause", ""},
		{"POST " + onStripe + "/unset", ""},
	} {
		if got := w.do("operator", r.request, r.body); got.status != http.StatusOK {
			t.Errorf("%d: %d %s", i, got.status, got.body)
		}
	}
	root := auth.With(t.Context(), auth.Identity{Kind: auth.Local, Subject: "root", Name: "root", Role: auth.Admin})
	page, err := w.guard.Audit(root, auth.AuditQuery{})
	check.OK(t, err)
	var said []string
	for _, e := range page.Entries {
		if e.Name == "operator" && e.Tenant == "acme" && strings.HasPrefix(e.Target, onStripe) {
			said = append(said, e.Operation+" "+e.Detail)
		}
	}
	for _, want := range []string{`change-limit {"set":{"per":"1s","rate":100}}`, `change-limit {"paused":false}`, "pause-limit ", "unset-limit "} {
		if n := strings.Count("\n"+strings.Join(said, "\n")+"\n", "\n"+want+"\n"); n != 1 {
			t.Errorf("the log has %q %d times:\n%s", want, n, strings.Join(said, "\n"))
		}
	}
}
