package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/abidehq/abide/internal/cli/connect"

	"github.com/spf13/cobra"

	"github.com/abidehq/abide/server/api"
)

// inNewStore changes to an empty folder and makes a store there that holds one instance.
func inNewStore(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range []string{connect.EnvStore, connect.EnvServer, connect.EnvToken, connect.EnvTokenFile} {
		t.Setenv(name, "")
	}
	if code, _, stderr := invoke(t, "instances", "start", "order", "--id", "x", "--unchecked"); code != ExitOK {
		t.Fatal(stderr)
	}
}

// What makes no sense is said before anything is done, and names what is allowed.
func TestMistakesAboutNouns(t *testing.T) {
	inNewStore(t)
	for _, tt := range []struct {
		line string // arguments, with a | between them
		want string
	}{
		{"instances|dance", "known are: cancel, correct, delete, fork, history, list, move-timer, raise, restart, result, resume, rewind, show, start, suspend, terminate, wait"},
		{"instances|start", "needs the name of an orchestration"},
		{"instances|start|order|--input|text", "--input is not JSON"},
		{"instances|start|order|--input|@missing", "missing"},
		{"instances|start|order|--input|@/dev/null", "which is empty"},
		{"instances|start|order|--tag|x", "it looks like name=value"},
		{"instances|start|order|--at|now|--in|1h", "exclude each other"},
		{"instances|start|order|--in|-1h", "negative"},
		{"instances|start|order|--at|soon", "is not a time"},
		{"instances|start|a b|--on-exists|maybe", "allowed are: existing, reject, replace"},
		{"instances|list|--status|done", `unknown status "done"; known are: pending, running, suspended, stalled, completed, failed, cancelled, terminated`},
		{"instances|list|--tag|=x", "it has no name; it looks like name=value"},
		{"instances|list|--tag|a:b=c", "write a%3Ab=c if the : is part of the name, and a=b=c if the = is part of the value"},
		{"instances|list|--from|later", "is not a time"},
		{"instances|list|--tenant|a|--all-tenants", "exclude each other"},
		{"instances|list|--limit|0", "1 or more is allowed"},
		{"instances|list|x", "takes no arguments"},
		{"instances|show", "needs the ID of an instance"},
		{"instances|show|x|--events|-1", "--events is -1"},
		{"instances|history|x|--execution|-1", "--execution is -1"},
		{"instances|raise|x", "needs the ID of an instance and the name of an event"},
		{"instances|raise|x|e|--data|{", "--data is not JSON"},
		{"instances|raise|x|e|--keep-for|-1s", "negative"},
		{"instances|wait", "needs the IDs of instances"},
		{"instances|cancel", "needs the IDs of instances, or --all"},
		{"instances|cancel|x|--all", "takes IDs or --all, not both"},
		{"instances|cancel|x|--status|running", "--status is a filter, which needs --all"},
		{"instances|cancel|--all|--status|done|--yes", "known are: pending"},
		{"instances|fork|x", "--event is 0"},
		{"instances|move-timer|x", "needs the ID of an instance and the name of a timer"},
		{"instances|move-timer|x|t|--at|now|--in|1h", "exclude each other"},
		{"timers|schedule|k", "--at or --in is needed"},
		{"timers|schedule", "needs the key of a timer"},
		{"timers|list|--status|done", "known are: armed, fired, cancelled"},
		{"timers|import|a|b", "takes one argument at most"},
		{"timers|import|--format|xml", "allowed are: csv, jsonl"},
		{"quarantine|redrive|x|--all", "takes IDs or --all, not both"},
		{"operations|list|--status|done", "known are: pending, running, completed, cancelled, failed"},
		{"operations|list|--kind|dance", "known are: cancel, terminate, suspend, resume, restart, rewind, delete"},
		{"operations|show", "needs the ID of an operation"},
		{"operations|cancel|x|--tenant|a|--all-tenants", "exclude each other"},
		{"tokens|create", "needs a name for the token"},
		{"tokens|create|x|--role|admin|--expires|soon", "is not a time"},
		{"audit|list|--from|soon", "is not a time"},
		{"top|--interval|1ms", "100ms or more is allowed"},
		{"stats|--server|http://x|--db|y", "exclude each other"},
		{"stats|--server|http://127.0.0.1:1|--cert|x", "--cert and --key are needed together"},
		{"stats|--server|https://127.0.0.1:1|--ca|missing", "--ca: open missing"},
		{"stats|--server|https://127.0.0.1:1|--ca|/dev/null", "has no certificate"},
		{"stats|--server|127.0.0.1:7171", "address"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			code, stdout, stderr := invoke(t, strings.Split(tt.line, "|")...)
			if code != ExitUsage || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %q", code, stdout, stderr, tt.want)
			}
		})
	}
}

// An operation is named by its ID and its tenant, or is one about all tenants.
func TestOperationsAreNamedByTenant(t *testing.T) {
	inNewStore(t)
	scopes := [][]string{nil, {"--tenant", "acme"}, {"--all-tenants"}}
	for i, scope := range scopes {
		code, stdout, stderr := invoke(t, append([]string{"instances", "suspend", "--all", "--yes", "--no-wait", "-o", "json"}, scope...)...)
		var made api.Operation
		if err := json.Unmarshal([]byte(stdout), &made); code != ExitOK || err != nil {
			t.Fatal(code, stderr, err)
		}
		for j, scope := range scopes {
			for _, verb := range []string{"show", "watch", "cancel"} {
				want := ExitNotFound
				if i == j && verb != "cancel" {
					want = ExitOK
				} else if i == j {
					want = ExitConflict // it has completed
				}
				if code, _, stderr := invoke(t, append([]string{"operations", verb, made.ID}, scope...)...); code != want {
					t.Errorf("%s of the operation with %v, with %v: exit code %d, want %d: %s", verb, scopes[i], scope, code, want, stderr)
				}
			}
		}
	}
}

// Each command says what it does, with an example where it takes something, and those that
// read or change what is in a store have the same flags for where that is.
func TestCommandsHaveHelp(t *testing.T) {
	t.Parallel()
	root := newRoot()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		path := cmd.CommandPath()
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: what it does in short is %q", path, cmd.Short)
		}
		for line := range strings.Lines(cmd.Long) {
			if len([]rune(line)) > 101 {
				t.Errorf("%s: a line of its help has %d characters: %s", path, len([]rune(line)), line)
			}
		}
		if strings.Contains(cmd.Example, "abide") && !strings.Contains(cmd.Example, "  "+path) && !strings.Contains(cmd.Example, "| "+path) {
			t.Errorf("%s: the example is of another command: %s", path, cmd.Example)
		}
		if f := cmd.Flags(); f.Lookup("server") != nil && (f.Lookup("db") == nil || f.Lookup("output") == nil || f.Lookup("ca") == nil || cmd.Example == "") {
			t.Errorf("%s has --server, and not all that belongs to it", path)
		}
	}
	walk(root)
	for path := range completeArgs {
		if cmd, _, err := root.Find(strings.Fields(path)); err != nil || cmd.ValidArgsFunction == nil {
			t.Errorf("%s has no completion: %v", path, err)
		}
	}
}
