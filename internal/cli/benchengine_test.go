package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// engineFigures runs a verb that measures orchestrations and returns what it printed as
// JSON.
func engineFigures(t *testing.T, args ...string) map[string]any {
	t.Helper()
	code, stdout, stderr := invoke(t, append(append([]string{"bench"}, args...), "--json", "--quiet")...)
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

func TestBenchEngineUsageErrors(t *testing.T) {
	t.Setenv(envStore, "")
	t.Chdir(t.TempDir())
	for _, tt := range []struct{ name, args, want string }{
		{"argument", "hello world", "takes no arguments"},
		{"unknown flag", "hello --width 3", "unknown flag: --width"},
		{"one client", "idle --clients 3", "unknown flag: --clients"},
		{"not a number", "hello --n many", `invalid argument "many" for "--n"`},
		{"scheme", "hello --store paper://", `unknown scheme "paper"`},
		{"clients", "hello --clients 0", "--clients is 0; allowed are 1 to 10000"},
		{"negative n", "fanout --n -1", "--n is -1: must not be negative"},
		{"no end", "idle --duration 0s", "neither --n nor --duration"},
		{"length", "sequence --length 0", "--length is 0; allowed are 1 to 10000"},
		{"width", "fanout --width 0", "--width is 0; allowed are 1 to 10000"},
		{"over", "sleep --over 0s", "--over is 0s; allowed are"},
		{"reopen", "sleep --reopen=gently", "known are: clean, crash"},
		{"empty reopen", "sleep --reopen=", "known are: clean, crash"},
		{"reopen memory", "sleep --store memory:// --reopen", "--reopen is not possible with a memory: store"},
		{"reopen and over", "sleep --reopen --over 1s", "--over says when instances wake"},
		{"idle and lead", "sleep --idle 1s --lead 1s", "--lead says when instances wake"},
		{"output", "hello -o yaml", "known are: table, json"},
		{"processes without a store", "hello --processes 2", "--processes needs a --store that several processes can open"},
		{"no process", "hello --processes 0 --store sqlite://abide.db", "--processes is 0; 1 to 64 is allowed"},
		{"less than none", "hello --processes -1 --store sqlite://abide.db", "--processes is -1; 1 to 64 is allowed"},
		{"too many processes", "hello --processes 65 --store sqlite://abide.db", "--processes is 65; 1 to 64 is allowed"},
		{"clients of processes", "hello --processes 2 --clients 0 --store sqlite://abide.db", "--clients is 0; allowed are 1 to 10000"},
		{"profile of processes", "hello --processes 2 --cpuprofile cpu --store sqlite://abide.db", "--cpuprofile is of one process"},
		{"processes that sleep", "sleep --processes 2", "unknown flag: --processes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := invoke(t, append([]string{"bench"}, strings.Fields(tt.args)...)...)
			if code != ExitUsage || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", code, stdout, stderr, ExitUsage, tt.want)
			}
			if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
				t.Errorf("there is %v, %v", left, err)
			}
		})
	}
}

func TestBenchEngineVerbs(t *testing.T) {
	t.Parallel()
	for _, v := range engineVerbs {
		t.Run(string(v.workload), func(t *testing.T) {
			t.Parallel()
			args := []string{string(v.workload), "--store", "memory://", "--n", "3"}
			if v.workload == "sleep" {
				args = append(args, "--over", "10ms")
			}
			got := engineFigures(t, args...)
			if got["workload"] != string(v.workload) || got["store"] != "memory" || got["n"] != 3.0 {
				t.Errorf("got %v", got)
			}
			if clients, there := got["clients"]; there && v.workload != "idle" && clients != 64.0 {
				t.Errorf("%v clients, want 64", clients)
			}
		})
	}
}

// TestBenchEngineFlagsCount: what a flag says is what is measured.
func TestBenchEngineFlagsCount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		want map[string]any
		has  string
	}{
		{"sequence --n 2", map[string]any{"length": 10.0}, "activities_per_s"},
		{"sequence --n 2 --steps --length 3", map[string]any{"length": 3.0}, "steps_per_s"},
		{"fanout --n 2 --width 3 --clients 1", map[string]any{"width": 3.0, "clients": 1.0}, "activities_per_s"},
		{"events --n 2 --length 3", map[string]any{"length": 3.0}, "events_per_s"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			got := engineFigures(t, append(strings.Fields(tt.args), "--store", "memory://")...)
			want(t, got, tt.has)
			for name, value := range tt.want {
				if got[name] != value {
					t.Errorf("%s is %v, want %v", name, got[name], value)
				}
			}
		})
	}
}

