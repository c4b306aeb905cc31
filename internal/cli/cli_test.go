package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/cli/connect"

	"github.com/rogpeppe/go-internal/testscript"
)

// asProgram makes the test binary be the program itself: a command that starts its
// own executable finds what it expects.
const asProgram = "ABIDE_CLI_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	testscript.Main(m, map[string]func(){
		"abide": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"hold":  hold,
		"world": world,
	})
}

// invoke runs a command line.
func invoke(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsageErrors(t *testing.T) {
	t.Setenv(connect.EnvStore, "")
	for _, tt := range []struct {
		name string
		args string
		want string
	}{
		{"unknown command", "dance", `unknown command "dance" for "abide"; known are: actions, audit, bench`},
		{"unknown bench", "bench engine", `unknown command "engine" for "abide bench"; known are: actions, events, fanout, hello, idle, limits, search, sequence, serve, sleep, soak, store, timers, workers`},
		{"argument", "bench store here", "takes no arguments"},
		{"no store", "bench store", "no store: give --store URL or set ABIDE_STORE"},
		{"unknown flag", "bench store --fast", "unknown flag: --fast"},
		{"not a number", "bench store --store memory:// --committers many", `invalid argument "many"`},
		{"scheme", "bench store --store paper://", `unknown scheme "paper"`},
		{"option", "bench store --store memory://?x=1", `unknown option "x"`},
		{"workload", "bench store --store memory:// --workload read", "known are: commit, claim"},
		{"keys", "bench store --store memory:// --keys sorted", "known are: ordered, random"},
		{"output", "bench store --store memory:// -o yaml", "known are: table, json"},
		{"two outputs", "bench store --store memory:// -o table --json", "contradict"},
		{"reopen", "bench store --store pebble://x --reopen=gently", "known are: clean, crash"},
		{"empty reopen", "bench store --store pebble://x --reopen=", "known are: clean, crash"},
		{"reopen memory", "bench store --store memory:// --reopen", "--reopen is not possible with a memory: store"},
		{"raw memory", "bench store --store memory:// --raw", "--raw is not possible with a memory: store"},
		{"rounds", "bench store --store memory:// --rounds 2", "it needs --raw"},
		{"consumed", "bench store --store memory:// --consumed 2", "for the workload claim"},
		{"version", "version now", "takes no arguments"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := invoke(t, strings.Fields(tt.args)...)
			if code != ExitUsage {
				t.Errorf("exit code %d, want %d", code, ExitUsage)
			}
			if stdout != "" {
				t.Errorf("standard output is %q", stdout)
			}
			first, rest, _ := strings.Cut(stderr, "\n")
			if !strings.HasPrefix(first, "abide: ") || !strings.Contains(first, tt.want) {
				t.Errorf("the first line is %q, want %q in it", first, tt.want)
			}
			if !strings.HasPrefix(rest, "See 'abide") || strings.Count(rest, "\n") != 1 {
				t.Errorf("what follows is %q", rest)
			}
		})
	}
}

func TestGroupsShowTheirHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"bench"}, {"bench", "store", "--help"}} {
		code, stdout, stderr := invoke(t, args...)
		if code != ExitOK || stderr != "" || !strings.Contains(stdout, "Usage:") {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestHelpDoesNotShowThePassword(t *testing.T) {
	t.Setenv(connect.EnvStore, "postgres://user:secret@host/db")
	if _, stdout, _ := invoke(t, "bench", "store", "--help"); strings.Contains(stdout, "secret") {
		t.Error("the help shows ABIDE_STORE")
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if code, stdout, _ := invoke(t, "version"); code != ExitOK || !strings.HasPrefix(stdout, "abide ") {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	if code, stdout, _ := invoke(t, "version", "-o", "json"); code != ExitOK || !strings.HasPrefix(stdout, `{"version":`) {
		t.Errorf("exit code %d, %q", code, stdout)
	}
}
