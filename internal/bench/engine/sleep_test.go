package engine

import (
	"os/exec"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
)

func TestALeadThatIsTooShort(t *testing.T) {
	t.Parallel()
	_ = benchtest.Fails(t, spec("sleep"), bench.Config{URL: "memory:"}, "--n 5 --lead 1ns", "give a longer --lead")
}

// asleepKeys are those of instances that sleep for longer than the run takes.
var asleepKeys = []string{"n", "loaded_per_s"}

func TestAsleep(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	got := benchtest.Run(t, spec("sleep"), bench.Config{URL: url}, "--n 200 --idle 1ms")
	benchtest.Keys(t, got, asleepKeys, []string{"idle_s", "idle_cpu_ms", "idle_cpu_percent"})
	benchtest.Positive(t, got, "loaded_per_s", "rss_mib")
	for _, i := range benchtest.Instances(t, s) {
		if i.Status != abide.Running {
			t.Errorf("instance %v is %s", i.Ref, i.Status)
		}
	}
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range stats.Routes {
		if soon := row.Oldest.Sub(stats.Now); row.Route == bench.Prefix+"sleep" && (row.Pending != 200 || soon < 23*time.Hour) {
			t.Errorf("%d sleep, the first for %v; want 200, for a day", row.Pending, soon)
		}
	}
}

func TestReopenWhileAsleep(t *testing.T) {
	t.Parallel()
	got := benchtest.Run(t, spec("sleep"), bench.Config{URL: benchtest.URL(t, "pebble")}, "--n 5 --reopen")
	benchtest.Keys(t, got, asleepKeys, diskKeys, []string{"reopen", "open_to_result_s"})
	benchtest.Positive(t, got, "open_s", "open_to_result_s", "rss_mib", "rss_reopened_mib")
	benchtest.Want(t, got, map[string]any{"reopen": "clean"})
	if first, open := got["open_to_result_s"].(float64), got["open_s"].(float64); first < open {
		t.Errorf("there was a result after %v s, and the engine was open after %v s", first, open)
	}
}

func TestReopenFindsThatInstancesAreLost(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	s.Forget = true
	_ = benchtest.Fails(t, spec("sleep"), bench.Config{URL: url}, "--n 5 --reopen", "0 of 5 instances sleep")
}

func TestReopenAfterTheLoaderWasKilled(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	benchtest.Load(t, spec("sleep"), bench.Config{URL: url}, "--n 5 --reopen=crash") // the process does not really load it
	if n := len(benchtest.Instances(t, s)); n != 5 {
		t.Errorf("%d instances were loaded, want 5", n)
	}
	var cmd *exec.Cmd
	got := benchtest.Run(t, spec("sleep"), bench.Config{URL: url, LoadCommand: benchtest.Loader(&cmd)}, "--n 5 --reopen=crash")
	benchtest.Positive(t, got, "open_to_result_s", "rss_mib")
	if got["reopen"] != "crash" || cmd.ProcessState.Exited() {
		t.Errorf("reopen is %v, and the process has %v", got["reopen"], cmd.ProcessState)
	}
}
