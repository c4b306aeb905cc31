package timer_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"log/slog"
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

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/meter"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
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

func (s *scraped) configure(c *timer.Config) { c.MeterProvider = s.provider }

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

// TestMetricsAreWhatPrometheusReads: each of them, by the name that Prometheus shows.
func TestMetricsAreWhatPrometheusReads(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newScraped(t)
		r := newRig(t, m.configure, retention(time.Hour), quota(10))
		stop := r.run()
		r.sink.set(func(e bus.Envelope) error {
			switch {
			case e.CorrelationID == "refused":
				return bus.ErrPermanent
			case e.CorrelationID == "again" && time.Since(r.begun) < time.Hour+100*time.Millisecond:
				return errDown
			default:
				return nil
			}
		})
		for i, correlation := range []string{"", "refused", "again"} {
			r.schedule(timer.Request{Key: fmt.Sprint(i), DueAt: r.at(time.Hour), CorrelationID: correlation})
		}
		r.schedule(timer.Request{Key: "moved", Delay: 5 * time.Hour})
		r.schedule(timer.Request{Key: "moved", Delay: 50 * time.Hour})
		r.schedule(timer.Request{Key: "cancelled", Delay: time.Hour})
		r.cancel("cancelled")
		r.pass(0)
		m.want(map[string]float64{"abide_timer_armed": 4, "abide_timer_overdue_seconds": 0, "abide_timer_scheduled_total": 6, "abide_timer_cancelled_total": 1})

		r.handle(timer.TypeScheduleTimer, `{"serviceCallId":"command","delayMs":180000000}`, at(1))
		r.handle(timer.TypeScheduleTimer, `{"serviceCallId":"command","delayMs":180000000}`, at(1))
		r.handle(timer.TypeCancelTimer, `{"serviceCallId":"command"}`, at(2))
		r.handle(timer.TypeCancelTimer, `{"serviceCallId":"command"}`, at(2))
		check.OK(t, r.Refuse(t.Context(), "acme", nil, at(3), errors.New("empty")))
		r.pass(time.Hour + time.Minute)
		m.want(map[string]float64{
			"abide_timer_scheduled_total":                     7,
			"abide_timer_fired_total":                         3,
			"abide_timer_cancelled_total":                     2,
			"abide_timer_claim_conflicts_total":               0,
			`abide_timer_lateness_seconds_bucket{le="0.001"}`: 3,
			"abide_timer_lateness_seconds_count":              3,
			"abide_timer_lateness_seconds_sum":                0,
			"abide_timer_armed":                               1,
			`abide_timer_commands_total{outcome="applied"}`:   2,
			`abide_timer_commands_total{outcome="stale"}`:     2,
			`abide_timer_commands_total{outcome="refused"}`:   1,
			`abide_bus_published_total{sink="sink"}`:          2,
			`abide_bus_retried_total{sink="sink"}`:            1,
			`abide_bus_failed_total{sink="sink"}`:             1,
			`abide_bus_delay_seconds_count{sink="sink"}`:      2,
		})
		r.pass(time.Hour)
		m.want(map[string]float64{"abide_timer_removed_total": 5})

		stop()
		r.pass(100 * time.Hour)
		r.run()
		r.pass(0)
		m.want(map[string]float64{"abide_timer_fired_total": 4, "abide_timer_lateness_seconds_sum": r.get("moved").FiredAt.Sub(r.get("moved").DueAt).Seconds()})
	})
}

// TestOverdueIsHowLateTheFirstTimerIs, while nobody fires it.
func TestOverdueIsHowLateTheFirstTimerIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newScraped(t)
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		r := newRigOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method == "Claim" {
				return storetest.FailBefore
			}
			return storetest.NoFault
		}), m.configure)
		stop := r.run()
		r.schedule(timer.Request{Key: "a", Delay: time.Minute})
		r.schedule(timer.Request{Key: "b", Delay: 2 * time.Minute})
		r.schedule(timer.Request{Key: "c", Delay: time.Hour})
		r.pass(2*time.Minute + 500*time.Millisecond)
		m.want(map[string]float64{"abide_timer_armed": 3, "abide_timer_overdue_seconds": 60.5})
		stop()
		if _, values := m.read(); len(values) == 0 {
			t.Error("counters are gone when the service has stopped")
		} else if _, there := values["abide_timer_armed"]; there {
			t.Error("a service that has stopped is asked for its gauges")
		}
	})
}

// TestClaimConflictsAreCounted: a timer that is cancelled while it is being fired.
func TestClaimConflictsAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newScraped(t)
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		other := newRigOn(t, s)
		once := false
		r := newRigOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method == "Commit" && !once {
				once = true
				other.cancel("k")
			}
			return storetest.NoFault
		}), m.configure)
		other.schedule(timer.Request{Key: "k", Delay: time.Minute})
		r.run()
		r.pass(time.Minute)
		m.want(map[string]float64{"abide_timer_claim_conflicts_total": 1, "abide_timer_fired_total": 0})
		wantEqual(t, "envelopes", r.sink.count(), 0)
		wantEqual(t, "status", r.get("k").Status, timer.Cancelled)
	})
}

// prometheusName is what Prometheus calls a metric.
func prometheusName(m meter.Metric) string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	if m.Unit == "s" {
		name += "_seconds"
	}
	if m.Kind == meter.KindCounter {
		name += "_total"
	}
	return name
}

// TestEveryMetricIsScraped with its kind and help, and nothing else of ours is.
func TestEveryMetricIsScraped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newScraped(t)
		r := newRig(t, m.configure, retention(time.Hour))
		r.sink.set(func(e bus.Envelope) error {
			if e.CorrelationID != "" {
				return bus.ErrPermanent
			}
			return nil
		})
		r.run()
		r.schedule(timer.Request{Key: "a"})
		r.schedule(timer.Request{Key: "b", CorrelationID: "c"})
		r.handle(timer.TypeCancelTimer, `{"serviceCallId":"d"}`, at(1))
		r.schedule(timer.Request{Key: "e", Delay: time.Hour})
		r.cancel("e")
		r.pass(2 * time.Hour)
		text, _ := m.read()
		for _, metric := range meter.All() {
			ours := strings.HasPrefix(metric.Name, "abide.timer.") || strings.HasPrefix(metric.Name, "abide.bus.")
			if !ours || metric == meter.TimerConflicts { // nothing was in conflict, and nothing is said of it then
				continue
			}
			name := prometheusName(metric)
			for _, line := range []string{
				fmt.Sprintf("# TYPE %s %s\n", name, metric.Kind), fmt.Sprintf("# HELP %s %s\n", name, metric.Help),
			} {
				if !strings.Contains(text, line) {
					t.Errorf("%q is not scraped", line)
				}
			}
		}
		if n := strings.Count(text, "# TYPE abide_"); n > len(meter.All()) {
			t.Errorf("%d metrics are scraped, and there are %d", n, len(meter.All()))
		}
	})
}

// TestTheLogHasEachTimerThatFires at level debug, with how late it was.
func TestTheLogHasEachTimerThatFires(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newRig(t, func(c *timer.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		r.schedule(timer.Request{Key: "k", Delay: time.Minute})
		r.pass(time.Hour)
		r.run()
		r.pass(0)
		for _, words := range []string{`level=DEBUG msg="timer fired" tenant=acme key=k`, "lateness=59m0s", "envelope=" + r.get("k").EnvelopeID} {
			if strings.Count(log.String(), words) != 1 {
				t.Errorf("the log does not say %q once:\n%s", words, log.String())
			}
		}
	})
}
