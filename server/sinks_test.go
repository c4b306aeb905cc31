package server_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/timer"
)

// TestSinks: those of the server and others for which something waits, with how much that is.
func TestSinks(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.try(try{request: "GET /api/v1/sinks", status: 200, want: `{"sinks":[{"name":"down","configured":true,"pending":0,"ready":0,"failed":0},{"name":"up","configured":true,`})
	y.run()
	for _, path := range []string{"broken/a", "broken/b", "far/a"} {
		y.try(try{request: "PUT /api/v1/timers/" + path, body: `{"delay":"0s"}`, status: 201})
	}
	y.until("GET /api/v1/timers/far/a", `"status":"fired"`)
	y.until("GET /api/v1/timers/broken/a", `"state":"failed"`)
	y.until("GET /api/v1/timers/broken/b", `"state":"failed"`)
	got := y.do("GET /api/v1/sinks", "")
	for _, want := range []string{
		`{"name":"down","configured":true,"pending":0,"ready":0,"failed":2}`,
		`{"name":"elsewhere","configured":false,"pending":1,"ready":1,"oldest":"20`,
		`{"name":"up","configured":true,`,
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("%s\nwant %s", got.body, want)
		}
	}
	y.tryGuards(guarded{request: "GET /api/v1/deliveries?tenant=acme", tenant: true})
	y.try(
		try{request: "GET /api/v1/sinks", status: 200, headers: []string{who + ": read:*"}},
		try{request: "GET /api/v1/sinks", status: 403, code: "forbidden", want: "all tenants", headers: []string{who + ": admin:acme"}},
		try{request: "GET /api/v1/sinks", status: 403, code: "forbidden", headers: []string{who + ": none:*"}},
		try{request: "GET /api/v1/sinks?x=1", status: 422, code: "invalid", want: "x"},
	)
}

// TestRedelivery: what is in quarantine is redriven, and what was published is once more.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.run()
	y.try(try{request: "PUT /api/v1/timers/broken/a", body: `{"delay":"0s","payload":1}`, status: 201})
	failed := y.until("GET /api/v1/timers/broken/a", `"state":"failed"`)
	y.down.mu.Lock()
	y.down.mended = true
	y.down.mu.Unlock()
	for range 2 {
		got := y.do("POST /api/v1/timers/broken/a/redeliver", `{"sink":"down"}`)
		if got.status != http.StatusOK || !strings.Contains(got.body, `"state":"pending"`) {
			t.Fatalf("%d %s", got.status, got.body)
		}
		y.until("GET /api/v1/timers/broken/a", `{"sink":"down","state":"published"`)
	}
	y.down.mu.Lock()
	defer y.down.mu.Unlock()
	id, _ := failed.object["envelope_id"].(string)
	if !slices.Equal(y.down.got, []string{id, id}) {
		t.Errorf("the sink got %v, want %s twice", y.down.got, id)
	}
	y.try(try{request: "GET /api/v1/quarantine", status: 200, want: `{"messages":[]}`})
}

// TestDeliveries are listed by tenant, sink and state, the latest first, page by page.
func TestDeliveries(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.run()
	for i := range 7 {
		y.try(try{request: fmt.Sprintf("PUT /api/v1/timers/broken/k%d", i), body: `{"delay":"0","correlation_id":"c"}`, status: 201})
		y.until(fmt.Sprintf("GET /api/v1/timers/broken/k%d", i), `{"sink":"up","state":"published"`)
		y.until(fmt.Sprintf("GET /api/v1/timers/broken/k%d", i), `{"sink":"down","state":"failed"`)
	}
	y.try(
		try{request: "PUT /api/v1/timers/none/x", body: `{"delay":"0s"}`, status: 201}, // which goes nowhere
		try{request: "PUT /api/v1/timers/broken/armed", body: `{"delay":"1h"}`, status: 201},
	)
	y.until("GET /api/v1/timers/none/x", `"status":"fired"`)
	for query, want := range map[string]int{
		"": 14, "?tenant=broken": 14, "?tenant=none": 0, "?tenant=nobody": 0, "?sink=up": 7, "?sink=nowhere": 0, "?state=failed": 7, "?sink=up&state=failed": 0,
		"?sink=down&state=failed&tenant=broken": 7,
	} {
		for _, size := range []int{1, 2, 3, 5, 13, 14, 1000} {
			got := y.deliveries(query, size)
			if len(got) != want {
				t.Errorf("%s: %d deliveries with pages of %d, want %d: %v", query, len(got), size, want, got)
			}
			if want == 14 && (got[0] != "k6 down" || got[1] != "k6 up" || got[13] != "k0 up") {
				t.Errorf("%s: they are %v", query, got)
			}
		}
	}
	y.try(
		try{request: "GET /api/v1/deliveries?tenant=broken&page_size=1&state=failed", status: 200, want: `"correlation_id":"c","fired_at":"20`},
		try{request: "GET /api/v1/deliveries?page_size=0", status: 422, code: "invalid", want: "page_size"},
		try{request: "GET /api/v1/deliveries?state=lost", status: 422, code: "invalid", want: "state"},
		try{request: "GET /api/v1/deliveries?page_token=forged", status: 400, code: "invalid", want: "page_token"},
		try{request: "GET /api/v1/deliveries?page_token=-1.x", status: 400, code: "invalid"},
		try{request: "GET /api/v1/deliveries?page_token=0.forged", status: 400, code: "invalid"},
	)
	y.wantNothingLogged()
}

// deliveries returns what a query lists, as key and sink.
func (y *yard) deliveries(query string, size int) (all []string) {
	y.t.Helper()
	sep := "?"
	if query != "" {
		sep = "&"
	}
	for token := ""; ; {
		got := y.do(fmt.Sprintf("GET /api/v1/deliveries%s%spage_size=%d&page_token=%s", query, sep, size, url.QueryEscape(token)), "")
		list, _ := got.object["deliveries"].([]any)
		if got.status != http.StatusOK || len(list) > size {
			y.t.Fatalf("%s: %d, %d of %d, %.300s", query, got.status, len(list), size, got.body)
		}
		for _, d := range list {
			delivery, _ := d.(map[string]any)
			all = append(all, fmt.Sprint(delivery["key"], " ", delivery["sink"]))
		}
		if token, _ = got.object["next_page_token"].(string); token == "" {
			return all
		}
	}
}

// TestDeliveriesLooksAtSomeAtATime: a filter that matches nothing does not have a request look
// at everything there is.
func TestDeliveriesLooksAtSomeAtATime(t *testing.T) {
	t.Parallel()
	y := newYard(t)
	y.run()
	for batch := range 3 {
		requests := make([]timer.Request, 2000)
		for i := range requests {
			requests[i] = timer.Request{Tenant: "far", Key: fmt.Sprint(batch, "/", i)}
		}
		_, err := y.timers.ScheduleAll(t.Context(), requests)
		check.OK(y.t, err)
	}
	y.until("GET /api/v1/timers?tenant=far&status=armed", `{"timers":[]}`)
	got := y.do("GET /api/v1/deliveries?sink=nowhere&page_size=1000", "")
	if token, _ := got.object["next_page_token"].(string); token == "" || got.status != http.StatusOK {
		t.Errorf("%d %.300s", got.status, got.body)
	}
	if all := y.deliveries("?sink=nowhere", 1000); len(all) != 0 {
		t.Errorf("%d deliveries to nowhere", len(all))
	}
}
