package actions

import (
	"errors"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
	"github.com/abidehq/abide/store"
)

// few is the flags of a run that is over soon.
const few = "--n 100 --slots 16 --ticks 10 --clients 4 --duration 5ms --body 64 "

// Keys that programs rely on.
var (
	keys = []string{
		"n", "slots", "ticks", "tick_p50_us", "tick_p99_us", "tick_max_us", "added_per_s", "dispatched_per_s", "dispatch_s",
	}
	hookKeys    = []string{"clients", "body_bytes", "duration_s", "requests", "requests_per_s", "latency_p50_ms", "latency_p99_ms", "latency_max_ms"}
	pendingKeys = []string{"pending", "loaded", "loaded_per_s", "store_mib", "disk_bytes_per_action"}
)

func TestWorkload(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, scheme, args string
		keys               [][]string
	}{
		{"in memory", "memory", few, [][]string{hookKeys}},
		{"no webhooks", "memory", few + "--duration 0", nil},
		{"on disk, with pending ones", "pebble", few + "--pending 300", [][]string{hookKeys, pendingKeys}},
		{"an empty body", "memory", few + "--body 0", [][]string{hookKeys}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := benchtest.Run(t, Spec(), bench.Config{URL: benchtest.URL(t, tt.scheme)}, tt.args)
			benchtest.Keys(t, got, append(tt.keys, keys)...)
			if tt.scheme == "pebble" {
				benchtest.Want(t, got, map[string]any{"pending": 300.0})
			}
		})
	}
}

// TestAStoreThatWasLoaded: what is pending there is used as it is.
func TestAStoreThatWasLoaded(t *testing.T) {
	t.Parallel()
	c := bench.Config{URL: benchtest.URL(t, "shared")}
	benchtest.Run(t, Spec(), c, few+"--pending 50 --duration 0")
	got := benchtest.Run(t, Spec(), c, few+"--pending 50 --duration 0")
	benchtest.Want(t, got, map[string]any{"pending": 50.0, "loaded": nil})
}

// TestActionsThatDoNotSucceed: a run whose figures would be worth nothing is an error.
func TestActionsThatDoNotSucceed(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	s.OnCommit = func(tx *store.Tx) error {
		if len(tx.Finish) > 0 {
			return errors.New("out of order")
		}
		return nil
	}
	c := bench.Config{URL: url, Patience: 50 * time.Millisecond}
	_ = benchtest.Fails(t, Spec(), c, few, "16 of 100 actions were run, and nothing has happened for 50ms")
}
