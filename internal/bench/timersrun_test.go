package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/timer"
)

// mustRunTimers measures timers and returns the report as a program reads it.
func mustRunTimers(t *testing.T, o TimersOptions) map[string]any {
	t.Helper()
	report, err := RunTimers(t.Context(), o)
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

// Keys that programs rely on, besides those that a machine may not know.
var (
	timersKeys = []string{
		"workload", "store", "gomaxprocs", "go", "tenants", "payload_bytes", "bulk", "lead_s",
		"scheduled_per_s", "fired_per_s", "drain_s", "lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms", "open_s",
	}
	singleKeys  = []string{"clients", "duration_s", "scheduled_single_per_s", "latency_p50_ms", "latency_p99_ms", "latency_max_ms"}
	spreadKeys  = []string{"n", "over_s"}
	herdKeys    = []string{"herd", "others", "others_meanwhile", "other_lateness_p50_ms", "other_lateness_max_ms"}
	loadKeys    = []string{"pending", "loaded", "loaded_per_s"}
	diskKeys    = []string{"store_mib"}
	machineKeys = []string{
		"cpu_us_per_scheduled", "cpu_us_per_scheduled_single", "cpu_us_per_fired", "cpu_us_per_timer",
		"written_bytes_per_timer", "bytes_counted_by", "rss_mib", "rss_peak_mib",
	}
)

// checkTimersKeys checks that a report has exactly these keys, and perhaps some of those
// that depend on the machine.
func checkTimersKeys(t *testing.T, got map[string]any, want ...[]string) {
	t.Helper()
	keys := slices.Concat(want...)
	for _, key := range keys {
		if _, ok := got[key]; !ok {
			t.Errorf("%s is not reported; there are %v", key, slices.Sorted(maps.Keys(got)))
		}
	}
	for key := range got {
		if !slices.Contains(keys, key) && !slices.Contains(machineKeys, key) {
			t.Errorf("%s is reported", key)
		}
	}
}

func TestTimersWorkload(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*TimersOptions)
		keys   [][]string
	}{
		{"spread", func(*TimersOptions) {}, [][]string{singleKeys, spreadKeys}},
		{"nothing singly", func(o *TimersOptions) { o.Duration, o.Payload = 0, 0 }, [][]string{spreadKeys}},
		{"herd", func(o *TimersOptions) { o.Herd, o.Payload = 200, 1 }, [][]string{herdKeys}},
		{"pending", func(o *TimersOptions) { o.Pending, o.Idle = 300, time.Millisecond }, [][]string{singleKeys, spreadKeys, loadKeys, {"idle_s", "idle_cpu_ms", "idle_cpu_percent"}}},
	} {
		for _, scheme := range []string{"memory", "pebble"} {
			t.Run(tt.name+" on "+scheme, func(t *testing.T) {
				t.Parallel()
				url, keys := "memory://", slices.Concat(tt.keys, [][]string{timersKeys})
				if scheme == "pebble" {
					url = "pebble://" + filepath.Join(t.TempDir(), "store")
					keys = append(keys, diskKeys)
				}
				o := fewTimers(url)
				tt.change(&o)
				if o.Pending > 0 && scheme == "pebble" {
					keys = append(keys, []string{"disk_bytes_per_timer"})
				}
				got := mustRunTimers(t, o)
				checkTimersKeys(t, got, keys...)
				if got["workload"] != "timers" || got["store"] != scheme {
					t.Errorf("workload %v, store %v", got["workload"], got["store"])
				}
				positive(t, got, "scheduled_per_s", "fired_per_s", "drain_s", "lateness_max_ms")
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
	for cursor := ""; ; {
		page, err := service.List(t.Context(), timer.Filter{}, timer.MaxPage, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, tm := range page.Timers {
			mark := tm.Key[keyLength-digits-1]
			byMark[mark] = append(byMark[mark], tm)
		}
		if cursor = page.Next; cursor == "" {
			return byMark
		}
	}
}

// TestTimersArePublishedOnce looks at what the store says of timers that a run counted.
func TestTimersArePublishedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*TimersOptions)
		fired  map[byte]int
		far    int // at least
	}{
		{"spread", func(*TimersOptions) {}, map[byte]int{markTimers: 200}, 200},
		{"herd", func(o *TimersOptions) { o.Herd, o.Pending = 210, 300 }, map[byte]int{markHerd: 210, markOther: others}, 300},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, url := newShared(t)
			o := fewTimers(url)
			tt.change(&o)
			mustRunTimers(t, o)
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
			if o.Herd > 0 && !maps.Equal(tenants, map[string]bool{herdTenant: true, otherTenant: true}) {
				t.Errorf("tenants %v", tenants)
			}
			if o.Herd == 0 && len(tenants) != o.Tenants {
				t.Errorf("tenants %v, want %d", tenants, o.Tenants)
			}
			if n := len(byMark[markFar]); n < tt.far {
				t.Errorf("%d timers are not due, want at least %d", n, tt.far)
			}
			for _, tm := range byMark[markFar] {
				if tm.Status != timer.Armed || time.Until(tm.DueAt) < nightfall-time.Hour {
					t.Errorf("timer %+v", tm)
				}
			}
		})
	}
}

