package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

const aTimer = "/api/v1/timers/acme/k"

func TestTimerRoutes(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.try(
		try{request: "PUT " + aTimer, body: `{"due_at":"2099-01-01T00:00:00Z","correlation_id":"c","payload":{"a":["<x>",1.50]}}`, status: 201, want: `"payload":{"a":["<x>",1.50]}`},
		try{request: "PUT " + aTimer, body: `{"due_at":"2099-01-02T00:00:00.5Z"}`, status: 200, want: `"due_at":"2099-01-02T00:00:00.5Z"`},
		try{request: "GET " + aTimer, status: 200, want: `"version":2`},
		try{request: "PUT /api/v1/timers/acme/l", body: `{"delay":"90"}`, status: 201, want: `"status":"armed"`},
		try{request: "PUT /api/v1/timers/default/m", body: `{"delay":"100000h","correlation_id":"d"}`, status: 201, want: `"tenant":"default"`},
		try{request: "GET /api/v1/timers", status: 200, want: `"key":"l"`},
		try{request: "GET /api/v1/timers?tenant=acme&status=armed,fired&from=2098-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&key_prefix=k", status: 200, want: `{"timers":[{"tenant":"acme","key":"k"`},
		try{request: "GET /api/v1/timers?tenant=acme&latest=true", status: 200, want: `{"timers":[{"tenant":"acme","key":"k"`},
		try{request: "GET /api/v1/timers?tenant=acme", status: 200, want: `{"timers":[{"tenant":"acme","key":"l"`},
		try{request: "GET /api/v1/timers?correlation_id=d", status: 200, want: `{"timers":[{"tenant":"default","key":"m"`},
		try{request: "GET /api/v1/timers?tenant=nobody", status: 200, want: `{"timers":[]}`},
		try{request: "GET /api/v1/timers?page_size=1", status: 200, want: `"next_page_token":"`},
		try{request: "POST " + aTimer + "/snooze", body: `{"delay":"24h"}`, status: 200, want: `"due_at":"2099-01-03T00:00:00.5Z"`},
		try{request: "DELETE " + aTimer, status: 200, want: `"status":"cancelled"`},
		try{request: "DELETE " + aTimer, status: 200, want: `"version":4`},
		try{request: "PUT " + aTimer, body: `{"delay":"1h"}`, status: 200, want: `"arming":2`},
		try{request: "POST /api/v1/timers/bulk", body: `{"timers":[{"key":"b1","delay":"1h"},{"tenant":"acme","key":"b2","due_at":"2099-01-01T00:00:00Z","payload":7}]}`, status: 200, want: `"key":"b2"`},
		try{request: "POST /api/v1/timers/cancel", body: `{"tenant":"acme","key_prefix":"b"}`, status: 200, want: `{"cancelled":1}`},
		try{request: "POST /api/v1/timers/cancel", body: `{"tenant":"acme","correlation_id":"none"}`, status: 200, want: `{"cancelled":0}`},
		try{request: "GET /api/v1/timers/default/b1", status: 200, want: `"status":"armed"`},
	)
}

// TestTimerPreconditions: what If-Match and If-None-Match say holds, or nothing happens.
func TestTimerPreconditions(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	in := func(h ...string) []string { return h }
	const hour = `{"delay":"1h"}`
	y.try(
		try{request: "PUT " + aTimer, body: hour, status: 412, code: "precondition_failed", want: "acme/k", headers: in("If-Match: *")},
		try{request: "PUT " + aTimer, body: hour, status: 412, code: "precondition_failed", want: "expected 1", headers: in(`If-Match: "1"`)},
		try{request: "PUT " + aTimer, body: hour, status: 201, headers: in("If-None-Match: *")},
		try{request: "PUT " + aTimer, body: hour, status: 412, code: "precondition_failed", want: "it is armed", headers: in("If-None-Match: *")},
		try{request: "PUT " + aTimer, body: hour, status: 200, want: `"version":2`, headers: in(`If-Match: "1"`)},
		try{request: "PUT " + aTimer, body: hour, status: 412, code: "precondition_failed", want: "it has version 2", headers: in(`If-Match: "1"`)},
		try{request: "PUT " + aTimer, body: hour, status: 200, want: `"version":3`, headers: in("If-Match: *")},
		try{request: "DELETE " + aTimer, status: 412, code: "precondition_failed", want: "it has version 3", headers: in(`If-Match: "2"`)},
		try{request: "DELETE " + aTimer, status: 200, want: `"version":4`, headers: in(`If-Match: "3"`)},
		try{request: "PUT " + aTimer, body: hour, status: 400, code: "invalid", want: "If-Match", headers: in("If-Match: 3")},
		try{request: "PUT " + aTimer, body: hour, status: 400, code: "invalid", want: "If-Match", headers: in(`If-Match: "-3"`)},
		try{request: "PUT " + aTimer, body: hour, status: 400, code: "invalid", want: "If-None-Match", headers: in(`If-None-Match: "3"`)},
		try{request: "DELETE " + aTimer, status: 400, code: "invalid", want: "If-Match", headers: in(`If-Match: W/"3"`)},
		try{request: "POST /api/v1/timers/bulk", body: `{"timers":[{"tenant":"acme","key":"k","delay":"1h","if_absent":true}]}`, status: 409, code: "already_exists", want: "cancelled"},
		try{request: "POST /api/v1/timers/bulk", body: `{"timers":[{"tenant":"acme","key":"k","delay":"1h","if_version":9}]}`, status: 409, code: "conflict", want: "expected 9"},
	)
	for _, request := range []string{"GET " + aTimer, "PUT " + aTimer, "POST " + aTimer + "/snooze", "DELETE " + aTimer} {
		body := ""
		if request[0] == 'P' {
			body = hour
		}
		got := y.do(request, body)
		if tag := got.header.Get("ETag"); tag != fmt.Sprintf(`"%v"`, got.object["version"]) {
			t.Errorf("%s: ETag is %s, and the version %v", request, tag, got.object["version"])
		}
	}
}

