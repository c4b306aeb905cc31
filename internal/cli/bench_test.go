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

	"github.com/abidehq/abide/internal/cli/connect"
)

// figures runs a verb that measures, and returns what it printed as JSON.
func figures(t *testing.T, args string) map[string]any {
	t.Helper()
	code, stdout, stderr := invoke(t, append([]string{"bench"}, strings.Fields(args+" --json --quiet")...)...)
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

// TestBenchUsageErrors: mistakes are found before anything is opened or made.
func TestBenchUsageErrors(t *testing.T) {
	t.Setenv(connect.EnvStore, "")
	t.Chdir(t.TempDir())
	for args, want := range map[string]string{
		"hello world":                                    "takes no arguments",
		"hello --width 3":                                "unknown flag: --width",
		"idle --clients 3":                               "unknown flag: --clients",
		"hello --n many":                                 `invalid argument "many" for "--n"`,
		"hello --store paper://":                         `unknown scheme "paper"`,
		"hello --clients 0":                              "--clients is 0; allowed are 1 to 10000",
		"hello --clients 10001":                          "--clients is 10001; allowed are 1 to 10000",
		"hello --duration -1s":                           "--duration is -1s: must not be negative",
		"hello --warmup -1s":                             "--warmup is -1s: must not be negative",
		"fanout --n -1":                                  "--n is -1: must not be negative",
		"idle --duration 0s":                             "neither --n nor --duration",
		"sequence --length 0":                            "--length is 0; allowed are 1 to 10000",
		"events --length 10001":                          "--length is 10001; allowed are 1 to 10000",
		"fanout --width 0":                               "--width is 0; allowed are 1 to 10000",
		"hello -o yaml":                                  "known are: table, json",
		"hello --processes 2":                            "--processes needs a --store that several processes can open",
		"sleep --processes 2":                            "unknown flag: --processes",
		"sleep --n 0":                                    "--n is 0; allowed are 1 to 10000000",
		"sleep --over 0s":                                "--over is 0s; allowed are",
		"sleep --lead -1s":                               "--lead is -1s; allowed are 0s to 24h0m0s",
		"sleep --idle -1s":                               "--idle is -1s: must not be negative",
		"sleep --reopen=gently":                          "known are: clean, crash",
		"sleep --reopen=":                                "known are: clean, crash",
		"sleep --reopen --over 1s":                       "--over says when instances wake",
		"sleep --idle 1s --lead 1s":                      "--lead says when instances wake",
		"hello --processes 0 --store sqlite://abide.db":  "--processes is 0; 1 to 64 is allowed",
		"hello --processes -1 --store sqlite://abide.db": "--processes is -1; 1 to 64 is allowed",
		"hello --processes 65 --store sqlite://abide.db": "--processes is 65; 1 to 64 is allowed",
		"hello --processes 2 --clients 0 --store sqlite://abide.db":      "--clients is 0; allowed are 1 to 10000",
		"hello --processes 2 --cpuprofile cpu --store sqlite://abide.db": "--cpuprofile is of one process",
		"sleep --store memory:// --reopen":                               "--reopen is not possible with a memory: store",
		"timers now":                                                     "takes no arguments",
		"timers --width 3":                                               "unknown flag: --width",
		"timers --store paper://":                                        `unknown scheme "paper"`,
		"timers --n 0":                                                   "--n is 0; allowed are 1 to 10000000",
		"timers --clients 0":                                             "--clients is 0; allowed are 1 to 10000",
		"timers --bulk 20000":                                            "--bulk is 20000; allowed are 1 to 10000",
		"timers --tenants 0":                                             "--tenants is 0; allowed are 1 to 10000",
		"timers --payload -1":                                            "--payload is -1; allowed are 0 to 65536",
		"timers --payload 65536 --bulk 1000":                             "--bulk is 1000 and --payload 65536: that is about",
		"timers --duration -1ns":                                         "--duration is -1ns: must not be negative",
		"timers --over 0":                                                "--over is 0s; allowed are",
		"timers --lead -1s":                                              "--lead is -1s; allowed are 0s to 24h0m0s",
		"timers --idle -1s":                                              "--idle is -1s: must not be negative",
		"timers --pending -1":                                            "--pending is -1; allowed are 0 to 100000000",
		"timers --herd -1":                                               "--herd is -1; allowed are 0 to 10000000",
		"timers --herd 10000001":                                         "--herd is 10000001; allowed are 0 to 10000000",
		"timers --herd 3 --n 3":                                          "--n is about timers that are not due at the same instant",
		"timers --herd 3 --over 3s":                                      "--over is about",
		"timers --herd 3 --clients 3":                                    "--clients is about",
		"timers --herd 3 --duration 0":                                   "--duration is about",
		"timers --pending 3 --reopen=gently":                             "known are: clean, crash",
		"timers --pending 3 --reopen=":                                   "known are: clean, crash",
		"timers --reopen":                                                "it needs --pending",
		"timers --store memory:// --pending 3 --reopen":                  "--reopen is not possible with a memory: store",
		"timers -o yaml":                                                 "known are: table, json",
		"actions now":                                                    "takes no arguments",
		"actions --width 3":                                              "unknown flag: --width",
		"actions --store paper://":                                       `unknown scheme "paper"`,
		"actions --n 0":                                                  "--n is 0; allowed are 1 to 10000000",
		"actions --slots 0":                                              "--slots is 0; allowed are 1 to 100000",
		"actions --pending -1":                                           "--pending is -1; allowed are 0 to 100000000",
		"actions --ticks 0":                                              "--ticks is 0; allowed are 1 to 1000000",
		"actions --clients 0":                                            "--clients is 0; allowed are 1 to 10000",
		"actions --body 200000":                                          "--body is 200000; allowed are 0 to 131072",
		"actions --body -1":                                              "--body is -1; allowed are 0 to 131072",
		"actions --duration -1s":                                         "--duration is -1s: must not be negative",
		"actions -o yaml":                                                "known are: table, json",
		"serve now":                                                      "takes no arguments",
		"serve --width 3":                                                "unknown flag: --width",
		"serve --streams many":                                           `invalid argument "many" for "--streams"`,
		"serve --store paper://":                                         `unknown scheme "paper"`,
		"serve --clients 0":                                              "--clients is 0; allowed are 1 to 10000",
		"serve --duration -1s":                                           "--duration is -1s: must not be negative",
		"serve --instances -1":                                           "--instances is -1; allowed are 0 to 10000000",
		"serve --timers -1":                                              "--timers is -1; allowed are 0 to 100000000",
		"serve --pages 0":                                                "--pages is 0; allowed are 1 to 100000",
		"serve --lists 0":                                                "--lists is 0; allowed are 1 to 10000000",
		"serve --idle -1s":                                               "--idle is -1s: must not be negative",
		"serve --streams 9001":                                           "--streams is 9001; allowed are 0 to 9000",
		"serve --changes 0":                                              "--changes is 0; allowed are 1 to 1000000",
		"serve --rate 0":                                                 "--rate is 0; allowed are 1 to 1000",
		"serve -o yaml":                                                  "known are: table, json",
		"serve --duration 0 --instances 0 --idle 0 --streams 0": "nothing is to be measured",
		"workers --n 0":                                   "--n is 0; allowed are 1 to 10000",
		"workers --idle 7":                                "invalid argument",
		"store --store memory:// --committers 0":          "--committers is 0; allowed are 1 to 10000",
		"store --store memory:// --committers 10001":      "--committers is 10001; allowed are 1 to 10000",
		"store --store memory:// --claimers 0":            "--claimers is 0; allowed are 1 to 10000",
		"store --store memory:// --instances 3":           "each committer needs an instance",
		"store --store memory:// --duration -1s":          "must not be negative",
		"store --store memory:// --commits -1":            "must not be negative",
		"store --store memory:// --pending -1":            "must not be negative",
		"store --store memory:// --consumed -1":           "must not be negative",
		"store --store memory:// --idle -1s":              "must not be negative",
		"store --store pebble://x --raw --rounds 0":       "--rounds is 0; allowed are 1 to 1000",
		"store --store memory:// --duration 0":            "neither --duration nor --commits",
		"store --store pebble://x --raw --workload claim": "--raw is for the workload commit",
		"store --store pebble://x --raw --commits 2":      "each round needs a commit",
	} {
		t.Run(args, func(t *testing.T) {
			code, stdout, stderr := invoke(t, append([]string{"bench"}, strings.Fields(args)...)...)
			if code != ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", code, stdout, stderr, ExitUsage, want)
			}
			if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
				t.Errorf("there is %v, %v", left, err)
			}
		})
	}
}

