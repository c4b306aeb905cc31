package bench

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// fewActions returns options for a run that is over soon.
func fewActions(url string) ActionsOptions {
	return ActionsOptions{
		Store: url, N: 100, Slots: 16, Ticks: 5, Clients: 4, Duration: 5 * time.Millisecond, Body: 64, Patience: 20 * time.Second,
	}
}

// mustRunActions measures actions and returns the report as a program reads it.
func mustRunActions(t *testing.T, o ActionsOptions) map[string]any {
	t.Helper()
	report, err := RunActions(t.Context(), o)
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

// Keys that programs rely on, and those that a machine may not know.
var (
	actionsKeys = []string{
		"workload", "store", "gomaxprocs", "go", "n", "slots", "ticks", "tick_p50_us", "tick_p99_us", "tick_max_us",
		"added_per_s", "dispatched_per_s", "dispatch_s", "open_s",
	}
	hookKeys           = []string{"clients", "body_bytes", "duration_s", "requests", "requests_per_s", "latency_p50_ms", "latency_p99_ms", "latency_max_ms"}
	actionsPendingKeys = []string{"pending", "loaded", "loaded_per_s"}
	actionsDiskKeys    = []string{"store_mib", "disk_bytes_per_action"}
	actionsMachineKeys = []string{
		"cpu_us_per_added", "cpu_us_per_dispatched", "cpu_us_per_request", "written_bytes_per_action", "bytes_counted_by", "rss_mib", "rss_peak_mib",
	}
)

func TestActionsWorkload(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		url    string
		change func(*ActionsOptions)
		keys   [][]string
	}{
		{"in memory", "memory://", func(*ActionsOptions) {}, [][]string{hookKeys}},
		{"no webhooks", "memory://", func(o *ActionsOptions) { o.Duration = 0 }, nil},
		{"on disk, with pending ones", "pebble://", func(o *ActionsOptions) { o.Pending = 300 }, [][]string{hookKeys, actionsPendingKeys, actionsDiskKeys}},
		{"an empty body", "memory://", func(o *ActionsOptions) { o.Body = 0 }, [][]string{hookKeys}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.url == "pebble://" {
				tt.url += filepath.Join(t.TempDir(), "store")
			}
			o := fewActions(tt.url)
			tt.change(&o)
			got := mustRunActions(t, o)
			keys := slices.Concat(append(tt.keys, actionsKeys)...)
			for _, key := range keys {
				if _, ok := got[key]; !ok {
					t.Errorf("%s is not reported; there are %v", key, slices.Sorted(maps.Keys(got)))
				}
			}
			for key := range got {
				if !slices.Contains(keys, key) && !slices.Contains(actionsMachineKeys, key) {
					t.Errorf("%s is reported", key)
				}
			}
			if o.Pending > 0 && got["pending"] != 300.0 {
				t.Errorf("pending are %v", got["pending"])
			}
		})
	}
}

// TestActionsOnAStoreThatWasLoaded: what is pending there is used as it is.
func TestActionsOnAStoreThatWasLoaded(t *testing.T) {
	t.Parallel()
	_, url := newShared(t)
	o := fewActions(url)
	o.Pending, o.Duration = 50, 0
	mustRunActions(t, o)
	got := mustRunActions(t, o)
	if _, loaded := got["loaded"]; loaded || got["pending"] != 50.0 {
		t.Errorf("pending are %v, and loaded were %v", got["pending"], got["loaded"])
	}
}

// TestActionsThatDoNotSucceed: a run whose figures would be worth nothing is an error.
func TestActionsThatDoNotSucceed(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := fewActions(url)
	o.Patience = 50 * time.Millisecond
	s.commit = func(tx *store.Tx) error {
		if len(tx.Finish) > 0 {
			return errors.New("out of order")
		}
		return nil
	}
	_, err := RunActions(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "16 of 100 actions were run, and nothing has happened for 50ms") {
		t.Errorf("error %v", err)
	}
}

func TestActionsOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*ActionsOptions){
		"no --store":                             func(o *ActionsOptions) { o.Store = "" },
		`unknown scheme "unknown"`:               func(o *ActionsOptions) { o.Store = "unknown://" },
		"--n is 0; allowed are 1 to 10000000":    func(o *ActionsOptions) { o.N = 0 },
		"--slots is 0; allowed are 1 to":         func(o *ActionsOptions) { o.Slots = 0 },
		"--pending is -1; allowed are 0 to":      func(o *ActionsOptions) { o.Pending = -1 },
		"--ticks is 0; allowed are 1 to":         func(o *ActionsOptions) { o.Ticks = 0 },
		"--clients is 0; allowed are 1 to":       func(o *ActionsOptions) { o.Clients = 0 },
		"--body is -1; allowed are 0 to 131072":  func(o *ActionsOptions) { o.Body = -1 },
		"--duration is -1ns: must not be negati": func(o *ActionsOptions) { o.Duration = -1 },
	} {
		o := fewActions("memory://")
		change(&o)
		if _, err := RunActions(t.Context(), o); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrOptions with %q", err, want)
		}
	}
}
