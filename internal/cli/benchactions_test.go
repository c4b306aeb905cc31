package cli

import (
	"os"
	"strings"
	"testing"
)

func TestBenchActionsUsageErrors(t *testing.T) {
	t.Setenv(envStore, "")
	t.Chdir(t.TempDir())
	for _, tt := range []struct{ name, args, want string }{
		{"argument", "now", "takes no arguments"},
		{"unknown flag", "--width 3", "unknown flag: --width"},
		{"not a number", "--n many", `invalid argument "many" for "--n"`},
		{"scheme", "--store paper://", `unknown scheme "paper"`},
		{"n", "--n 0", "--n is 0; allowed are 1 to 10000000"},
		{"slots", "--slots 0", "--slots is 0; allowed are 1 to 100000"},
		{"pending", "--pending -1", "--pending is -1; allowed are 0 to 100000000"},
		{"ticks", "--ticks 0", "--ticks is 0; allowed are 1 to 1000000"},
		{"clients", "--clients 0", "--clients is 0; allowed are 1 to 10000"},
		{"body", "--body 200000", "--body is 200000; allowed are 0 to 131072"},
		{"duration", "--duration -1s", "--duration is -1s: must not be negative"},
		{"output", "-o yaml", "known are: table, json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := invoke(t, append([]string{"bench", "actions"}, strings.Fields(tt.args)...)...)
			if code != ExitUsage || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", code, stdout, stderr, ExitUsage, tt.want)
			}
			if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
				t.Errorf("there is %v, %v", left, err)
			}
		})
	}
}

// TestBenchActionsFlagsCount: what a flag says is what is measured.
func TestBenchActionsFlagsCount(t *testing.T) {
	t.Parallel()
	got := engineFigures(t, strings.Fields("actions --store memory:// --n 50 --slots 7 --pending 20 --ticks 3 --clients 2 --duration 1ms --body 9")...)
	want(t, got, "tick_p99_us", "added_per_s", "dispatched_per_s", "requests_per_s", "latency_p99_ms")
	for name, value := range map[string]any{
		"workload": "actions", "store": "memory", "n": 50.0, "slots": 7.0, "pending": 20.0, "ticks": 3.0, "clients": 2.0, "body_bytes": 9.0,
	} {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
}

func TestBenchActionsOnATemporaryStore(t *testing.T) {
	t.Setenv(envStore, "")
	t.Chdir(t.TempDir())
	got := engineFigures(t, "actions", "--n", "50", "--duration", "0")
	if _, sent := got["requests"]; sent || got["store"] != "pebble" {
		t.Errorf("it has measured %v", got)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}

func TestBenchActionsTable(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke(t, "bench", "actions", "--store", "memory://", "--n", "20", "--duration", "1ms")
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, line := range []string{"tick p99", "dispatched and settled", "webhook p99"} {
		if !strings.Contains(stdout, line) {
			t.Errorf("no line %q in\n%s", line, stdout)
		}
	}
}