// TestBenchVerbs: what a flag says is what is measured.
func TestBenchVerbs(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]map[string]any{
		"hello --n 3":                          {"workload": "hello", "n": 3.0, "clients": 64.0},
		"idle --n 3":                           {"workload": "idle", "n": 3.0, "clients": 1.0},
		"sequence --n 2":                       {"workload": "sequence", "n": 2.0, "length": 10.0},
		"sequence --n 2 --steps --length 3":    {"length": 3.0, "activities_per_s": nil},
		"fanout --n 2 --width 3 --clients 1":   {"width": 3.0, "clients": 1.0},
		"events --n 2 --length 3 --warmup 1ms": {"n": 2.0, "length": 3.0, "warmup_s": 0.001},
		"sleep --n 3 --over 10ms":              {"workload": "sleep", "n": 3.0, "over_s": 0.01},
		"store --committers 4 --instances 20 --commits 50 --pending 10 --idle 1ms":       {"workload": "commit", "commits": 50.0, "pending": 10.0},
		"store --committers 4 --instances 20 --workload claim --commits 5 --consumed 20": {"workload": "claim", "claims": 5.0, "consumed": 20.0},
		"timers --n 200 --over 100ms --clients 3 --duration 1ms --bulk 50 --tenants 4 --payload 7 --pending 20": {
			"workload": "timers", "n": 200.0, "over_s": 0.1, "clients": 3.0, "bulk": 50.0, "tenants": 4.0, "payload_bytes": 7.0, "pending": 20.0,
		},
		"actions --n 50 --slots 7 --pending 20 --ticks 3 --clients 2 --duration 1ms --body 9": {
			"workload": "actions", "n": 50.0, "slots": 7.0, "pending": 20.0, "ticks": 3.0, "clients": 2.0, "body_bytes": 9.0,
		},
		"serve --clients 3 --duration 1ms --instances 30 --timers 40 --pages 2 --lists 7 --idle 1ms --streams 4 --changes 2 --rate 500": {
			"workload": "serve", "clients": 3.0, "instances": 30.0, "timers": 40.0, "pages": 2.0, "lists": 7.0, "streams": 4.0,
		},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			got := figures(t, args+" --store memory://")
			if got["store"] != "memory" {
				t.Errorf("store is %v", got["store"])
			}
			for name, value := range want {
				if got[name] != value {
					t.Errorf("%s is %v, want %v; there are %v", name, got[name], value, slices.Sorted(maps.Keys(got)))
				}
			}
		})
	}
}

