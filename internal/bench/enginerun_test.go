package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
)

// mustRunEngine runs a workload and returns its report as a program reads it.
func mustRunEngine(t *testing.T, o EngineOptions) map[string]any {
	t.Helper()
	report, err := RunEngine(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(report.rows) {
		t.Errorf("a figure is reported twice: %s", text)
	}
	return got
}

// positive checks that there are these figures, and that they are numbers above zero.
func positive(t *testing.T, got map[string]any, names ...string) {
	t.Helper()
	for _, name := range names {
		if n, ok := got[name].(float64); !ok || n <= 0 {
			t.Errorf("%s is %v; there are %v", name, got[name], slices.Sorted(maps.Keys(got)))
		}
	}
}

// keys are those that the workloads promise; a report has those that apply, and no
// other of them.
var keys = []string{
	"workload", "store", "n", "orchestrations_per_s", "activities_per_s", "steps_per_s", "events_per_s",
	"latency_p50_ms", "latency_p99_ms", "lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms",
	"cpu_us_per_orchestration", "disk_bytes_per_orchestration", "rss_mib", "open_s",
}

func checkKeys(t *testing.T, got map[string]any, apply ...string) {
	t.Helper()
	for _, key := range keys {
		if _, there := got[key]; there != slices.Contains(apply, key) {
			t.Errorf("%s is reported: %t; there are %v", key, there, slices.Sorted(maps.Keys(got)))
		}
	}
}

func TestEngineWorkloads(t *testing.T) {
	t.Parallel()
	all := []string{"workload", "store", "n", "cpu_us_per_orchestration", "rss_mib", "open_s"}
	plus := func(some []string, more ...string) []string { return slices.Concat(some, more) }
	loop := plus(all, "orchestrations_per_s", "latency_p50_ms", "latency_p99_ms")
	for _, tt := range []struct {
		name     string
		workload Workload
		change   func(*EngineOptions)
		keys     []string
		clients  float64
	}{
		{"hello", WorkloadHello, nil, loop, 2},
		{"sequence", WorkloadSequence, nil, plus(loop, "activities_per_s"), 2},
		{"steps", WorkloadSequence, func(o *EngineOptions) { o.Steps = true }, plus(loop, "steps_per_s"), 2},
		{"fanout", WorkloadFanout, nil, plus(loop, "activities_per_s"), 2},
		{"events", WorkloadEvents, nil, plus(loop, "events_per_s"), 2},
		{"idle", WorkloadIdle, nil, loop, 1},
		{"sleep", WorkloadSleep, nil, plus(all, "lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms"), 0},
	} {
		for _, scheme := range []string{"memory", "pebble"} {
			t.Run(tt.name+" on "+scheme, func(t *testing.T) {
				t.Parallel()
				url, apply := "memory:", tt.keys
				if scheme == "pebble" {
					url = "pebble://" + filepath.Join(t.TempDir(), "store")
					apply = plus(apply, "disk_bytes_per_orchestration")
				}
				o := tiny(url, tt.workload)
				if tt.change != nil {
					tt.change(&o)
				}
				got := mustRunEngine(t, o)
				checkKeys(t, got, apply...)
				if got["workload"] != string(tt.workload) || got["store"] != scheme || got["n"] != 5.0 {
					t.Errorf("workload %v, store %v, n %v", got["workload"], got["store"], got["n"])
				}
				if tt.clients > 0 {
					positive(t, got, "orchestrations_per_s", "latency_p50_ms", "latency_p99_ms")
					if got["clients"] != tt.clients {
						t.Errorf("%v clients, want %v", got["clients"], tt.clients)
					}
				}
			})
		}
	}
}

// TestRatesAgree: what happens within orchestrations is counted with them.
func TestRatesAgree(t *testing.T) {
	t.Parallel()
	got := mustRunEngine(t, tiny("memory:", WorkloadFanout))
	positive(t, got, "activities_per_s", "orchestrations_per_s")
	each := got["activities_per_s"].(float64) / got["orchestrations_per_s"].(float64)
	if each < 3.9 || each > 4.1 || got["width"] != 4.0 {
		t.Errorf("%v activities for each orchestration, width %v; want 4", each, got["width"])
	}
}

// instances returns those that a run left in a store.
func instances(t *testing.T, s store.Store) []abide.Info {
	t.Helper()
	page, err := abide.NewClient(s, nil).List(t.Context(), abide.Filter{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	return page.Instances
}

func TestInstancesAreOfTheTenant(t *testing.T) {
	t.Parallel()
	for _, w := range []Workload{WorkloadHello, WorkloadEvents, WorkloadSleep} {
		t.Run(string(w), func(t *testing.T) {
			t.Parallel()
			s, url := newShared(t)
			o := tiny(url, w)
			o.Lead = 2 * time.Second // no probes
			mustRunEngine(t, o)
			left := instances(t, s)
			for _, i := range left {
				if i.Ref.Tenant != tenant || !strings.HasPrefix(i.Orchestration, prefix) || i.Status != abide.Completed {
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
	s, url := newShared(t)
	o := tiny(url, WorkloadHello)
	o.N, o.Duration = 0, time.Millisecond
	got := mustRunEngine(t, o)
	if n := float64(len(instances(t, s))); got["n"] != n || n == 0 {
		t.Errorf("the store has %v instances, %v were reported", n, got["n"])
	}
}

func TestAnEngineThatCannotGoOnIsAnError(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	s.commit = func(tx *store.Tx) error {
		if len(tx.Finish) > 0 {
			return errors.New("the disk is gone")
		}
		return nil
	}
	o := tiny(url, WorkloadHello)
	o.Patience = 50 * time.Millisecond
	if _, err := RunEngine(t.Context(), o); err == nil || !strings.Contains(err.Error(), "nothing has happened for 50ms") {
		t.Errorf("got %v", err)
	}
}

func TestAStalledInstanceIsNamed(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := tiny(url, WorkloadSequence)
	o.Patience = 500 * time.Millisecond
	// An instance whose input is no number stands for whatever makes code stall.
	broken := abide.OrchestrationNamed[string, int](prefix + "sequence")
	if _, err := broken.Start(t.Context(), abide.NewClient(s, nil), "many", abide.Tenant(tenant)); err != nil {
		t.Fatal(err)
	}
	r, err := newEngineRun(&o)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.close() }()
	err = r.guarded(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err == nil || !strings.Contains(err.Error(), "has stalled: ") {
		t.Errorf("got %v", err)
	}
}

func TestAWrongResultIsAnError(t *testing.T) {
	t.Parallel()
	hello := abide.NewOrchestration("hello", func(_ abide.Context, n int) (int, error) { return n + 1, nil })
	e, err := abide.Open(t.Context(), abide.Config{Store: "memory:", Register: []abide.Definition{hello}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := complete(t.Context(), e, hello, 1, 2); err != nil {
		t.Error(err)
	}
	if err := complete(t.Context(), e, hello, 1, 3); err == nil || !strings.Contains(err.Error(), "is 2, want 3") {
		t.Errorf("got %v", err)
	}
}

func TestEngineProfiles(t *testing.T) {
	// Not parallel: there is one profile of the CPU at a time.
	var cpu, mem strings.Builder
	o := tiny("memory:", WorkloadHello)
	o.CPUProfile, o.MemProfile = io.Writer(&cpu), io.Writer(&mem)
	mustRunEngine(t, o)
	if cpu.Len() == 0 || mem.Len() == 0 {
		t.Errorf("the profiles have %d and %d bytes", cpu.Len(), mem.Len())
	}
}