func TestBenchEngineTable(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke(t, "bench", "hello", "--store", "memory://", "--n", "3")
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, line := range []string{"start to result p99", "CPU per orchestration", "resident memory"} {
		if !strings.Contains(stdout, line) {
			t.Errorf("no line %q in\n%s", line, stdout)
		}
	}
}

func TestBenchEngineRemovesItsTemporaryStore(t *testing.T) {
	t.Setenv(envStore, "")
	t.Chdir(t.TempDir())
	if got := engineFigures(t, "hello", "--n", "3"); got["store"] != "pebble" {
		t.Errorf("store is %v", got["store"])
	}
	left, err := os.ReadDir(".")
	if err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}

func TestBenchEngineFromEnvironment(t *testing.T) {
	t.Setenv(envStore, "memory://")
	if got := engineFigures(t, "hello", "--n", "3"); got["store"] != "memory" {
		t.Errorf("store is %v", got["store"])
	}
}

func TestBenchSleepReopensAfterACrash(t *testing.T) {
	t.Setenv(asProgram, "1") // for the process that starts the instances
	place := "pebble://" + filepath.Join(t.TempDir(), "store")
	got := engineFigures(t, "sleep", "--store", place, "--n", "20", "--reopen=crash")
	want(t, got, "open_s", "open_to_result_s", "rss_mib")
	if got["reopen"] != "crash" || got["n"] != 20.0 {
		t.Errorf("reopen %v, n %v", got["reopen"], got["n"])
	}
}

func TestBenchEngineProcesses(t *testing.T) {
	t.Setenv(asProgram, "1") // for the processes
	place := "sqlite://" + filepath.Join(t.TempDir(), "abide.db")
	got := engineFigures(t, "hello", "--store", place, "--n", "7", "--clients", "3", "--processes", "2")
	want(t, got, "orchestrations_per_s", "latency_p99_ms")
	if got["store"] != "sqlite" || got["processes"] != 2.0 || got["clients"] != 3.0 || got["n"] != 7.0 {
		t.Errorf("got %v", got)
	}
	// It is about processes that share a store: both were on the same one.
	code, stdout, stderr := invoke(t, "instances", "list", "--tenant", "abide-bench", "--db", place, "-o", "json", "--limit", "100")
	if n := strings.Count(stdout, `"status":"completed"`); code != ExitOK || n < 7 {
		t.Errorf("exit code %d, %d instances: %s%s", code, n, stdout, stderr)
	}
}

// TestBenchEngineProcessThatFails: a store of one process is not shared, and nothing is
// measured then.
func TestBenchEngineProcessThatFails(t *testing.T) {
	t.Setenv(asProgram, "1")
	place := "pebble://" + filepath.Join(t.TempDir(), "store")
	code, stdout, stderr := invoke(t, "bench", "hello", "--store", place, "--n", "1000000", "--processes", "2", "--json")
	if code == ExitOK || stdout != "" || !strings.Contains(stderr, "store is in use") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestBenchEngineProfiles(t *testing.T) {
	// Not parallel: there is one profile of the CPU at a time.
	cpu, mem := filepath.Join(t.TempDir(), "cpu"), filepath.Join(t.TempDir(), "mem")
	engineFigures(t, "hello", "--store", "memory://", "--n", "3", "--cpuprofile", cpu, "--memprofile", mem)
	for _, name := range []string{cpu, mem} {
		if info, err := os.Stat(name); err != nil || info.Size() == 0 {
			t.Errorf("profile %s: %v, %v", name, info, err)
		}
	}
}

func TestBenchEngineInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(envStore, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"bench", "hello", "--quiet"}, strings.NewReader(""), &stdout, &stderr)
	if code != ExitFailure || stderr.String() != "abide: interrupted\n" || stdout.Len() > 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}