func TestTimerProblems(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.run()
	y.try(
		try{request: "PUT " + aTimer, body: `{"delay":"1h"}`, status: 201},
		try{request: "PUT /api/v1/timers/acme/gone", body: `{"delay":"1h"}`, status: 201},
		try{request: "DELETE /api/v1/timers/acme/gone", status: 200},
		try{request: "PUT /api/v1/timers/acme/fired", body: `{"delay":"0s"}`, status: 201},
		try{request: "PUT /api/v1/timers/small/1", body: `{"delay":"1h"}`, status: 201},
		try{request: "PUT /api/v1/timers/small/2", body: `{"delay":"1h"}`, status: 201},
	)
	y.until("GET /api/v1/timers/acme/fired", `"status":"fired"`)
	const none = "/api/v1/timers/acme/none"
	y.try(
		try{request: "GET " + none, status: 404, code: "not_found", want: "acme/none"},
		try{request: "DELETE " + none, status: 404, code: "not_found", want: "acme/none"},
		try{request: "POST " + none + "/snooze", body: `{"delay":"1h"}`, status: 404, code: "not_found", want: "acme/none"},
		try{request: "POST " + none + "/redeliver", body: `{"sink":"up"}`, status: 404, code: "not_found", want: "acme/none"},
		try{request: "DELETE /api/v1/timers/acme/fired", status: 409, code: "wrong_state", want: "it fired at"},
		try{request: "POST /api/v1/timers/acme/gone/snooze", body: `{"delay":"1h"}`, status: 409, code: "wrong_state", want: "it was cancelled"},
		try{request: "POST " + aTimer + "/redeliver", body: `{"sink":"up"}`, status: 409, code: "wrong_state", want: "it is armed"},
		try{request: "POST /api/v1/timers/acme/fired/redeliver", body: `{"sink":"nowhere"}`, status: 400, code: "invalid", want: "the tenant has no sinks"},
		try{request: "PUT /api/v1/timers/small/3", body: `{"delay":"1h"}`, status: 429, code: "quota_exceeded", want: "small"},
		try{request: "POST /api/v1/timers/bulk", body: `{"timers":[{"tenant":"small","key":"3","delay":"1h"}]}`, status: 429, code: "quota_exceeded", want: "small"},
		try{request: "PUT /api/v1/timers/small/2", body: `{"delay":"2h"}`, status: 200}, // which takes no more of it
		try{request: "PUT " + aTimer, status: 400, code: "invalid", want: "body"},
		try{request: "PUT " + aTimer, body: `{"delay":`, status: 400, code: "invalid"},
		try{request: "PUT " + aTimer, body: `{"delay":"soon"}`, status: 422, code: "invalid", want: "soon"},
		try{request: "PUT " + aTimer, body: `{"dlay":"1h"}`, status: 422, code: "invalid", want: "dlay"},
		try{request: "PUT " + aTimer, body: `{}`, status: 400, code: "invalid", want: `neither due_at nor delay`},
		try{request: "PUT " + aTimer, body: `{"payload":1,"due_at":null,"delay":null}`, status: 400, code: "invalid", want: `neither due_at nor delay`},
		try{request: "PUT " + aTimer, body: `{"due_at":"0001-01-01T00:00:00Z"}`, status: 400, code: "invalid", want: `neither due_at nor delay`},
		try{request: "POST /api/v1/timers/bulk", body: `{"timers":[{"key":"a","delay":"1h"},{"key":"b"}]}`, status: 400, code: "invalid", want: `timers[1]: timer default/b has neither due_at nor delay`},
		try{request: "PUT " + aTimer, body: `{"delay":"-1h"}`, status: 400, code: "invalid", want: "negative"},
		try{request: "PUT " + aTimer, body: `{"delay":"1h","due_at":"2099-01-01T00:00:00Z"}`, status: 400, code: "invalid", want: "only one"},
		try{request: "PUT " + aTimer, body: `{"due_at":"9999-01-01T00:00:00Z"}`, status: 400, code: "invalid", want: "9998"},
		try{request: "PUT " + aTimer, body: `{"due_at":"yesterday"}`, status: 422, code: "invalid", want: "due_at"},
		try{request: "PUT " + aTimer, body: `{"delay":"1h","correlation_id":"` + strings.Repeat("x", 257) + `"}`, status: 400, code: "invalid", want: "257"},
		try{request: "PUT " + aTimer, body: `{"delay":"1h","correlation_id":"a\u0000b"}`, status: 400, code: "invalid", want: "control character"},
		try{request: "PUT " + aTimer, body: `{"delay":"1h","payload":"` + strings.Repeat("x", 100<<10) + `"}`, status: 400, code: "invalid", want: "payload"},
		try{request: "PUT " + aTimer, body: `{"payload":"` + strings.Repeat("x", 2<<20) + `"}`, status: 413, code: "too_large"},
		try{request: "POST " + aTimer + "/snooze", body: `{"delay":"0"}`, status: 400, code: "invalid", want: "more than 0"},
		try{request: "POST " + aTimer + "/snooze", body: `{}`, status: 422, code: "invalid", want: "delay"},
		try{request: "POST " + aTimer + "/redeliver", body: `{}`, status: 422, code: "invalid", want: "sink"},
		try{request: "POST " + aTimer + "/wind", body: `{}`, status: 404, code: "not_found"},
		try{request: "PATCH " + aTimer, body: `{}`, status: 405, code: "wrong_method", want: "PUT"},
		try{request: "GET /api/v1/timers?page_size=0", status: 422, code: "invalid", want: "page_size"},
		try{request: "GET /api/v1/timers?page_size=1001", status: 422, code: "invalid", want: "page_size"},
		try{request: "GET /api/v1/timers?page_token=forged", status: 400, code: "invalid"},
		try{request: "GET /api/v1/timers?status=done", status: 422, code: "invalid", want: "status"},
		try{request: "GET /api/v1/timers?from=yesterday", status: 422, code: "invalid", want: "from"},
		try{request: "GET /api/v1/timers?tennant=x", status: 422, code: "invalid", want: "tennant"},
		try{request: "POST /api/v1/timers/cancel", body: `{}`, status: 422, code: "invalid", want: "tenant"},
		try{request: "POST /api/v1/timers/cancel", body: `{"tenant":""}`, status: 422, code: "invalid", want: "tenant"},
		try{request: "POST /api/v1/timers/bulk", body: `{"timers":[]}`, status: 422, code: "invalid", want: "timers"},
		try{request: "POST /api/v1/timers/bulk", body: `{"timers":[{"delay":"1h"}]}`, status: 422, code: "invalid", want: "key"},
		try{request: "POST /api/v1/timers/bulk", body: `{"timers":[{"key":"a","delay":"0"},{"key":"a","delay":"0"}]}`, status: 400, code: "invalid", want: "requests 0 and 1"},
		try{request: "POST /api/v1/timers/bulk", body: `{"timers":[{"key":"a","delay":"0"},{"key":"b","delay":"-1s"}]}`, status: 400, code: "invalid", want: "request 1"},
		try{request: "GET /api/v1/timers/default/a", status: 404, code: "not_found"}, // nothing came of these
	)
	y.wantNothingLogged()
}

