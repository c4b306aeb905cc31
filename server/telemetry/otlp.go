package telemetry

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// OTLP says what is sent to a collector of OpenTelemetry, over HTTP.
type OTLP struct {
	// Endpoint is the collector's: http://127.0.0.1:4318, for example. Metrics go to
	// /v1/metrics below it, and traces to /v1/traces. Empty sends nothing.
	Endpoint string

	// Headers go with each request. They may be secret.
	Headers map[string]string

	// Interval is how often metrics are sent: every minute if it is 0. If it is negative
	// they are not: for those who have Prometheus, and want the traces alone.
	Interval time.Duration

	// Ratio is the share of traces that are kept, 0 to 1. With 0 there are none. It does
	// not apply to traces that clients begin.
	Ratio float64
}

// defaultInterval is how often metrics are sent.
const defaultInterval = time.Minute

// sendTimeout is how long a collector may take to answer.
const sendTimeout = 10 * time.Second

func (o *OTLP) check() error {
	if o.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("telemetry: %q is not the address of a collector, such as http://127.0.0.1:4318", o.Endpoint)
	}
	if !(o.Ratio >= 0 && o.Ratio <= 1) {
		return fmt.Errorf("telemetry: the share of traces is %v; 0 to 1 is allowed", o.Ratio)
	}
	return nil
}

func (o *OTLP) sendsMetrics() bool { return o.Endpoint != "" && o.Interval >= 0 }

func (o *OTLP) sendsTraces() bool { return o.Endpoint != "" && o.Ratio > 0 }

// below returns the address of one kind of thing.
func (o *OTLP) below(path string) string { return strings.TrimSuffix(o.Endpoint, "/") + path }

func (o *OTLP) metricReader() (sdk.Reader, error) {
	sent, err := otlpmetrichttp.New(context.Background(), // it connects when there is something to send
		otlpmetrichttp.WithEndpointURL(o.below("/v1/metrics")),
		otlpmetrichttp.WithHeaders(o.Headers), otlpmetrichttp.WithTimeout(sendTimeout))
	if err != nil {
		return nil, err
	}
	interval := o.Interval
	if interval == 0 {
		interval = defaultInterval
	}
	return sdk.NewPeriodicReader(sent, sdk.WithInterval(interval), sdk.WithTimeout(sendTimeout)), nil
}

func (o *OTLP) spanExporter() (sdktrace.SpanExporter, error) {
	return otlptracehttp.New(context.Background(), // it connects when there is something to send
		otlptracehttp.WithEndpointURL(o.below("/v1/traces")),
		otlptracehttp.WithHeaders(o.Headers), otlptracehttp.WithTimeout(sendTimeout))
}

// describe says whose measurements these are.
func describe(cfg Config) *resource.Resource {
	service := cfg.Service
	if service == "" {
		service = "abide"
	}
	attrs := []attribute.KeyValue{attribute.String("service.name", service)}
	if cfg.Version != "" {
		attrs = append(attrs, attribute.String("service.version", cfg.Version))
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Attributes)) {
		attrs = append(attrs, attribute.String(name, cfg.Attributes[name]))
	}
	return resource.NewSchemaless(attrs...)
}

// complaintsEvery is how often it is said that something cannot be sent. A collector that
// is gone would fill the log otherwise.
const complaintsEvery = time.Minute

// handleErrors has errors of sending in the log. OpenTelemetry knows one handler for a
// whole process, so this is done by who runs, not by who is made.
func (t *Telemetry) handleErrors() {
	var mu sync.Mutex
	var last time.Time
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if now := t.clock.Now(); last.IsZero() || now.Sub(last) >= complaintsEvery {
			last = now
			t.log.Warn("telemetry export failed", "error", err)
		}
	}))
}
