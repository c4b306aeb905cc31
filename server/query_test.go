package server_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestReasons: a reason is taken from the body or from the query, and nothing else is.
func TestReasons(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	started := func(id string) {
		t.Helper()
		if got := w.do("admin", "POST /api/v1/instances", `{"orchestration":"idle","id":"`+id+`"}`); got.status != http.StatusCreated {
			t.Fatal(got)
		}
	}
	for id, request := range map[string][2]string{
		"body":  {"/suspend", `{"reason":"the bank is closed"}`},
		"query": {"/suspend?reason=the+bank+is+closed", ""},
		"both":  {"/suspend?reason=the+bank+is+closed", `{"reason":"the bank is closed"}`},
	} {
		started(id)
		if got := w.do("admin", "POST /api/v1/instances/default/"+id+request[0], request[1]); got.status != http.StatusNoContent {
			t.Fatalf("%s: %d %s", id, got.status, got.body)
		}
		got := w.do("admin", "GET /api/v1/instances/default/"+id, "")
		for got.object["status"] != "suspended" && t.Context().Err() == nil {
			got = w.do("admin", "GET /api/v1/instances/default/"+id, "")
		}
		if got.object["reason"] != "the bank is closed" {
			t.Errorf("%s: %s", id, got.body)
		}
	}
	for request, want := range map[[2]string]string{
		{"/suspend", `{"reson":"x"}`}:            "unexpected property",
		{"/resume", `{"reson":"x"}`}:             "unexpected property",
		{"/cancel?reason=x", `{"reason":"y"}`}:   "different reasons",
		{"/cancel", `{"reason":` + `"x","a":1}`}: "unexpected property",
		{"/cancel?why=x", ""}:                    "unknown query parameter; allowed: reason",
	} {
		if got := w.do("admin", "POST /api/v1/instances/default/body"+request[0], request[1]); got.status/100 != 4 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s", request, got.status, got.body)
		}
	}
	long := `{"reason":"` + strings.Repeat("x", 1025) + `"}`
	if got := w.do("admin", "POST /api/v1/schedules/default/s/pause", long); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, "at most 1024") {
		t.Errorf("a reason that would be cut: %d %s", got.status, got.body)
	}
	if got := w.do("admin", "POST /api/v1/instances/default/body/resume", `{"reason":"open again"}`); got.status != http.StatusNoContent {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := w.do("admin", "GET /api/v1/audit?operation=resume-instance", ""); !strings.Contains(got.body, "open again") {
		t.Errorf("the audit log has no reason: %s", got.body)
	}
}

// TestQueries: lists take the notations of the command line, and say what they know.
func TestQueries(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	for _, id := range []string{"a", "b"} {
		if got := w.do("admin", "POST /api/v1/instances", `{"orchestration":"idle","id":"`+id+`","tags":{"customer":"7","a=b:c%":"x"}}`); got.status != http.StatusCreated {
			t.Fatal(got)
		}
	}
	for query, want := range map[string]int{
		"tag=customer=7": 2, "tag=customer:7": 2, "tag=customer=8": 0, "tag=a%253Db%253Ac%2525=x": 2, "tag=a%253Db%253Ac%2525:x": 2,
		"from=-1h": 2, "from=%2B1h": 0, "from=+1h": 0, "to=-1h": 0, "to=now": 2, "from=2020-01-01": 2, "from=2020-01-01T00:00:00Z&to=%2B1m": 2,
		"limit=1": 1, "page_size=1": 1,
	} {
		got := w.do("admin", "GET /api/v1/instances?"+query, "")
		if list, _ := got.object["instances"].([]any); got.status != http.StatusOK || len(list) != want {
			t.Errorf("%s: %d, %d instances, want %d: %s", query, got.status, len(list), want, got.body)
		}
	}
	first := w.do("admin", "GET /api/v1/instances?from=-1h&limit=1", "")
	next, _ := first.object["next_page_token"].(string)
	if got := w.do("admin", "GET /api/v1/instances?from=-1h&limit=1&page_token="+next, ""); got.status != http.StatusOK || !strings.Contains(got.body, `"id":"b"`) {
		t.Errorf("the second page: %d %s", got.status, got.body)
	}
	for request, want := range map[string]string{
		"/api/v1/instances?pageSize=3":      "unknown query parameter; allowed: page_size, page_token, tenant",
		"/api/v1/workers?x=1":               "unknown query parameter; there are none here",
		"/api/v1/instances?from=yesterday":  "write 2026-11-15T09:00:00Z",
		"/api/v1/instances?tag=customer":    "name=value",
		"/api/v1/instances/default/a/b/c/d": "%2F",
	} {
		if got := w.do("admin", "GET "+request, ""); got.status/100 != 4 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %s", request, got.status, got.body)
		}
	}
}
