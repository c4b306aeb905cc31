package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"

	"github.com/abidehq/abide/internal/meter"
)

// meters are the server's instruments.
type meters struct {
	requests metric.Int64Counter
	duration metric.Float64Histogram
	classes  [6]metric.MeasurementOption // by the first digit of the status
	names    map[string]metric.MeasurementOption
}

// Names of requests that are no operation of the API.
const (
	namePage   = "page"
	nameHook   = "hook"
	nameStream = "stream"
	nameOther  = "other"
)

func newMeters(p metric.MeterProvider) (*meters, error) {
	set := meter.New(p)
	m := &meters{requests: set.Counter(meter.HTTPRequests), duration: set.Seconds(meter.HTTPDuration), names: map[string]metric.MeasurementOption{}}
	for i := range m.classes {
		m.classes[i] = metric.WithAttributeSet(attribute.NewSet(attribute.String(meter.HTTPRequests.Label, strconv.Itoa(i)+"xx")))
	}
	for _, name := range []string{namePage, nameHook, nameOther} {
		m.know(name)
	}
	return m, set.Err
}

// know makes the label of an operation, once.
func (m *meters) know(operation string) {
	m.names[operation] = metric.WithAttributeSet(attribute.NewSet(attribute.String(meter.HTTPDuration.Label, operation)))
}

// observe measures a request until done is called, and continues the trace of its
// client. Done returns the status of the answer, or 0 if there was none.
func (s *Server) observe(w http.ResponseWriter, r *http.Request, q *request) (_ http.ResponseWriter, _ *http.Request, done func() (status int)) {
	began := s.clock.Now()
	watched := &watched{ResponseWriter: w}
	r = r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
	return watched, r, func() int {
		ctx := context.Background() // that of the request may have ended
		s.meters.requests.Add(ctx, 1, s.meters.classes[min(max(watched.status, http.StatusOK)/100, 5)])
		if name := q.name(r.URL.Path); name != nameStream {
			s.meters.duration.Record(ctx, s.clock.Now().Sub(began).Seconds(), s.meters.names[name])
		}
		return watched.status
	}
}

// name returns what the request is to those who measure.
func (q *request) name(path string) string {
	switch {
	case strings.HasPrefix(q.operation, "stream-"), path == "/live":
		return nameStream // how long it takes is up to the client
	case q.operation != "":
		return q.operation
	case strings.HasPrefix(path, "/hooks/"):
		return nameHook
	case strings.HasPrefix(path, "/api/"), path == "/metrics", path == "/healthz", path == "/readyz", strings.HasPrefix(path, "/openapi"):
		return nameOther
	default:
		return namePage
	}
}

// asOperation notes which operation a request is for.
func asOperation(operation string) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		requestOf(ctx.Context()).operation = operation
		next(ctx)
	}
}

// watched knows which status was sent.
type watched struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (w *watched) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets others reach the connection.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
