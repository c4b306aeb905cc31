package cli

import (
	"os"
	"strings"
	"testing"
)

func TestBenchServeUsageErrors(t *testing.T) {
	t.Setenv(envStore, "")
	t.Chdir(t.TempDir())
	for _, tt := range []struct{ name, args, want string }{
		{"argument", "now", "takes no arguments"},
		{"unknown flag", "--width 3", "unknown flag: --width"},
		{"not a number", "--streams many", `invalid argument "many" for "--streams"`},
		{"scheme", "--store paper://", `unknown scheme "paper"`},
		{"clients", "--clients 0", "--clients is 0; allowed are 1 to 10000"},
		{"duration", "--duration -1s", "--duration is -1s: must not be negative"},
		{"instances", "--instances -1", "--instances is -1; allowed are 0 to 10000000"},
		{"timers", "--timers -1", "--timers is -1; allowed are 0 to 100000000"},
		{"pages", "--pages 0", "--pages is 0; allowed are 1 to 100000"},
		{"lists", "--lists 0", "--lists is 0; allowed are 1 to 10000000"},
		{"idle", "--idle -1s", "--idle is -1s: must not be negative"},
		{"streams", "--streams 10000", "--streams is 10000; allowed are 0 to 9000"},
		{"changes", "--changes 0", "--changes is 0; allowed are 1 to 1000000"},
		{"rate", "--rate 0", "--rate is 0; allowed are 1 to 1000"},
		{"nothing", "--duration 0 --instances 0 --idle 0 --streams 0", "nothing is to be measured"},
		{"output", "-o yaml", "known are: table, json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := invoke(t, append([]string{"bench", "serve"}, strings.Fields(tt.args)...)...)
			if code != ExitUsage || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d and %q", code, stdout, stderr, ExitUsage, tt.want)
			}
			if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
				t.Errorf("there is %v, %v", left, err)
			}
		})
	}
}

// TestBenchServeFlagsCount: what a flag says is what is measured.
func TestBenchServeFlagsCount(t *testing.T) {
	t.Parallel()
	got := engineFigures(t, strings.Fields("serve --store memory:// --clients 3 --duration 1ms --instances 30 --timers 40 --pages 2 --lists 7 --idle 1ms --streams 4 --changes 2 --rate 500")...)
	want(t, got, "starts_per_s", "page_first_ms", "list_p99_ms", "idle_s", "stream_p99_ms")
	for name, value := range map[string]any{
		"workload": "serve", "store": "memory", "clients": 3.0, "instances": 30.0, "timers": 40.0, "pages": 2.0, "lists": 7.0, "streams": 4.0,
	} {
		if got[name] != value {
			t.Errorf("%s is %v, want %v", name, got[name], value)
		}
	}
}

func TestBenchServeOnATemporaryStore(t *testing.T) {
	t.Setenv(envStore, "")
	t.Chdir(t.TempDir())
	got := engineFigures(t, strings.Fields("serve --duration 1ms --instances 0 --idle 0 --streams 0")...)
	if _, read := got["lists"]; read || got["store"] != "pebble" {
		t.Errorf("it has measured %v", got)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}

func TestBenchServeTable(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := invoke(t, strings.Fields("bench serve --store memory:// --duration 1ms --instances 5 --timers 5 --pages 1 --lists 20 --idle 1ms --streams 1 --changes 1")...)
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, line := range []string{"start p99", "first page, the first time", "list p99", "change to all streams p99"} {
		if !strings.Contains(stdout, line) {
			t.Errorf("no line %q in\n%s", line, stdout)
		}
	}
}
