package timers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// Flags of runs that are over soon.
const (
	few    = "--bulk 50 --tenants 3 --payload 16 "
	spread = few + "--clients 4 --duration 5ms --n 200 --over 20ms "
)

// Keys that programs rely on.
var (
	keys = []string{
		"tenants", "payload_bytes", "bulk", "lead_s",
		"scheduled_per_s", "fired_per_s", "drain_s", "lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms",
	}
	singleKeys = []string{"clients", "duration_s", "scheduled_single_per_s", "latency_p50_ms", "latency_p99_ms", "latency_max_ms"}
	spreadKeys = []string{"n", "over_s"}
	herdKeys   = []string{"herd", "others", "others_meanwhile", "other_lateness_p50_ms", "other_lateness_p99_ms", "other_lateness_max_ms"}
	loadKeys   = []string{"pending", "loaded", "loaded_per_s"}
)

func TestWorkload(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, args string
		keys       [][]string
	}{
		{"spread", spread, [][]string{singleKeys, spreadKeys}},
		{"nothing singly", spread + "--duration 0 --payload 0", [][]string{spreadKeys}},
		{"herd", few + "--herd 200 --payload 1", [][]string{herdKeys}},
		{"pending", spread + "--pending 300 --idle 1ms", [][]string{singleKeys, spreadKeys, loadKeys, {"idle_s"}}},
	} {
		for _, scheme := range []string{"memory", "pebble"} {
			t.Run(tt.name+" on "+scheme, func(t *testing.T) {
				t.Parallel()
				all := slices.Concat(tt.keys, [][]string{keys})
				if scheme == "pebble" {
					all = append(all, []string{"store_mib"})
					if tt.name == "pending" {
						all = append(all, []string{"disk_bytes_per_timer"})
					}
				}
				got := benchtest.Run(t, Spec(), bench.Config{URL: benchtest.URL(t, scheme)}, tt.args)
				benchtest.Keys(t, got, all...)
				benchtest.Want(t, got, map[string]any{"workload": "timers", "store": scheme})
				benchtest.Positive(t, got, "scheduled_per_s", "fired_per_s", "drain_s", "lateness_max_ms")
			})
		}
	}
}

// timersOf returns the timers that a run left in a store, by mark.
func timersOf(t *testing.T, s store.Store) map[byte][]timer.Timer {
	t.Helper()
	service, err := timer.New(timer.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	byMark := map[byte][]timer.Timer{}
	for tm, err := range service.All(t.Context(), timer.Filter{Limit: timer.MaxPage}) {
		if err != nil {
			t.Fatal(err)
		}
		mark := tm.Key[keyLength-digits-1]
		byMark[mark] = append(byMark[mark], tm)
	}
	return byMark
}

// TestTimersArePublishedOnce looks at the timers that a run left in the store.
func TestTimersArePublishedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, args string
		fired      map[byte]int
		tenants    []string
		far        int // at least
	}{
		{"spread", spread, map[byte]int{markTimers: 200}, []string{bench.TenantOf(0, 3), bench.TenantOf(1, 3), bench.TenantOf(2, 3)}, 200},
		{"herd", few + "--herd 210 --pending 300", map[byte]int{markHerd: 210, markOther: others}, []string{herdTenant, otherTenant}, 300},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, url := benchtest.New()
			benchtest.Run(t, Spec(), bench.Config{URL: url}, tt.args)
			byMark := timersOf(t, s)
			tenants := map[string]bool{}
			for mark, want := range tt.fired {
				if n := len(byMark[mark]); n != want {
					t.Errorf("%d timers %c, want %d", n, mark, want)
				}
				for _, tm := range byMark[mark] {
					tenants[tm.Tenant] = true
					d := tm.Deliveries
					if tm.Status != timer.Fired || len(d) != 1 || d[0].State != outbox.Published || d[0].Attempts != 1 || len(tm.Payload) != 16 {
						t.Errorf("timer %+v", tm)
					}
				}
			}
			if got := slices.Sorted(maps.Keys(tenants)); !slices.Equal(got, tt.tenants) {
				t.Errorf("tenants %v, want %v", got, tt.tenants)
			}
			if n := len(byMark[markFar]); n < tt.far {
				t.Errorf("%d timers are not due, want at least %d", n, tt.far)
			}
			for _, tm := range byMark[markFar] {
				if tm.Status != timer.Armed || time.Until(tm.DueAt) < bench.FarAfter-time.Hour {
					t.Errorf("timer %+v", tm)
				}
			}
		})
	}
}

