package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// figures runs a benchmark and returns what it printed as JSON.
func figures(t *testing.T, args ...string) map[string]any {
	t.Helper()
	args = append([]string{"bench", "store", "--json", "--quiet", "--committers", "4", "--instances", "20"}, args...)
	code, stdout, stderr := invoke(t, args...)
	if code != ExitOK || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if strings.Count(stdout, "\n") != 1 {
		t.Errorf("the output is not one line: %q", stdout)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	return got
}

// want checks that there are these figures, and that they are not negative.
func want(t *testing.T, got map[string]any, names ...string) {
	t.Helper()
	for _, name := range names {
		value, ok := got[name]
		if n, isNumber := value.(float64); !ok || (isNumber && n < 0) {
			t.Errorf("%s is %v; there are %v", name, value, slices.Sorted(maps.Keys(got)))
		}
	}
}

func TestBenchStoreJSON(t *testing.T) {
	t.Parallel()
	got := figures(t, "--store", "memory://", "--commits", "50", "--pending", "10", "--idle", "1ms")
	want(t, got, "store", "workload", "committers", "gomaxprocs", "go", "open_s", "pending",
		"commits", "duration_s", "commits_per_s", "cpu_us_per_commit",
		"latency_p50_ms", "latency_p99_ms", "latency_max_ms", "claim_p50_us", "claim_p99_us",
		"idle_cpu_ms", "idle_cpu_percent")
	if got["store"] != "memory" || got["commits"] != 50.0 || got["pending"] != 10.0 {
		t.Errorf("store %v, commits %v, pending %v", got["store"], got["commits"], got["pending"])
	}
}

func TestBenchStoreClaims(t *testing.T) {
	t.Parallel()
	got := figures(t, "--store", "memory://", "--workload", "claim", "--commits", "5", "--consumed", "20")
	want(t, got, "claim_p50_us", "claim_p99_us", "claim_p99_us_before", "consumed", "claims")
}

func TestBenchStoreTable(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke(t, "bench", "store", "--store", "memory://",
		"--committers", "4", "--instances", "20", "--commits", "50")
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, line := range []string{"commit latency p99", "CPU per commit"} {
		if !strings.Contains(stdout, line) {
			t.Errorf("no line %q in\n%s", line, stdout)
		}
	}
	if !strings.Contains(stderr, "loaded 20 instances") || strings.Contains(stderr, "\r") {
		t.Errorf("progress is %q", stderr)
	}
}

func TestBenchStoreFromEnvironment(t *testing.T) {
	t.Setenv(envStore, "memory://")
	if got := figures(t, "--commits", "10"); got["store"] != "memory" {
		t.Errorf("store is %v", got["store"])
	}
}

func TestBenchStoreProfiles(t *testing.T) {
	// Not parallel: there is one profile of the CPU at a time.
	cpu, mem := filepath.Join(t.TempDir(), "cpu"), filepath.Join(t.TempDir(), "mem")
	figures(t, "--store", "memory://", "--commits", "10", "--cpuprofile", cpu, "--memprofile", mem)
	for _, name := range []string{cpu, mem} {
		if info, err := os.Stat(name); err != nil || info.Size() == 0 {
			t.Errorf("profile %s: %v, %v", name, info, err)
		}
	}
	code, _, stderr := invoke(t, "bench", "store", "--store", "memory://", "--cpuprofile", filepath.Join(cpu, "x"))
	if code != ExitFailure || !strings.Contains(stderr, "create a profile") {
		t.Errorf("a bad path: exit code %d, %q", code, stderr)
	}
}

func TestBenchStoreInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"bench", "store", "--store", "memory://", "--instances", "64", "--quiet"},
		strings.NewReader(""), &stdout, &stderr)
	if code != ExitFailure || stderr.String() != "abide: interrupted\n" || stdout.Len() > 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
}

func TestBenchStoreReopensAfterACrash(t *testing.T) {
	t.Setenv(asProgram, "1") // for the process that loads the store
	place := "pebble://" + filepath.Join(t.TempDir(), "store")
	got := figures(t, "--store", place, "--pending", "2000", "--reopen=crash", "--commits", "100")
	want(t, got, "open_s", "commits_per_s", "store_mib")
	if got["reopen"] != "crash" || got["pending"] != 2000.0 || got["commits"] != 100.0 {
		t.Errorf("reopen %v, pending %v, commits %v", got["reopen"], got["pending"], got["commits"])
	}
	got = figures(t, "--store", place, "--reopen", "--commits", "100")
	if got["reopen"] != "clean" || got["pending"] != 2000.0 {
		t.Errorf("the next time: reopen %v, pending %v", got["reopen"], got["pending"])
	}
}

func TestBenchStoreRaw(t *testing.T) {
	t.Parallel()
	for scheme := range rawEngines {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			got := figures(t, "--store", scheme+"://"+filepath.Join(dir, "store"), "--raw", "--rounds", "2", "--commits", "100")
			want(t, got, "raw_commits_per_s", "raw_cpu_us_per_commit", "raw_latency_p50_ms", "raw_latency_p99_ms",
				"cpu_ratio", "cpu_ratio_median", "throughput_ratio", "throughput_ratio_median")
			if got["commits"] != 100.0 || got["raw_commits"] != 100.0 {
				t.Errorf("commits %v, raw commits %v", got["commits"], got["raw_commits"])
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("beside the store there is %v, %v", left, err)
			}
		})
	}
}
