package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/server/telemetry"
)

func TestRequestsAreMeasured(t *testing.T) {
	t.Parallel()
	telemetry, err := telemetry.New(telemetry.Config{})
	check.OK(t, err)
	w := newWhole(t, func(c *server.Config) { c.Telemetry = telemetry })
	w.do("reader", "GET /api/v1/instances", "")
	w.do("reader", "GET /api/v1/instances", "")
	w.do("nobody", "GET /api/v1/instances", "")
	w.do("reader", "GET /api/v1/instances/default/none", "")
	w.do("nobody", "POST /hooks/x", "")
	w.do("reader", "GET /", "")
	w.do("reader", "GET /api/v1/nothing", "")
	metrics := w.do("reader", "GET /metrics", "")
	for _, want := range []string{
		`abide_http_requests_total{class="2xx"} 4`,
		`abide_http_requests_total{class="4xx"} 3`,
		`abide_http_duration_seconds_count{operation="list-instances"} 2`,
		`abide_http_duration_seconds_count{operation="get-instance"} 1`,
		`abide_http_duration_seconds_count{operation="hook"} 1`,
		`abide_http_duration_seconds_count{operation="page"} 1`,
		`abide_http_duration_seconds_count{operation="other"} 2`,
	} {
		if !strings.Contains(metrics.body, want) {
			t.Errorf("%q is not among the metrics:\n%s", want, metrics.body)
		}
	}
	if got := w.do("acme", "GET /metrics", ""); got.status != http.StatusForbidden {
		t.Errorf("who has one tenant sees the metrics of all: %d", got.status)
	}
}

// An instance that is started over HTTP is in the trace of who has started it.
func TestStartsGoOnWithTheTraceOfTheirClient(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if got := w.do("operator", "POST /api/v1/instances Traceparent:"+parent, `{"orchestration":"idle","id":"traced"}`); got.status != http.StatusCreated {
		t.Fatalf("%d %s", got.status, got.body)
	}
	info, err := w.engine.Get(t.Context(), abide.Ref{ID: "traced"})
	if err != nil || info.TraceParent != parent {
		t.Errorf("the instance is in the trace %q (%v), want %q", info.TraceParent, err, parent)
	}
}
