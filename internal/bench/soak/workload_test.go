package soak

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

const brief = "--duration 300ms --rate 200 --every 50ms "

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--duration 1ms", "--probe 0", "--share 101", "--rate -1", "--clients 0", "--retention 1ms", "--every 2h"} {
		err := benchtest.Fails(t, Spec(), bench.Config{URL: "memory://"}, args, strings.Fields(args)[0])
		if !errors.Is(err, bench.ErrOptions) {
			t.Errorf("%s: error %v is not about options", args, err)
		}
	}
}

// opened returns a workload that has completed the first operations of the mix.
func opened(t *testing.T) (*workload, *bench.Run, context.Context) {
	t.Helper()
	w, r, ctx := benchtest.Open(t, Spec(), bench.Config{URL: "memory://"}, brief)
	s := w.(*workload)
	s.load.probing = true // so that nothing waits for long
	for i := range int64(mix) {
		if err := s.once(ctx, &bench.Op{I: i}); err != nil {
			t.Fatal(err)
		}
	}
	s.load.probing = false
	if err := s.runHello(ctx, &bench.Op{}, false); err != nil {
		t.Fatal(err)
	}
	if err := s.check(ctx, r); err != nil {
		t.Fatal(err)
	}
	return s, r, ctx
}

// TestWhatIsLostIsFound: each of these is an error of the run.
func TestWhatIsLostIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		lose       func(ctx context.Context, w *workload) error
	}{
		{"an instance that is gone", "1 of 8 instances are lost", func(ctx context.Context, w *workload) error {
			page, err := w.engine.List(ctx, abide.Filter{Tenant: &w.tenant})
			if err != nil {
				return err
			}
			return w.engine.Delete(ctx, page.Instances[0].Ref)
		}},
		{"an operation without an end", "1 of 11 operations are not completed", func(context.Context, *workload) error { return nil }},
		{"an action that runs twice", "1 timers or actions came twice", func(ctx context.Context, w *workload) error {
			_, err := w.load.noteAction(ctx, action.Run{Action: action.Action{ID: w.load.key(9)}})
			return err
		}},
		{"an instance that is stuck", "and its result was returned", func(ctx context.Context, w *workload) error {
			_, err := w.flows.approval.Start(ctx, w.engine, "request", abide.Tenant(w.tenant))
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, r, ctx := opened(t)
			if err := tt.lose(ctx, w); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(tt.want, "not completed") {
				w.load.accepted.Add(1)
			}
			if err := w.check(ctx, r); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestATimerThatIsEarly: the operation fails that waits for it.
func TestATimerThatIsEarly(t *testing.T) {
	t.Parallel()
	var e expected
	came := e.expect(1, time.Now())
	if _, ok := e.came(1, func(time.Time) error { return errEarly }); !ok || !errors.Is(<-came, errEarly) {
		t.Error("the error did not arrive")
	}
	if _, ok := e.came(1, func(time.Time) error { return nil }); ok {
		t.Error("one that came is expected again")
	}
}

// TestTimersThatDoNotFire: the run ends, and says what is missing.
func TestTimersThatDoNotFire(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	s.OnCommit = func(tx *store.Tx) error {
		if slices.ContainsFunc(tx.PutRecords, func(r store.PutRecord) bool { return r.Record.Status == string(timer.Fired) }) {
			return errors.New("the disk is gone")
		}
		return nil
	}
	c := bench.Config{URL: url, Patience: time.Second}
	_ = benchtest.Fails(t, Spec(), c, brief, "timers and 0 actions among them), and nothing has happened for 1s")
}

// flat returns the series of an hour in which nothing changes but by grow.
func flat(grow func(p *point)) *series {
	s := &series{store: "pebble", rate: 1000, duration: time.Hour, retention: 3 * time.Minute, retained: 4 * time.Minute}
	for at := 10 * time.Second; at <= time.Hour; at += 10 * time.Second {
		p := point{at: at, operations: 1000, p50: 2 * time.Millisecond, p99: 9 * time.Millisecond, rss: 200 << 20, heap: 80 << 20, disk: 500 << 20}
		grow(&p)
		s.points = append(s.points, p)
	}
	for range windows {
		s.windows = append(s.windows, 9*time.Millisecond)
	}
	return s
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name              string
		series            *series
		p99, memory, disk string
	}{
		{"flat", flat(func(*point) {}), "ok, at most 1.3", "ok, at most 1.1", "ok, at most 1.1"},
		{"a leak", flat(func(p *point) { p.rss += p.at.Minutes() * (1 << 20) }), "ok, at most 1.3", "missed, at most 1.1", "ok, at most 1.1"},
		{"a disk that grows", flat(func(p *point) { p.disk *= 1 + p.at.Hours() }), "ok, at most 1.3", "ok, at most 1.1", "missed, at most 1.1"},
		{"before retention", flat(func(p *point) { p.disk *= min(1, p.at.Minutes()/6) }), "ok, at most 1.3", "ok, at most 1.1", "ok, at most 1.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := []string{tt.series.p99().String(), tt.series.memory().String(), tt.series.disk().String()}
			if want := []string{tt.p99, tt.memory, tt.disk}; !slices.Equal(got, want) {
				t.Errorf("verdicts %q, want %q", got, want)
			}
		})
	}
	slow := flat(func(*point) {})
	slow.windows[windows-1] = 12 * time.Millisecond
	if got := slow.p99().String(); got != "missed, at most 1.3" {
		t.Errorf("p99 of 12 ms after 9 ms is %s", got)
	}
	brief := flat(func(*point) {})
	brief.retained = time.Hour
	if brief.disk() != nil {
		t.Error("the disk is judged before retention has begun")
	}
}

// TestChart: what people read is in the chart, escaped.
func TestChart(t *testing.T) {
	t.Parallel()
	s := flat(func(p *point) { p.internals = map[string]int64{"compaction_debt_bytes": 3 << 20} })
	var b bytes.Buffer
	if err := s.writeSVG(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Embedded store: 1h at 1,000 operations/s", "Memory of the process, MiB", "Compaction, MiB", "p99 last ÷ second window: 1.00 (ok, at most 1.3)", ">60<", "prefers-color-scheme:dark"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the chart has no %q", want)
		}
	}
	if n := strings.Count(b.String(), "<polyline"); n != 1+2+2+2+3+2 {
		t.Errorf("%d lines", n)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[float64]string{0: "0", 0.5: "0.5", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := number(n); got != want {
			t.Errorf("number %v is %s", n, got)
		}
	}
	for most, want := range map[float64][]float64{60: {0, 10, 20, 30, 40, 50, 60}, 1: {0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}, 2300: {0, 500, 1000, 1500, 2000}} {
		if got := linear(most, 7); !slices.Equal(got, want) {
			t.Errorf("ticks up to %v: %v, want %v", most, got, want)
		}
	}
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Second: "1m30s", 3 * time.Minute: "3m", 30 * time.Second: "30s", 90 * time.Minute: "1h30m"} {
		if got := shortDuration(d); got != want {
			t.Errorf("duration %v is %s", d, got)
		}
	}
}
