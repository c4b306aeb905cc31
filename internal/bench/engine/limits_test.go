package engine

import (
	"testing"
	"time"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"memory", "pebble"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			got := benchtest.Run(t, spec("limits"), bench.Config{URL: benchtest.URL(t, scheme)}, "--duration 50ms --clients 2 --shared 2 --pile 20 --flood 10 --tenants 3")
			var disk []string
			if scheme == "pebble" {
				disk = []string{"store_mib"}
			}
			benchtest.Keys(t, got, disk, []string{
				"clients", "shared", "without_per_s", "shared_per_s", "shared_ratio", "without_p50_ms", "without_p99_ms", "without_max_ms",
				"shared_p50_ms", "shared_p99_ms", "shared_max_ms", "cpu_us_per_hello", "cpu_us_per_shared",
				"flood", "tenants", "jain", "task_alone_p50_ms", "task_alone_p99_ms", "task_alone_max_ms",
				"task_beside_p50_ms", "task_beside_p99_ms", "task_beside_max_ms", "task_p99_ratio",
				"pile", "other_keys_before_per_s", "other_keys_beside_per_s", "other_keys_ratio", "before_p50_ms", "before_p99_ms", "before_max_ms",
				"beside_p50_ms", "beside_p99_ms", "beside_max_ms", "memory_before_mib", "memory_beside_mib", "before_urgent",
			})
			benchtest.Want(t, got, map[string]any{"workload": "limits", "store": scheme, "pile": 20.0, "flood": 10.0, "before_urgent": 0.0})
			benchtest.Positive(t, got, "without_per_s", "shared_per_s", "other_keys_before_per_s", "other_keys_beside_per_s", "jain")
		})
	}
}

func TestJain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		all  []time.Duration
		want float64
	}{
		{nil, 1}, {[]time.Duration{0, 0}, 1}, {[]time.Duration{time.Second, time.Second}, 1}, {[]time.Duration{time.Second, 0, 0, 0}, 0.25},
	} {
		if got := jain(tt.all); got != tt.want {
			t.Errorf("Jain's index of %v is %v, want %v", tt.all, got, tt.want)
		}
	}
}
