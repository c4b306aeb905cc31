package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBenchTimersUsageErrors(t *testing.T) {
	t.Setenv(envStore, "")
	t.Chdir(t.TempDir())
	for _, tt := range []struct{ name, args, want string }{
		{"argument", "now", "takes no arguments"},
		{"unknown flag", "--width 3", "unknown flag: --width"},
		{"not a number", "--n many", `invalid argument "many" for "--n"`},
		{"scheme", "--store paper://", `unknown scheme "paper"`},
		{"n", "--n 0", "--n is 0; allowed are 1 to 10000000"},
		{"clients", "--clients 0", "--clients is 0; allowed are 1 to 10000"},
		{"bulk", "--bulk 20000", "--bulk is 20000; allowed are 1 to 10000"},
		{"tenants", "--tenants 0", "--tenants is 0; allowed are 1 to 10000"},
		{"payload", "--payload -1", "--payload is -1; allowed are 0 to 65536"},
		{"negative herd", "--herd -1", "--herd is -1; allowed are 0 to 10000000"},
		{"herd and n", "--herd 3 --n 3", "--n is about timers that are not due at the same instant"},
		{"herd and over", "--herd 3 --over 3s", "--over is about"},
		{"herd and clients", "--herd 3 --clients 3", "--clients is about"},
		{"herd and duration", "--herd 3 --duration 0", "--duration is about"},
		{"reopen", "--pending 3 --reopen=gently", "known are: clean, crash"},
		{"empty reopen", "--pending 3 --reopen=", "known are: clean, crash"},
		{"reopen nothing", "--reopen", "it needs --pending"},
		{"reopen memory", "--store memory:// --pending 3 --reopen", "--reopen is not possible with a memory: store"},
		{"output", "-o yaml", "known are: table, json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := invoke(t, append([]string{"bench", "timers"}, strings.Fields(tt.args)...)...)
			if code != ExitUsage || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", code, stdout, stderr, ExitUsage, tt.want)
			}
			if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
				t.Errorf("there is %v, %v", left, err)
			}
		})
	}
}

// TestBenchTimersFlagsCount: what a flag says is what is measured.
func TestBenchTimersFlagsCount(t *testing.T) {
	t.Parallel()
	got := engineFigures(t, strings.Fields("timers --store memory:// --n 200 --over 100ms --clients 3 --duration 1ms --bulk 50 --tenants 4 --payload 7 --pending 20")...)
	want(t, got, "scheduled_per_s", "scheduled_single_per_s", "fired_per_s", "drain_s", "lateness_p99_ms")
	for name, value := range map[string]any{
		"workload": "timers", "store": "memory", "n": 200.0, "over_s": 0.1, "clients": 3.0, "bulk": 50.0, "tenants": 4.0, "payload_bytes": 7.0, "pending": 20.0,
	} {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
}

func TestBenchTimersHerd(t *testing.T) {
	t.Setenv(envStore, "")
	t.Chdir(t.TempDir())
	got := engineFigures(t, "timers", "--herd", "200")
	want(t, got, "drain_s", "fired_per_s", "other_lateness_max_ms")
	if got["herd"] != 200.0 || got["store"] != "pebble" {
		t.Errorf("herd %v, store %v", got["herd"], got["store"])
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}

func TestBenchTimersReopensAfterACrash(t *testing.T) {
	t.Setenv(asProgram, "1") // for the process that schedules the timers
	place := "pebble://" + filepath.Join(t.TempDir(), "store")
	got := engineFigures(t, "timers", "--store", place, "--pending", "2000", "--reopen=crash", "--herd", "10", "--payload", "9")
	want(t, got, "open_s", "open_to_result_s", "disk_bytes_per_timer")
	if got["reopen"] != "crash" || got["pending"] != 2000.0 {
		t.Errorf("reopen %v, pending %v", got["reopen"], got["pending"])
	}
}

func TestBenchTimersTable(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke(t, "bench", "timers", "--store", "memory://", "--n", "20", "--over", "10ms", "--duration", "1ms")
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, line := range []string{"scheduled in bulk", "scheduled singly", "fired and published", "lateness p99"} {
		if !strings.Contains(stdout, line) {
			t.Errorf("no line %q in\n%s", line, stdout)
		}
	}
}