func TestTimersStayPending(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	c := bench.Config{URL: url}
	benchtest.Want(t, benchtest.Run(t, Spec(), c, spread+"--duration 0 --pending 300"), map[string]any{"loaded": 300.0, "pending": 300.0})
	before := len(timersOf(t, s)[markFar])
	got := benchtest.Run(t, Spec(), c, spread+fmt.Sprintf("--duration 0 --pending %d", before+50))
	benchtest.Want(t, got, map[string]any{"loaded": 50.0, "pending": float64(before + 50)})
	benchtest.Want(t, benchtest.Run(t, Spec(), c, spread+"--duration 0 --pending 10"), map[string]any{"loaded": nil})
}

func TestReopen(t *testing.T) {
	t.Parallel()
	got := benchtest.Run(t, Spec(), bench.Config{URL: benchtest.URL(t, "pebble")}, spread+"--pending 300 --reopen")
	benchtest.Keys(t, got, keys, singleKeys, spreadKeys, loadKeys, []string{"store_mib", "disk_bytes_per_timer", "reopen", "open_to_result_s"})
	benchtest.Positive(t, got, "open_s", "open_to_result_s", "disk_bytes_per_timer")
	if first, open := got["open_to_result_s"].(float64), got["open_s"].(float64); first < open {
		t.Errorf("a timer was published after %v s, and the store was open after %v s", first, open)
	}
}

func TestReopenFindsThatTimersAreLost(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	s.Forget = true
	_ = benchtest.Fails(t, Spec(), bench.Config{URL: url}, spread+"--pending 300 --reopen", "0 of 300 timers are pending")
}

func TestReopenAfterTheLoaderWasKilled(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	benchtest.Load(t, Spec(), bench.Config{URL: url}, spread+"--pending 300 --reopen=crash") // the process does not really load it
	if n := len(timersOf(t, s)[markFar]); n != 300 {
		t.Errorf("%d timers were loaded, want 300", n)
	}
	var cmd *exec.Cmd
	got := benchtest.Run(t, Spec(), bench.Config{URL: url, LoadCommand: benchtest.Loader(&cmd)}, spread+"--pending 300 --reopen=crash")
	benchtest.Positive(t, got, "open_to_result_s")
	if got["reopen"] != "crash" || got["pending"] != 300.0 || cmd.ProcessState.Exited() {
		t.Errorf("reopen is %v, pending %v, and the process has %v", got["reopen"], got["pending"], cmd.ProcessState)
	}
}

func TestTimersThatAreScheduledTooLate(t *testing.T) {
	t.Parallel()
	_ = benchtest.Fails(t, Spec(), bench.Config{URL: "memory://"}, spread+"--lead 1ns", "give a longer --lead")
}

func TestTimersThatCannotBeFired(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	s.OnCommit = func(tx *store.Tx) error {
		if len(tx.Put) == 0 || len(tx.Finish) > 0 { // it schedules nothing
			return errors.New("the disk is gone")
		}
		return nil
	}
	c := bench.Config{URL: url, Patience: 50 * time.Millisecond}
	_ = benchtest.Fails(t, Spec(), c, spread, "0 of 200 timers were published, and nothing has happened for 50ms")
}

// TestAStoreThatHasFailed: the run ends with the error of the service, and does not wait in
// vain.
func TestAStoreThatHasFailed(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	w, r, ctx := benchtest.Open(t, Spec(), bench.Config{URL: url}, spread)
	if err := s.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.(*workload).measureSpread(ctx, r); err == nil {
		t.Error("timers were measured on a closed store")
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), "bench: fire timers") {
		t.Errorf("the service has %v", err)
	}
}
