package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
)

// Config configures a [Telemetry].
type Config struct {
	// Service is the name of the service; empty means abide. Version is the version of the
	// program, and Attributes are further resource attributes of OpenTelemetry, such as
	// deployment.environment.name.
	Service    string
	Version    string
	Attributes map[string]string

	// OTLP configures where metrics and traces are sent.
	OTLP OTLP

	// Store returns the backlog of the store for the samples, see [BacklogOf]. Nil means none.
	Store func(ctx context.Context) (Backlog, error)

	// Clock is the clock of the process. Nil means that of the machine.
	Clock clock.Clock

	// Logger receives errors of exporters. Nil means [slog.Default].
	Logger *slog.Logger
}

// Telemetry collects the metrics and traces of a process, serves them to Prometheus, sends them
// by OTLP, and keeps the last ten minutes for the charts of the page. Give its providers to the
// engine and the services, and itself to server.Config.
type Telemetry struct {
	cfg      Config
	clock    base.Clock
	log      *slog.Logger
	metrics  *sdk.MeterProvider
	meter    metric.MeterProvider
	spans    *sdktrace.TracerProvider // nil if no traces are sent
	tracer   trace.TracerProvider
	registry *prometheus.Registry
	sampler  *sampler
}

// New returns a telemetry. Call Run for the charts, and Close to flush what is to be sent.
func New(cfg Config) (*Telemetry, error) {
	if err := cfg.OTLP.check(); err != nil {
		return nil, err
	}
	t := &Telemetry{cfg: cfg, clock: cfg.Clock, log: cfg.Logger, registry: prometheus.NewRegistry()}
	if t.clock == nil {
		t.clock = base.System{}
	}
	if t.log == nil {
		t.log = slog.Default()
	}
	who := describe(cfg)
	if err := t.openMetrics(who); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if err := t.openTraces(who); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return t, nil
}

// openMetrics gives all readers of metrics one set of instruments.
func (t *Telemetry) openMetrics(who *resource.Resource) error {
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := t.registry.Register(c); err != nil {
			return err
		}
	}
	scraped, err := exporter.New(exporter.WithRegisterer(t.registry), exporter.WithoutScopeInfo())
	if err != nil {
		return err
	}
	t.sampler = newSampler(t.clock, t.cfg.Store)
	options := []sdk.Option{sdk.WithResource(who), sdk.WithReader(scraped), sdk.WithReader(t.sampler.reader)}
	if t.cfg.OTLP.sendsMetrics() {
		pushed, err := t.cfg.OTLP.metricReader()
		if err != nil {
			return err
		}
		options = append(options, sdk.WithReader(pushed))
	}
	t.metrics = sdk.NewMeterProvider(options...)
	t.meter = quiet{MeterProvider: t.metrics}
	return nil
}

// openTraces starts the export of traces, if a collector is configured.
func (t *Telemetry) openTraces(who *resource.Resource) error {
	t.tracer = noop.NewTracerProvider()
	if !t.cfg.OTLP.sendsTraces() {
		return nil
	}
	sent, err := t.cfg.OTLP.spanExporter()
	if err != nil {
		return err
	}
	t.spans = sdktrace.NewTracerProvider(
		sdktrace.WithResource(who),
		sdktrace.WithBatcher(sent),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(t.cfg.OTLP.Ratio))),
	)
	t.tracer = t.spans
	return nil
}

// MeterProvider returns the provider of meters, for [abide.Config] and the services.
func (t *Telemetry) MeterProvider() metric.MeterProvider { return t.meter }

// TracerProvider returns the provider of tracers. Without an OTLP endpoint it records nothing.
func (t *Telemetry) TracerProvider() trace.TracerProvider { return t.tracer }

// Handler serves all metrics in the format of Prometheus, with those of the Go runtime and of the
// process.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(t.log.Handler(), slog.LevelWarn),
		// What can be shown is shown: a store that does not answer must not hide the rest.
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
	})
}

// maxScrapes is how many look at the metrics at a time. Each of them asks the store.
const maxScrapes = 4

// Samples returns the samples of the last ten minutes, oldest first, two seconds apart.
func (t *Telemetry) Samples() []Sample { return t.sampler.samples() }

// Run takes samples, and logs errors of exporters, until ctx ends.
func (t *Telemetry) Run(ctx context.Context) error {
	t.handleErrors()
	return t.sampler.run(ctx, t.log)
}

// Close sends what has not been sent, until ctx ends.
func (t *Telemetry) Close(ctx context.Context) error {
	var errs []error
	if t.spans != nil {
		errs = append(errs, t.spans.Shutdown(ctx))
	}
	errs = append(errs, t.metrics.Shutdown(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("telemetry: send what is left: %w", err)
	}
	return nil
}
