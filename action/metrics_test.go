package action_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/meter"
	"github.com/abidehq/abide/internal/rig"
)

// metered has a service count into metrics.
func metered(m *rig.Metrics) func(*action.Config) {
	return func(c *action.Config) { c.MeterProvider = m.Provider }
}

// busyMetrics has something of everything happen.
func busyMetrics(t *testing.T, m *rig.Metrics) *fixture {
	t.Helper()
	r := newFixture(t, metered(m), target(func(d *action.Definition) { d.Attempts = 2 }))
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
	r.add(action.Request{At: r.At(15 * time.Second)}) // 5 s late
	r.add(action.Request{At: r.At(20 * time.Second), Slug: "bad"})
	r.receive("x", "d")
	r.receive("x", "d") // which is not added
	r.add(action.Request{ID: "far", Delay: 100 * time.Hour})
	r.add(action.Request{ID: "cancelled", Delay: 100 * time.Hour})
	r.cancel("cancelled", "")
	r.cancel("cancelled", "")
	r.addSchedule(plan(every(time.Minute), func(p *action.Plan) { p.Slug, p.From = "slow", r.At(time.Minute) }))
	return r
}

// TestMetricsAreWhatPrometheusReads: each of them, by the name that Prometheus shows.
func TestMetricsAreWhatPrometheusReads(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		m := rig.NewMetrics(t)
		r := busyMetrics(t, m)
		m.Want(map[string]float64{
			`abide_action_added_total{trigger="scheduled"}`: 4, `abide_action_added_total{trigger="webhook"}`: 1,
			"abide_action_pending": 4, "abide_action_running": 0, "abide_action_overdue_seconds": 0,
		})
		r.until(65 * time.Second)
		m.Want(map[string]float64{
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
		if _, got := m.Read(); got["abide_action_lateness_seconds_sum"] < 5+10+9 || got["abide_action_lateness_seconds_sum"] > 5+10+9.2 {
			t.Errorf("the actions were %v s late, want 24 to 24.2", got["abide_action_lateness_seconds_sum"])
		}
		r.until(3*time.Minute + 5*time.Second)
		m.Want(map[string]float64{
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
		if _, err := r.Backfill(t.Context(), "acme", "s", r.At(0), r.At(2*time.Minute)); err != nil {
			t.Fatal(err)
		}
		m.Want(map[string]float64{`abide_action_ended_total{status="skipped"}`: 2, `abide_action_added_total{trigger="scheduled"}`: 8})
	})
}

// TestGaugesEndWithTheService: who has stopped is not asked.
func TestGaugesEndWithTheService(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		m := rig.NewMetrics(t)
		r := newFixture(t, metered(m))
		stop := r.run()
		r.add(action.Request{})
		stop()
		_, values := m.Read()
		if _, there := values["abide_action_pending"]; there || values[`abide_action_added_total{trigger="scheduled"}`] != 1 {
			t.Errorf("scraped are %v", values)
		}
	})
}

// TestEveryMetricIsScraped with its kind and help.
func TestEveryMetricIsScraped(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		m := rig.NewMetrics(t)
		busyMetrics(t, m)
		rig.Pass(5 * time.Minute)
		text, _ := m.Read()
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
