package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server/operation"
)

// start starts instances that wait.
func (y *yard) start(tenant string, n int) {
	y.t.Helper()
	for i := range n {
		_, err := waitFlow.Start(y.t.Context(), y.engine, abide.None{}, abide.ID(fmt.Sprint("i", i)), abide.Tenant(tenant))
		check.OK(y.t, err)
	}
}

func TestOperationRoutes(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.start("acme", 3)
	y.start("", 2)
	y.try(
		try{request: "POST /api/v1/operations", body: `{"id":"stop","kind":"terminate","filter":{"tenant":"acme"},"reason":"never"}`, status: 202, want: `"status":"pending"`},
		try{request: "POST /api/v1/operations/stop/cancel?tenant=acme", status: 200, want: `"status":"cancelled"`},
		try{request: "POST /api/v1/operations/stop/cancel?tenant=acme", status: 200, want: `"status":"cancelled"`},
	)
	y.run()
	full := `{"id":"full","kind":"terminate","filter":{"tenant":"acme","orchestrations":["wait"],"statuses":["pending","running"],"from":"2020-01-01T00:00:00Z","to":"2099-01-01T00:00:00Z"},"reason":"enough"}`
	y.try(
		try{request: "POST /api/v1/operations", body: full, status: 202, want: `"by":"t1"`, headers: []string{who + ": operate:*"}},
		try{request: "POST /api/v1/operations", body: full, status: 202, want: `"id":"full"`},
	)
	got := y.until("GET /api/v1/operations/full?tenant=acme", `"status":"completed"`)
	for _, want := range []string{
		`"matched":3,"done":3,"skipped":0,"failed":0`, `"reason":"enough"`, `"begun_at":"20`, `"ended_at":"20`,
		`"filter":{"tenant":"acme","orchestrations":["wait"],"statuses":["pending","running"],"from":"2020-01-01T00:00:00Z","to":"2099-01-01T00:00:00Z"}`,
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("%s\nhas no %s", got.body, want)
		}
	}
	y.until("GET /api/v1/instances/acme/i2", `"status":"terminated"`)
	y.try(
		try{request: "POST /api/v1/operations", body: `{"id":"all","kind":"delete","all":true}`, status: 202, want: `"all":true`},
		try{request: "POST /api/v1/operations", body: `{"id":"default","kind":"suspend","filter":{"tenant":"default"}}`, status: 202, want: `"filter":{"tenant":"default"}`},
	)
	y.until("GET /api/v1/operations/all", `"done":3,"skipped":2`)
	y.until("GET /api/v1/operations/default?tenant=default", `"status":"completed"`)
	y.until("GET /api/v1/instances/default/i1", `"status":"suspended"`)
	y.try(
		try{request: "GET /api/v1/operations", status: 200, want: `"id":"stop"`},
		try{request: "GET /api/v1/operations?tenant=acme&status=completed&kind=terminate,delete", status: 200, want: `{"operations":[{"id":"full"`},
		try{request: "GET /api/v1/operations?tenant=default", status: 200, want: `{"operations":[{"id":"default"`},
		try{request: "GET /api/v1/operations?page_size=1", status: 200, want: `"next_page_token":"`},
		try{request: "GET /api/v1/operations?kind=restart", status: 200, want: `{"operations":[]}`},
	)
}

// TestOperationsByKey: the same Idempotency-Key makes the same operation.
func TestOperationsByKey(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	const body = `{"kind":"cancel","filter":{"tenant":"acme"}}`
	first := y.do("POST /api/v1/operations", body, "Idempotency-Key: one")
	again := y.do("POST /api/v1/operations", body, "Idempotency-Key: one")
	other := y.do("POST /api/v1/operations", body)
	if first.status != http.StatusAccepted || first.object["id"] == "" || first.object["id"] != again.object["id"] || first.object["id"] == other.object["id"] {
		t.Errorf("%s\n%s\n%s", first.body, again.body, other.body)
	}
}