func TestBenchTable(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]struct {
		lines    []string
		progress string
	}{
		"store --committers 4 --instances 20 --commits 50": {[]string{"latency p99", "cpu per commit", "rss"}, "loading: 20 instances"},
		"hello --n 3":                 {[]string{"latency p99", "cpu per orchestration", "rss"}, ""},
		"timers --herd 200":           {[]string{"lateness p99", "cpu per timer", "other lateness p99"}, ""},
		"actions --n 50 --duration 0": {[]string{"tick p99", "cpu per dispatched", "dispatched"}, ""},
		"serve --duration 1ms --instances 20 --timers 20 --idle 0 --streams 0": {[]string{"latency p99", "cpu per start", "page instances p99", "list p99"}, ""},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := invoke(t, strings.Fields("bench "+args+" --store memory://")...)
			if code != ExitOK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			for _, line := range want.lines {
				if !strings.Contains(stdout, "\n"+line+" ") {
					t.Errorf("no line %q in\n%s", line, stdout)
				}
			}
			if !strings.Contains(stderr, want.progress) || strings.Contains(stderr, "\r") {
				t.Errorf("progress is %q", stderr)
			}
		})
	}
}

// TestBenchOnATemporaryStore: it is an embedded one, and removed.
func TestBenchOnATemporaryStore(t *testing.T) {
	t.Setenv(connect.EnvStore, "")
	t.Chdir(t.TempDir())
	for _, args := range []string{
		"hello --n 3", "timers --herd 200", "actions --n 50 --duration 0", "serve --duration 1ms --instances 0 --idle 0 --streams 0",
	} {
		if got := figures(t, args); got["store"] != "pebble" {
			t.Errorf("%s: store is %v", args, got["store"])
		}
		if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
			t.Errorf("%s: there is %v, %v", args, left, err)
		}
	}
}

func TestBenchFromEnvironment(t *testing.T) {
	t.Setenv(connect.EnvStore, "memory://")
	for _, args := range []string{"hello --n 3", "store --commits 10 --committers 4 --instances 20"} {
		if got := figures(t, args); got["store"] != "memory" {
			t.Errorf("%s: store is %v", args, got["store"])
		}
	}
}

