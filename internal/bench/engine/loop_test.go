package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
	"github.com/abidehq/abide/store"
	_ "github.com/abidehq/abide/store/sqlitestore"
)

func spec(name string) bench.Spec {
	specs := Specs()
	return specs[slices.IndexFunc(specs, func(s bench.Spec) bool { return s.Name == name })]
}

// Keys that programs rely on.
var (
	loopKeys = []string{
		"n", "clients", "refused", "duration_s", "orchestrations_per_s", "latency_p50_ms", "latency_p99_ms", "latency_max_ms",
		"start_p50_ms", "start_p99_ms", "start_max_ms",
	}
	openKeys = []string{"rate", "accepted_per_s", "refused_per_s", "begun_late_max_ms", "recovery_s"}
	wakeKeys = []string{
		"n", "over_s", "lead_s", "loaded_per_s", "lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms",
		"turn_lateness_p50_ms", "turn_lateness_p99_ms", "turn_lateness_max_ms",
	}
	diskKeys = []string{"store_mib", "disk_bytes_per_orchestration"}
)

// TestActivitiesApart: another engine on the same store runs the activities, and turns are counted.
func TestActivitiesApart(t *testing.T) {
	t.Parallel()
	got := benchtest.Run(t, spec("sequence"), bench.Config{URL: benchtest.URL(t, "sqlite")}, "--n 5 --clients 2 --length 3 --apart")
	if turns, replays := got["turns"].(float64), got["replays"].(float64); turns < 20 || replays > turns {
		t.Errorf("%v turns, of which %v replayed; want 20 at least", turns, replays)
	}
}

func TestWorkloads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		want map[string]any
		keys [][]string
	}{
		{"hello --n 5 --clients 2", map[string]any{"clients": 2.0}, [][]string{loopKeys}},
		{"hello --n 5 --clients 2 --rate 1000", map[string]any{"rate": 1000.0, "refused": 0.0}, [][]string{loopKeys, openKeys}},
		{"sequence --n 5 --clients 2 --length 3", map[string]any{"length": 3.0}, [][]string{loopKeys, {"length", "activities_per_s"}}},
		{"sequence --n 5 --clients 2 --length 3 --steps", map[string]any{"length": 3.0}, [][]string{loopKeys, {"length", "steps_per_s"}}},
		{"fanout --n 5 --clients 2 --width 4", map[string]any{"width": 4.0}, [][]string{loopKeys, {"width", "activities_per_s"}}},
		{"events --n 5 --clients 2 --length 3", map[string]any{"length": 3.0}, [][]string{
			loopKeys, {"length", "events_per_s", "raise_p50_ms", "raise_p99_ms", "raise_max_ms"},
		}},
		{"idle --n 5", map[string]any{"clients": 1.0}, [][]string{loopKeys}},
		{"sleep --n 5 --over 20ms", nil, [][]string{wakeKeys}},
	} {
		for _, scheme := range []string{"memory", "pebble"} {
			t.Run(tt.args+" on "+scheme, func(t *testing.T) {
				t.Parallel()
				name, args, _ := strings.Cut(tt.args, " ")
				got := benchtest.Run(t, spec(name), bench.Config{URL: benchtest.URL(t, scheme)}, args)
				keys := tt.keys
				if scheme == "pebble" {
					keys = append(slices.Clone(keys), diskKeys)
				}
				benchtest.Keys(t, got, keys...)
				benchtest.Want(t, got, map[string]any{"workload": name, "store": scheme, "n": 5.0})
				benchtest.Want(t, got, tt.want)
				if name != "sleep" {
					benchtest.Positive(t, got, "orchestrations_per_s", "latency_p50_ms", "latency_p99_ms")
				}
			})
		}
	}
}

func TestRatesAgree(t *testing.T) {
	t.Parallel()
	got := benchtest.Run(t, spec("fanout"), bench.Config{URL: "memory:"}, "--n 5 --clients 2 --width 4")
	each := got["activities_per_s"].(float64) / got["orchestrations_per_s"].(float64)
	if each < 3.9 || each > 4.1 {
		t.Errorf("%v activities for each orchestration, want 4", each)
	}
}

func TestInstancesAreOfTheTenant(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]string{
		"hello": "--n 5 --clients 2", "events": "--n 5 --clients 2", "sleep": "--n 5 --over 20ms --lead 2s", // no probes
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := benchtest.New()
			benchtest.Run(t, spec(name), bench.Config{URL: url}, args)
			left := benchtest.Instances(t, s)
			for _, i := range left {
				if i.Ref.Tenant != tenant || !strings.HasPrefix(i.Orchestration, bench.Prefix) || i.Status != abide.Completed {
					t.Errorf("instance %v of %s is %s", i.Ref, i.Orchestration, i.Status)
				}
			}
			if len(left) != 5 {
				t.Errorf("%d instances, want 5", len(left))
			}
		})
	}
}

func TestDurationEndsTheLoop(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	got := benchtest.Run(t, spec("hello"), bench.Config{URL: url}, "--duration 1ms --clients 2")
	if n := float64(len(benchtest.Instances(t, s))); got["n"] != n || n == 0 {
		t.Errorf("the store has %v instances, %v were reported", n, got["n"])
	}
}

func TestAnEngineThatCannotGoOnIsAnError(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	s.OnCommit = func(tx *store.Tx) error {
		if len(tx.Finish) > 0 {
			return errors.New("the disk is gone")
		}
		return nil
	}
	c := bench.Config{URL: url, Patience: 50 * time.Millisecond}
	_ = benchtest.Fails(t, spec("hello"), c, "--n 5", "nothing has happened for 50ms")
}

func TestAStalledInstanceIsNamed(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	// Instances whose input is no number stand for whatever makes code stall.
	broken := abide.OrchestrationNamed[string, int](bench.Prefix + "sequence")
	s.OnCommit = func(*store.Tx) error {
		s.OnCommit = func(tx *store.Tx) error { // nothing else gets through
			if len(tx.Finish) == 0 {
				return nil
			}
			for _, put := range tx.PutRecords {
				if put.Record.Status == string(abide.Stalled) {
					return nil
				}
			}
			return errors.New("the disk is gone")
		}
		return nil
	}
	if _, err := broken.Start(t.Context(), abide.NewClient(s, nil), "many", abide.Tenant(tenant), abide.Unchecked()); err != nil {
		t.Fatal(err)
	}
	c := bench.Config{URL: url, Patience: 500 * time.Millisecond}
	_ = benchtest.Fails(t, spec("sequence"), c, "--n 5", "has stalled: ")
}

func TestAWrongResultIsAnError(t *testing.T) {
	t.Parallel()
	hello := abide.NewOrchestration("hello", func(_ abide.Context, n int) (int, error) { return n + 1, nil })
	e, err := abide.Open(t.Context(), abide.Config{Store: "memory:", Register: []abide.Definition{hello}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := complete(t.Context(), caller{e, tenant}, &bench.Op{}, hello, 1, 2); err != nil {
		t.Error(err)
	}
	if err := complete(t.Context(), caller{e, tenant}, &bench.Op{}, hello, 1, 3); err == nil || !strings.Contains(err.Error(), "is 2, want 3") {
		t.Errorf("got %v", err)
	}
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	w, c := benchtest.Parse(t, spec("hello"), bench.Config{URL: "memory:"}, "--duration 1h")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bench.Measure(ctx, w, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
