package timer_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/meter"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// metered has a service count into metrics.
func metered(m *rig.Metrics) func(*timer.Config) {
	return func(c *timer.Config) { c.MeterProvider = m.Provider }
}

// TestMetricsAreWhatPrometheusReads: each of them, by the name that Prometheus shows.
func TestMetricsAreWhatPrometheusReads(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		m := rig.NewMetrics(t)
		r := newFixture(t, metered(m), retention(time.Hour), quota(10))
		stop := r.run()
		r.sink.Refuse(func(e bus.Envelope) error {
			switch {
			case e.CorrelationID == "refused":
				return bus.ErrPermanent
			case e.CorrelationID == "again" && time.Since(r.Began) < time.Hour+100*time.Millisecond:
				return errDown
			default:
				return nil
			}
		})
		for i, correlation := range []string{"", "refused", "again"} {
			r.schedule(timer.Request{Key: fmt.Sprint(i), DueAt: r.At(time.Hour), CorrelationID: correlation})
		}
		r.schedule(timer.Request{Key: "moved", Delay: 5 * time.Hour})
		r.schedule(timer.Request{Key: "moved", Delay: 50 * time.Hour})
		r.schedule(timer.Request{Key: "cancelled", Delay: time.Hour})
		r.cancel("cancelled")
		rig.Pass(0)
		m.Want(map[string]float64{"abide_timer_armed": 4, "abide_timer_overdue_seconds": 0, "abide_timer_scheduled_total": 6, "abide_timer_cancelled_total": 1})

		r.handle(timer.TypeScheduleTimer, `{"serviceCallId":"command","delayMs":180000000}`, at(1))
		r.handle(timer.TypeScheduleTimer, `{"serviceCallId":"command","delayMs":180000000}`, at(1))
		r.handle(timer.TypeCancelTimer, `{"serviceCallId":"command"}`, at(2))
		r.handle(timer.TypeCancelTimer, `{"serviceCallId":"command"}`, at(2))
		check.OK(t, r.Refuse(t.Context(), "acme", nil, at(3), errors.New("empty")))
		rig.Pass(time.Hour + time.Minute)
		m.Want(map[string]float64{
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
		rig.Pass(time.Hour)
		m.Want(map[string]float64{"abide_timer_removed_total": 5})

		stop()
		rig.Pass(100 * time.Hour)
		r.run()
		rig.Pass(0)
		m.Want(map[string]float64{"abide_timer_fired_total": 4, "abide_timer_lateness_seconds_sum": r.get("moved").FiredAt.Sub(r.get("moved").DueAt).Seconds()})
	})
}

// TestOverdueIsHowLateTheFirstTimerIs, while nobody fires it.
func TestOverdueIsHowLateTheFirstTimerIs(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		m := rig.NewMetrics(t)
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		r := newFixtureOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method == "Claim" {
				return storetest.FailBefore
			}
			return storetest.NoFault
		}), metered(m))
		stop := r.run()
		r.schedule(timer.Request{Key: "a", Delay: time.Minute})
		r.schedule(timer.Request{Key: "b", Delay: 2 * time.Minute})
		r.schedule(timer.Request{Key: "c", Delay: time.Hour})
		rig.Pass(2*time.Minute + 500*time.Millisecond)
		m.Want(map[string]float64{"abide_timer_armed": 3, "abide_timer_overdue_seconds": 60.5})
		stop()
		if _, values := m.Read(); len(values) == 0 {
			t.Error("counters are gone when the service has stopped")
		} else if _, there := values["abide_timer_armed"]; there {
			t.Error("a service that has stopped is asked for its gauges")
		}
	})
}

// TestClaimConflictsAreCounted: a timer that is cancelled while it is being fired.
func TestClaimConflictsAreCounted(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		m := rig.NewMetrics(t)
		s := teststore.New(t)
		t.Cleanup(func() { _ = s.Close() })
		other := newFixtureOn(t, s)
		once := false
		r := newFixtureOn(t, storetest.NewFaulty(s, func(c storetest.Call) storetest.Fault {
			if c.Method == "Commit" && !once {
				once = true
				other.cancel("k")
			}
			return storetest.NoFault
		}), metered(m))
		other.schedule(timer.Request{Key: "k", Delay: time.Minute})
		r.run()
		rig.Pass(time.Minute)
		m.Want(map[string]float64{"abide_timer_claim_conflicts_total": 1, "abide_timer_fired_total": 0})
		check.Equal(t, "envelopes", len(r.sink.Accepted()), 0)
		check.Equal(t, "status", r.get("k").Status, timer.Cancelled)
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
	rig.Bubble(t, func(t *testing.T) {
		m := rig.NewMetrics(t)
		r := newFixture(t, metered(m), retention(time.Hour))
		r.sink.Refuse(func(e bus.Envelope) error {
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
		rig.Pass(2 * time.Hour)
		text, _ := m.Read()
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
	rig.Bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newFixture(t, func(c *timer.Config) {
			c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		r.schedule(timer.Request{Key: "k", Delay: time.Minute})
		rig.Pass(time.Hour)
		r.run()
		rig.Pass(0)
		for _, words := range []string{`level=DEBUG msg="timer fired" tenant=acme key=k`, "lateness=59m0s", "envelope=" + r.get("k").EnvelopeID} {
			if strings.Count(log.String(), words) != 1 {
				t.Errorf("the log does not say %q once:\n%s", words, log.String())
			}
		}
	})
}