func TestBenchReopensAfterACrash(t *testing.T) {
	t.Setenv(asProgram, "1") // for the process that loads the store
	for args, want := range map[string]map[string]any{
		"store --committers 4 --instances 20 --pending 2000 --commits 100": {"pending": 2000.0, "commits": 100.0},
		"sleep --n 20": {"n": 20.0},
		"timers --pending 2000 --herd 10 --payload 9": {"pending": 2000.0},
	} {
		place := " --store pebble://" + filepath.Join(t.TempDir(), "store")
		got := figures(t, args+place+" --reopen=crash")
		if _, opened := got["open_s"]; !opened || got["reopen"] != "crash" {
			t.Errorf("%s: reopen %v, open_s %v", args, got["reopen"], got["open_s"])
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s: %s is %v, want %v", args, name, got[name], value)
			}
		}
		if strings.HasPrefix(args, "store") {
			if got = figures(t, args+place+" --reopen"); got["reopen"] != "clean" || got["pending"] != 2000.0 {
				t.Errorf("the next time: reopen %v, pending %v", got["reopen"], got["pending"])
			}
		}
	}
}

func TestBenchRaw(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	got := figures(t, "store --committers 4 --instances 20 --raw --rounds 2 --commits 100 --store pebble://"+filepath.Join(dir, "store"))
	for _, name := range []string{
		"raw_commits_per_s", "raw_cpu_us_per_commit", "raw_latency_p50_ms", "raw_latency_p99_ms", "cpu_ratio_median", "throughput_ratio_median",
	} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is not reported", name)
		}
	}
	if got["commits"] != 100.0 || got["raw_commits"] != 100.0 {
		t.Errorf("commits %v, raw commits %v", got["commits"], got["raw_commits"])
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("beside the store there is %v, %v", left, err)
	}
}

func TestBenchProcesses(t *testing.T) {
	t.Setenv(asProgram, "1") // for the processes
	place := "sqlite://" + filepath.Join(t.TempDir(), "abide.db")
	got := figures(t, "hello --n 7 --clients 3 --processes 2 --store "+place)
	if got["store"] != "sqlite" || got["processes"] != 2.0 || got["clients"] != 3.0 || got["n"] != 7.0 || got["orchestrations_per_s"] == nil || got["latency_p99_ms"] == nil {
		t.Errorf("got %v", got)
	}
	// It is about processes that share a store: both were on the same one.
	code, stdout, stderr := invoke(t, "instances", "list", "--tenant", "abide-bench", "--db", place, "-o", "json", "--limit", "100")
	if n := strings.Count(stdout, `"status":"completed"`); code != ExitOK || n < 7 {
		t.Errorf("exit code %d, %d instances: %s%s", code, n, stdout, stderr)
	}
}

// TestBenchWorkers: the workers are in a process of their own, and all of them are connected.
func TestBenchWorkers(t *testing.T) {
	t.Setenv(asProgram, "1") // for the process of the workers
	got := figures(t, "workers --n 5 --idle 10ms --store memory://")
	if got["workload"] != "workers" || got["n"] != 5.0 || got["rss_mib"] == nil || got["idle_cpu_ms"] == nil {
		t.Errorf("got %v", got)
	}
}

// TestBenchProcessThatFails: a store of one process is not shared, and nothing is measured
// then.
func TestBenchProcessThatFails(t *testing.T) {
	t.Setenv(asProgram, "1")
	place := "pebble://" + filepath.Join(t.TempDir(), "store")
	code, stdout, stderr := invoke(t, "bench", "hello", "--store", place, "--n", "1000000", "--processes", "2", "--json")
	if code == ExitOK || stdout != "" || !strings.Contains(stderr, "store is in use") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestBenchProfiles(t *testing.T) {
	// Not parallel: there is one profile of the CPU at a time.
	cpu, mem := filepath.Join(t.TempDir(), "cpu"), filepath.Join(t.TempDir(), "mem")
	figures(t, "hello --store memory:// --n 3 --cpuprofile "+cpu+" --memprofile "+mem)
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

func TestBenchInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(connect.EnvStore, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range []string{"bench hello --quiet", "bench store --store memory:// --instances 64 --quiet"} {
		var stdout, stderr bytes.Buffer
		code := run(ctx, strings.Fields(args), strings.NewReader(""), &stdout, &stderr)
		if code != ExitFailure || stderr.String() != "abide: interrupted\n" || stdout.Len() > 0 {
			t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}