func TestTimersStayPending(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := fewTimers(url)
	o.Pending, o.Duration = 300, 0
	if got := mustRunTimers(t, o); got["loaded"] != 300.0 || got["pending"] != 300.0 {
		t.Errorf("loaded %v, pending %v", got["loaded"], got["pending"])
	}
	before := len(timersOf(t, s)[markFar])
	o.Pending = before + 50
	if got := mustRunTimers(t, o); got["loaded"] != 50.0 || got["pending"] != float64(before+50) {
		t.Errorf("there were %d: loaded %v, pending %v", before, got["loaded"], got["pending"])
	}
	o.Pending = 10
	if got := mustRunTimers(t, o); got["loaded"] != nil {
		t.Errorf("there were enough: loaded %v", got["loaded"])
	}
}

func TestTimersReopen(t *testing.T) {
	t.Parallel()
	o := fewTimers("pebble://" + filepath.Join(t.TempDir(), "store"))
	o.Pending, o.Reopen = 300, ReopenClean
	got := mustRunTimers(t, o)
	checkTimersKeys(t, got, timersKeys, singleKeys, spreadKeys, loadKeys, diskKeys,
		[]string{"disk_bytes_per_timer", "reopen", "open_to_result_s", "rss_reopened_mib"})
	positive(t, got, "open_s", "open_to_result_s", "disk_bytes_per_timer")
	if first, open := got["open_to_result_s"].(float64), got["open_s"].(float64); first < open {
		t.Errorf("a timer was published after %v s, and the store was open after %v s", first, open)
	}
}

func TestTimersReopenFindsThatTimersAreLost(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	s.reopen = func() store.Store { return memstore.New(memstore.Options{}) }
	o := fewTimers(url)
	o.Pending, o.Reopen = 300, ReopenClean
	if _, err := RunTimers(t.Context(), o); err == nil || !strings.Contains(err.Error(), "0 of 300 timers are pending") {
		t.Errorf("got %v", err)
	}
}

func TestTimersReopenAfterTheLoaderWasKilled(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := fewTimers(url)
	o.Pending = 300
	ctx, cancel := context.WithCancel(t.Context())
	if err := LoadTimers(ctx, o, cancel); err != nil { // the process does not really load it
		t.Fatal(err)
	}
	if n := len(timersOf(t, s)[markFar]); n != 300 {
		t.Errorf("%d timers were loaded, want 300", n)
	}
	var cmd *exec.Cmd
	o.Reopen, o.LoadCommand = ReopenCrash, loaderCommand("loads", &cmd)
	got := mustRunTimers(t, o)
	positive(t, got, "open_to_result_s")
	if got["reopen"] != "crash" || got["pending"] != 300.0 || cmd.ProcessState.Exited() {
		t.Errorf("reopen is %v, pending %v, and the process has %v", got["reopen"], got["pending"], cmd.ProcessState)
	}
}

func TestTimersThatAreScheduledTooLate(t *testing.T) {
	t.Parallel()
	o := fewTimers("memory://")
	o.Lead = time.Nanosecond
	if _, err := RunTimers(t.Context(), o); err == nil || !strings.Contains(err.Error(), "give a longer --lead") {
		t.Errorf("got %v", err)
	}
}

func TestTimersThatCannotBeFired(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	s.commit = func(tx *store.Tx) error {
		if len(tx.Put) == 0 || len(tx.Finish) > 0 { // it schedules nothing
			return errors.New("the disk is gone")
		}
		return nil
	}
	o := fewTimers(url)
	o.Patience = 50 * time.Millisecond
	if _, err := RunTimers(t.Context(), o); err == nil || !strings.Contains(err.Error(), "0 of 200 timers were published, and nothing has happened for 50ms") {
		t.Errorf("got %v", err)
	}
}

// TestTimersOfAStoreThatHasFailed: the run ends with the error of the service, and does
// not wait in vain.
func TestTimersOfAStoreThatHasFailed(t *testing.T) {
	t.Parallel()
	_, url := newShared(t)
	o := fewTimers(url)
	ctx, fail := context.WithCancelCause(t.Context())
	r := newTimersRun(&o, fail)
	if err := r.open(ctx); err != nil {
		t.Fatal(err)
	}
	shared := r.store.(*sharedStore)
	if err := shared.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.measureTimers(ctx); err == nil {
		t.Error("timers were measured on a closed store")
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), "bench: fire timers") {
		t.Errorf("the service has %v", err)
	}
	_ = r.close()
}

func TestTimersProfiles(t *testing.T) {
	// Not parallel: there is one profile of the CPU at a time.
	var cpu, mem strings.Builder
	o := fewTimers("memory://")
	o.CPUProfile, o.MemProfile = io.Writer(&cpu), io.Writer(&mem)
	mustRunTimers(t, o)
	if cpu.Len() == 0 || mem.Len() == 0 {
		t.Errorf("the profiles have %d and %d bytes", cpu.Len(), mem.Len())
	}
}