// TestKeysOfAnyText: whatever UTF-8 a key is made of, it is the key, and nothing else is.
func TestKeysOfAnyText(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	for _, key := range []string{
		"a/b", "//", "/a", "..", ".", "../../etc/passwd", "a b", "a+b", "a%2Fb", "%", "ä?x=1&y", "a#b", "a;b", "😀", "bulk", "cancel", "snooze",
		"..%2f", `"quoted"`, `\`, "<script>", strings.Repeat("ü", 256),
	} {
		escaped := url.PathEscape(key)
		if key == "." || key == ".." {
			escaped = strings.ReplaceAll(key, ".", "%2E")
		}
		path := "/api/v1/timers/acme%2Fx/" + escaped
		got := y.do("PUT "+path, `{"delay":"1h"}`)
		if got.status != http.StatusCreated || got.object["key"] != key || got.object["tenant"] != "acme/x" {
			t.Errorf("%q: %d %s", key, got.status, got.body)
			continue
		}
		there, err := y.timers.Get(t.Context(), "acme/x", key)
		if err != nil || there.Status != timer.Armed {
			t.Errorf("%q is not there: %v", key, err)
		}
		for _, request := range []string{"GET " + path, "POST " + path + "/snooze", "DELETE " + path} {
			body := ""
			if strings.HasPrefix(request, "POST") {
				body = `{"delay":"1h"}`
			}
			if got = y.do(request, body); got.status != http.StatusOK || got.object["key"] != key {
				t.Errorf("%s: %d %s", request, got.status, got.body)
			}
		}
	}
	for key, says := range map[string]string{
		"%00": "control character", "a%0Ab": "control character", "%7F": "control character", "%FF%FE": "not UTF-8",
		strings.Repeat("x", 513): "513 bytes", strings.Repeat("x", 10<<10): "10240 bytes",
	} {
		for request, body := range map[string]string{"PUT": `{"delay":"0s"}`, "GET": "", "DELETE": ""} {
			y.try(try{request: request + " /api/v1/timers/acme/" + key, body: body, status: 400, code: "invalid", want: says})
		}
	}
	page, err := y.timers.List(t.Context(), timer.Filter{Tenant: "acme"})
	if err != nil || len(page.Timers) != 0 {
		t.Errorf("there are %v, %v", page.Timers, err)
	}
	y.wantNothingLogged()
}

// TestManyTimersAtOnce: 10,000 are one commit, and one more is too many.
func TestManyTimersAtOnce(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	body := func(n int, payload string) string {
		var b strings.Builder
		b.WriteString(`{"timers":[`)
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"tenant":"acme","key":"k%d","delay":"1h","payload":%q}`, i, payload)
		}
		b.WriteString(`]}`)
		return b.String()
	}
	y.try(
		try{request: "POST /api/v1/timers/bulk", body: body(10_001, ""), status: 422, code: "invalid", want: "10000"},
		try{request: "POST /api/v1/timers/bulk", body: body(10_000, strings.Repeat("x", 3500)), status: 413, code: "too_large"},
	)
	if n, err := y.store.Count(t.Context(), store.Query{Kind: "timer"}, 100_000); n != 0 || err != nil {
		t.Errorf("%d timers after these, %v", n, err)
	}
	got := y.do("POST /api/v1/timers/bulk", body(10_000, strings.Repeat("x", 500)))
	list, _ := got.object["timers"].([]any)
	if got.status != http.StatusOK || len(list) != 10_000 {
		t.Fatalf("%d %.300s", got.status, got.body)
	}
	if last, _ := list[9999].(map[string]any); last["key"] != "k9999" || last["status"] != "armed" {
		t.Errorf("the last one is %v", last)
	}
	y.try(try{request: "POST /api/v1/timers/cancel", body: `{"tenant":"acme"}`, status: 200, want: `{"cancelled":10000}`})
}