func TestOperationProblems(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.run()
	y.try(try{request: "POST /api/v1/operations", body: `{"id":"a/../ü","kind":"cancel","filter":{"tenant":"acme"}}`, status: 202})
	const odd = "/api/v1/operations/a%2F..%2F%C3%BC"
	y.until("GET "+odd+"?tenant=acme", `"status":"completed"`)
	y.try(
		try{request: "POST /api/v1/operations", status: 400, code: "invalid", want: "body"},
		try{request: "POST /api/v1/operations", body: `{`, status: 400, code: "invalid"},
		try{request: "POST /api/v1/operations", body: `{}`, status: 422, code: "invalid", want: "kind"},
		try{request: "POST /api/v1/operations", body: `{"kind":"explode","all":true}`, status: 422, code: "invalid", want: "kind"},
		try{request: "POST /api/v1/operations", body: `{"kind":"terminate"}`, status: 400, code: "invalid", want: "names no tenant"},
		try{request: "POST /api/v1/operations", body: `{"kind":"terminate","filter":{}}`, status: 400, code: "invalid", want: "names no tenant"},
		try{request: "POST /api/v1/operations", body: `{"kind":"terminate","filter":{"tenant":""}}`, status: 400, code: "invalid", want: "names no tenant"},
		try{request: "POST /api/v1/operations", body: `{"kind":"terminate","filter":{"tenant":"acme"},"all":true}`, status: 400, code: "invalid", want: "only one"},
		try{request: "POST /api/v1/operations", body: `{"kind":"terminate","filter":{"tennant":"acme"}}`, status: 422, code: "invalid", want: "tennant"},
		try{request: "POST /api/v1/operations", body: `{"kind":"terminate","filter":{"tenant":"acme","statuses":["done"]}}`, status: 422, code: "invalid", want: "statuses"},
		try{request: "POST /api/v1/operations", body: `{"kind":"terminate","filter":{"tenant":"acme","to":"1969-01-01T00:00:00Z"}}`, status: 400, code: "invalid", want: "1970"},
		try{request: "POST /api/v1/operations", body: `{"kind":"cancel","all":true,"id":"` + strings.Repeat("x", 10<<10) + `"}`, status: 400, code: "invalid", want: "10240 bytes"},
		try{request: "POST /api/v1/operations", body: `{"kind":"cancel","all":true,"reason":"` + strings.Repeat("x", 2000) + `"}`, status: 422, code: "invalid", want: "reason"},
		try{request: "POST /api/v1/operations", body: `{"kind":"cancel","all":true,"reason":"` + strings.Repeat("x", 2<<20) + `"}`, status: 413, code: "too_large"},
		try{request: "POST /api/v1/operations", body: `{"id":"a/../ü","kind":"delete","filter":{"tenant":"acme"}}`, status: 409, code: "already_exists", want: "cancel"},
		try{request: "POST " + odd + "/cancel?tenant=acme", status: 409, code: "wrong_state", want: "completed"},
		try{request: "GET /api/v1/operations/none", status: 404, code: "not_found", want: "none"},
		try{request: "GET /api/v1/operations/" + strings.Repeat("x", 10<<10), status: 400, code: "invalid", want: "10240"},
		try{request: "GET /api/v1/operations/%FF", status: 400, code: "invalid", want: "UTF-8"},
		try{request: "GET /api/v1/operations/%00", status: 404, code: "not_found"},
		try{request: "POST /api/v1/operations/none/cancel", status: 404, code: "not_found", want: "none"},
		try{request: "GET /api/v1/operations?status=done", status: 422, code: "invalid", want: "status"},
		try{request: "GET /api/v1/operations?kind=x", status: 422, code: "invalid", want: "kind"},
		try{request: "GET /api/v1/operations?page_token=forged", status: 400, code: "invalid"},
		try{request: "DELETE " + odd, status: 405, code: "wrong_method", want: "GET"},
	)
	page, err := y.operations.List(t.Context(), operation.Query{})
	if err != nil || len(page.Operations) != 1 {
		t.Errorf("there are %d operations, %v", len(page.Operations), err)
	}
	y.wantNothingLogged()
}

