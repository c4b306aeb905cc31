package action_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/meter"
)

// scraped is what Prometheus reads.
type scraped struct {
	t        *testing.T
	registry *prometheus.Registry
	provider *sdk.MeterProvider
}

func newScraped(t *testing.T) *scraped {
	t.Helper()
	s := &scraped{t: t, registry: prometheus.NewRegistry()}
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(s.registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	check.OK(t, err)
	s.provider = sdk.NewMeterProvider(sdk.WithReader(exporter))
	return s
}

func (s *scraped) configure(c *action.Config) { c.MeterProvider = s.provider }

// read returns the text that is scraped, and its values by series.
func (s *scraped) read() (text string, values map[string]float64) {
	s.t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
		ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != 200 {
		s.t.Fatalf("scraping gives %d: %s", answer.Code, answer.Body)
	}
	text = answer.Body.String()
	values = map[string]float64{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		series, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || series == "#" {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			s.t.Fatalf("line %q: %v", lines.Text(), err)
		}
		values[series] = number
	}
	return text, values
}

func (s *scraped) want(want map[string]float64) {
	s.t.Helper()
	_, got := s.read()
	for series, value := range want {
		if got[series] != value {
			s.t.Errorf("%s is %v, want %v", series, got[series], value)
		}
	}
}

// busyMetrics has something of everything happen.
func busyMetrics(t *testing.T, m *scraped) *rig {
	t.Helper()
	r := newRig(t, m.configure, target(func(d *action.Definition) { d.Attempts = 2 }))
	r.will(func(ctx context.Context, run action.Run) (action.Outcome, error) {
		switch run.Action.Slug {
		case "bad":
			return action.Outcome{}, errors.New("no")
		case "slow":
			return takes(90*time.Second)(ctx, run)
		default:
			return action.Outcome{}, nil
		}
	})
	r.run()
	r.add(action.Request{At: r.at(15 * time.Second)}) // 5 s late
	r.add(action.Request{At: r.at(20 * time.Second), Slug: "bad"})
	r.receive("x", "d")
	r.receive("x", "d") // which is not added
	r.add(action.Request{ID: "far", Delay: 100 * time.Hour})
	r.add(action.Request{ID: "cancelled", Delay: 100 * time.Hour})
	r.cancel("cancelled", "")
	r.cancel("cancelled", "")
	r.addSchedule(plan(every(time.Minute), func(p *action.Plan) { p.Slug, p.From = "slow", r.at(time.Minute) }))
	return r
}

// TestMetricsAreWhatPrometheusReads: each of them, by the name that Prometheus shows.
func TestMetricsAreWhatPrometheusReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newScraped(t)
		r := busyMetrics(t, m)
		m.want(map[string]float64{
			`abide_action_added_total{trigger="scheduled"}`: 4, `abide_action_added_total{trigger="webhook"}`: 1,
			"abide_action_pending": 4, "abide_action_running": 0, "abide_action_overdue_seconds": 0,
		})
		r.until(65 * time.Second)
		m.want(map[string]float64{
			`abide_action_added_total{trigger="scheduled"}`: 5,
			"abide_action_started_total":                    5, // one of them twice
			`abide_action_ended_total{status="completed"}`:  2,
			`abide_action_ended_total{status="failed"}`:     1,
			`abide_action_ended_total{status="pending"}`:    1,
			`abide_action_ended_total{status="cancelled"}`:  1,
			"abide_action_duration_seconds_count":           4,
			"abide_action_duration_seconds_sum":             0,
			"abide_action_lateness_seconds_count":           5,
			"abide_action_pending":                          2,
			"abide_action_running":                          1,
			"abide_action_overdue_seconds":                  5,
			"abide_tick_duration_seconds_count":             7,
		})
		// The webhook waits for a tick, and so does the action that is run again, after a second
		// less a fifth at most.
		if _, got := m.read(); got["abide_action_lateness_seconds_sum"] < 5+10+9 || got["abide_action_lateness_seconds_sum"] > 5+10+9.2 {
			t.Errorf("the actions were %v s late, want 24 to 24.2", got["abide_action_lateness_seconds_sum"])
		}
		r.until(3*time.Minute + 5*time.Second)
		m.want(map[string]float64{
			`abide_action_ended_total{status="skipped"}`:   1,
			`abide_action_ended_total{status="completed"}`: 3,
			"abide_action_duration_seconds_sum":            90,
		})
		if _, err := r.Pause(t.Context(), "acme", "s", ""); err != nil {
			t.Fatal(err)
		}
		r.until(5 * time.Minute)
		if _, err := r.Resume(t.Context(), "acme", "s"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Backfill(t.Context(), "acme", "s", r.at(0), r.at(2*time.Minute)); err != nil {
			t.Fatal(err)
		}
		m.want(map[string]float64{`abide_action_ended_total{status="skipped"}`: 2, `abide_action_added_total{trigger="scheduled"}`: 8})
	})
}

// TestGaugesEndWithTheService: who has stopped is not asked.
func TestGaugesEndWithTheService(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newScraped(t)
		r := newRig(t, m.configure)
		stop := r.run()
		r.add(action.Request{})
		stop()
		_, values := m.read()
		if _, there := values["abide_action_pending"]; there || values[`abide_action_added_total{trigger="scheduled"}`] != 1 {
			t.Errorf("scraped are %v", values)
		}
	})
}

// TestEveryMetricIsScraped with its kind and help.
func TestEveryMetricIsScraped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newScraped(t)
		busyMetrics(t, m)
		pass(5 * time.Minute)
		text, _ := m.read()
		ours := 0
		for _, metric := range meter.All() {
			if !strings.HasPrefix(metric.Name, "abide.action.") && !strings.HasPrefix(metric.Name, "abide.tick.") {
				continue
			}
			ours++
			name := strings.ReplaceAll(metric.Name, ".", "_")
			if metric.Unit == "s" {
				name += "_seconds"
			}
			if metric.Kind == meter.KindCounter {
				name += "_total"
			}
			for _, line := range []string{
				fmt.Sprintf("# TYPE %s %s\n", name, metric.Kind), fmt.Sprintf("# HELP %s %s\n", name, metric.Help),
			} {
				if !strings.Contains(text, line) {
					t.Errorf("%q is not scraped", line)
				}
			}
		}
		check.Equal(t, "metrics are scraped, and there", strings.Count(text, "# TYPE abide_"), ours)
	})
}
