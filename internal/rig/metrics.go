package rig

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/abidehq/abide/internal/check"
)

// Metrics reads metrics as Prometheus does.
type Metrics struct {
	Provider *sdk.MeterProvider // for the configuration of a service

	t        testing.TB
	registry *prometheus.Registry
}

// NewMetrics returns metrics of which there are none.
func NewMetrics(t testing.TB) *Metrics {
	t.Helper()
	m := &Metrics{t: t, registry: prometheus.NewRegistry()}
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(m.registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	check.OK(t, err)
	m.Provider = sdk.NewMeterProvider(sdk.WithReader(exporter))
	return m
}

// Read returns the text that is scraped, and its values by series.
func (m *Metrics) Read() (text string, values map[string]float64) {
	m.t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
		ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		m.t.Fatalf("scraping gives %d: %s", answer.Code, answer.Body)
	}
	text = answer.Body.String()
	values = map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		series, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || series == "#" {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		check.OK(m.t, err)
		values[series] = number
	}
	return text, values
}

// Want checks the values of some series.
func (m *Metrics) Want(want map[string]float64) {
	m.t.Helper()
	_, got := m.Read()
	for series, value := range want {
		check.Equal(m.t, series, got[series], value)
	}
}