// TestOperationsAskWhoItIs: nobody does something to instances of others, or learns what was
// done to them.
func TestOperationsAskWhoItIs(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	as := func(text string) []string { return []string{who + ": " + text} }
	y.try(
		try{request: "POST /api/v1/operations", body: `{"id":"acme","kind":"cancel","filter":{"tenant":"acme"}}`, status: 202},
		try{request: "POST /api/v1/operations", body: `{"id":"all","kind":"cancel","all":true}`, status: 202},
	)
	y.tryGuards(
		guarded{"POST /api/v1/operations", `{"kind":"cancel","filter":{"tenant":"acme"}}`, true, true},
		guarded{"GET /api/v1/operations/acme?tenant=acme", "", false, true},
		guarded{"GET /api/v1/operations?tenant=acme", "", false, true},
		guarded{"POST /api/v1/operations/acme/cancel?tenant=acme", "", true, true},
	)
	y.try(
		try{request: "POST /api/v1/operations", body: `{"kind":"cancel","all":true}`, status: 403, code: "forbidden", want: "all tenants", headers: as("admin:acme,other")},
		try{request: "POST /api/v1/operations", body: `{"kind":"cancel"}`, status: 400, code: "invalid", want: "no tenant", headers: as("operate:acme")},
		// An ID is that of a tenant: nobody learns of, or is in the way of, an operation of another.
		try{request: "POST /api/v1/operations", body: `{"id":"acme","kind":"terminate","filter":{"tenant":"other"}}`, status: 202, headers: as("operate:other")},
		try{request: "POST /api/v1/operations", body: `{"id":"all","kind":"terminate","filter":{"tenant":"other"}}`, status: 202, headers: as("operate:other")},
		try{request: "POST /api/v1/operations", body: `{"id":"acme","kind":"delete","filter":{"tenant":"other"}}`, status: 409, code: "already_exists", headers: as("operate:other")},
		try{request: "GET /api/v1/operations/acme", status: 200, want: `"kind":"terminate"`, headers: as("read:other")},
		try{request: "GET /api/v1/operations/acme", status: 200, want: `"kind":"cancel"`, headers: as("read:acme")},
		try{request: "GET /api/v1/operations/all", status: 200, want: `"kind":"cancel"`, headers: as("read:*")},
		try{request: "GET /api/v1/operations/acme", status: 404, code: "not_found", headers: as("read:*")},
		try{request: "GET /api/v1/operations/acme", status: 403, code: "forbidden", want: "tenant=", headers: as("read:acme,other")},
		try{request: "POST /api/v1/operations/acme/cancel", status: 403, code: "forbidden", want: "tenant=", headers: as("operate:acme,other")},
		try{request: "GET /api/v1/operations/acme?tenant=acme", status: 403, code: "forbidden", headers: as("read:other")},
		try{request: "GET /api/v1/operations/all", status: 404, code: "not_found", headers: as("admin:acme")},
		try{request: "POST /api/v1/operations/all/cancel", status: 404, code: "not_found", headers: as("operate:acme")},
		try{request: "GET /api/v1/operations/all", status: 200, want: `"status":"pending"`, headers: as("read:*")},
		try{request: "GET /api/v1/operations", status: 200, want: `"id":"acme"`, headers: as("read:acme")},
		try{request: "GET /api/v1/operations", status: 403, code: "forbidden", want: "tenant=", headers: as("read:acme,other")},
	)
	if got := y.do("GET /api/v1/operations", "", as("read:acme")...); strings.Contains(got.body, `"all"`) {
		t.Errorf("a token of one tenant sees an operation on all: %s", got.body)
	}
}