// TestTimersAskWhoItIs: for a role, and for a tenant wherever it is named.
func TestTimersAskWhoItIs(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.tryGuards(
		guarded{"PUT " + aTimer, `{"delay":"1h"}`, true, true},
		guarded{"GET " + aTimer, "", false, true},
		guarded{"POST " + aTimer + "/snooze", `{"delay":"1h"}`, true, true},
		guarded{"POST " + aTimer + "/redeliver", `{"sink":"up"}`, true, true},
		guarded{"DELETE " + aTimer, "", true, true},
		guarded{"GET /api/v1/timers?tenant=acme", "", false, true},
		guarded{"POST /api/v1/timers/bulk", `{"timers":[{"tenant":"acme","key":"b","delay":"1h"}]}`, true, true},
		guarded{"POST /api/v1/timers/cancel", `{"tenant":"acme"}`, true, true},
	)
	mixed := `{"timers":[{"tenant":"acme","key":"mine","delay":"1h"},{"tenant":"other","key":"theirs","delay":"1h"}]}`
	y.try(
		try{request: "POST /api/v1/timers/bulk", body: mixed, status: 403, code: "forbidden", want: "other", headers: []string{who + ": operate:acme"}},
		try{request: "POST /api/v1/timers/bulk", body: `{"timers":[{"key":"nobody's","delay":"1h"}]}`, status: 403, code: "forbidden", want: "default", headers: []string{who + ": operate:acme"}},
		try{request: "GET /api/v1/timers/acme/mine", status: 404, code: "not_found"},
		try{request: "PUT /api/v1/timers/other/x", body: `{"delay":"1h"}`, status: 201},
		try{request: "GET /api/v1/timers", status: 200, want: `{"timers":[{"tenant":"other","key":"x"`, headers: []string{who + ": read:other"}},
		try{request: "GET /api/v1/timers", status: 403, code: "forbidden", want: "tenant=", headers: []string{who + ": read:acme,other"}},
		try{request: "GET /api/v1/timers?tenant=other", status: 403, code: "forbidden", headers: []string{who + ": read:acme"}},
	)
}
