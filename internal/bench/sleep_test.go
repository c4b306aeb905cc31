package bench

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

func TestWaking(t *testing.T) {
	t.Parallel()
	n := &naps{run: "this"}
	n.expect(2)
	due := time.UnixMilli(1000)
	n.wake(nap{Run: "other", I: 0, Due: due}, due.Add(time.Hour), due)
	n.wake(nap{Run: "this", I: 2, Due: due}, due.Add(time.Hour), due)
	n.wake(nap{Run: "this", I: 1, Due: due}, due.Add(3*time.Millisecond), due.Add(2*time.Millisecond))
	n.wake(nap{Run: "this", I: 1, Due: due}, due.Add(time.Minute), due.Add(time.Minute))
	if n.count.Load() != 1 || n.late[1] != 3*time.Millisecond || n.turn[1] != 2*time.Millisecond || n.early() != 0 {
		t.Errorf("%d woke, late by %v, turns by %v, %d early", n.count.Load(), n.late, n.turn, n.early())
	}
	n.wake(nap{Run: "this", I: 0, Due: due}, due, due.Add(-time.Millisecond))
	if n.count.Load() != 2 || n.early() != 1 {
		t.Errorf("%d woke, %d of them early; want 2 and 1", n.count.Load(), n.early())
	}
}

func TestALeadThatIsTooShort(t *testing.T) {
	t.Parallel()
	o := tiny("memory:", WorkloadSleep)
	o.Lead = time.Nanosecond
	if _, err := RunEngine(t.Context(), o); err == nil || !strings.Contains(err.Error(), "give a longer --lead") {
		t.Errorf("got %v", err)
	}
}

func TestAsleep(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := tiny(url, WorkloadSleep)
	o.N, o.Idle = 200, time.Millisecond
	got := mustRunEngine(t, o)
	checkKeys(t, got, "workload", "store", "n", "cpu_us_per_orchestration", "rss_mib", "open_s")
	positive(t, got, "loaded_per_s", "rss_mib")
	if _, ok := got["idle_cpu_percent"]; !ok {
		t.Error("idle_cpu_percent is not reported")
	}
	for _, i := range instances(t, s) {
		if i.Status != abide.Running {
			t.Errorf("instance %v is %s", i.Ref, i.Status)
		}
	}

	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range stats.Routes {
		if soon := row.Oldest.Sub(stats.Now); row.Route == prefix+"sleep" && (row.Pending != 200 || soon < 23*time.Hour) {
			t.Errorf("%d sleep, the first for %v; want 200, for a day", row.Pending, soon)
		}
	}
}

func TestReopenWhileAsleep(t *testing.T) {
	t.Parallel()
	o := tiny("pebble://"+filepath.Join(t.TempDir(), "store"), WorkloadSleep)
	o.Reopen = ReopenClean
	got := mustRunEngine(t, o)
	checkKeys(t, got, "workload", "store", "n", "cpu_us_per_orchestration", "disk_bytes_per_orchestration", "rss_mib", "open_s")
	positive(t, got, "open_s", "open_to_result_s", "rss_mib", "rss_reopened_mib")
	if got["reopen"] != "clean" {
		t.Errorf("reopen is %v", got["reopen"])
	}
	if first, open := got["open_to_result_s"].(float64), got["open_s"].(float64); first < open {
		t.Errorf("there was a result after %v s, and the engine was open after %v s", first, open)
	}
}

func TestReopenFindsThatInstancesAreLost(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	s.reopen = func() store.Store { return memstore.New(memstore.Options{}) }
	o := tiny(url, WorkloadSleep)
	o.Reopen = ReopenClean
	if _, err := RunEngine(t.Context(), o); err == nil || !strings.Contains(err.Error(), "0 of 5 instances sleep") {
		t.Errorf("got %v", err)
	}
}

func TestReopenAfterTheLoaderWasKilled(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := tiny(url, WorkloadSleep)
	o.Idle = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	if err := LoadEngine(ctx, o, cancel); err != nil { // the process does not really load it
		t.Fatal(err)
	}
	if n := len(instances(t, s)); n != 5 {
		t.Errorf("%d instances were loaded, want 5", n)
	}

	var cmd *exec.Cmd
	o.Idle, o.Reopen, o.LoadCommand = 0, ReopenCrash, loaderCommand("loads", &cmd)
	got := mustRunEngine(t, o)
	positive(t, got, "open_to_result_s", "rss_mib")
	if got["reopen"] != "crash" || cmd.ProcessState.Exited() {
		t.Errorf("reopen is %v, and the process has %v", got["reopen"], cmd.ProcessState)
	}
}
