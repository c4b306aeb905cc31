//go:build unix

package target_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/internal/check"
)

// report is what the helper of that name prints: all that a command knows.
type report struct {
	Args []string
	Env  []string
	Dir  string
}

func init() {
	helpers["report"] = func() error {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(report{os.Args[1:], os.Environ(), dir})
	}
}

// self is the program that this is.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	return ok(t, path, err)
}

// reporting is a command that reports, with arguments.
func reporting(t *testing.T, change func(*target.CommandConfig), args ...string) *target.Command {
	t.Helper()
	cfg := target.CommandConfig{Argv: append([]string{self(t)}, args...), Inherit: []string{}}
	if change != nil {
		change(&cfg)
	}
	cfg.Env = append(cfg.Env, helper+"=report", quick)
	c, err := target.NewCommand(cfg)
	return ok(t, c, err)
}

func reported(t *testing.T, c *target.Command, r action.Run) report {
	t.Helper()
	out, err := c.Run(t.Context(), r)
	if err != nil {
		t.Fatalf("%v: %s", err, out.Output)
	}
	var got report
	if err := json.Unmarshal([]byte(out.Output), &got); err != nil {
		t.Fatalf("%v: %s", err, out.Output)
	}
	return got
}

// script is a command that a shell runs: the shell is the program here, and gets the name
// of a file.
func script(t *testing.T, text string, change func(*target.CommandConfig)) *target.Command {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.sh")
	check.OK(t, os.WriteFile(path, []byte(text), 0o600))
	cfg := target.CommandConfig{Argv: []string{"/bin/sh", path, "{slug}"}}
	if change != nil {
		change(&cfg)
	}
	c, err := target.NewCommand(cfg)
	return ok(t, c, err)
}

func TestArguments(t *testing.T) {
	t.Parallel()
	odd := []string{"a b", `"quoted" 'twice'`, "two\nlines", "$HOME `id` $(id); rm -rf * | cat > x & \\", "", "{{}}", "-é\t"}
	r := scheduled("")
	r.Action.ID, r.Action.Tenant, r.Action.Attempt = `i "$d`, "the tenant; true", 3
	got := reported(t, reporting(t, nil, append(odd, "--for", "{slug}", "--{id}", "x{tenant}{attempt}")...), r)
	odd[5] = "{}"
	want := slices.Concat(odd, []string{"--for", "billing", `--i "$d`, "xthe tenant; true3"})
	check.Equal(t, "the arguments", got.Args, want)
}

// TestOptions: a client that may name an action must not be able to give options to a command.
func TestOptions(t *testing.T) {
	t.Parallel()
	c := reporting(t, nil, "{slug}", "{id}", "x{tenant}")
	for name, change := range map[string]func(a *action.Action){
		"slug":            func(a *action.Action) { a.Slug = "--force" },
		"slug, a path":    func(a *action.Action) { a.Slug = "../x" },
		"slug, no text":   func(a *action.Action) { a.Slug = "" },
		"id":              func(a *action.Action) { a.ID = "-rf" },
		"id, only a dash": func(a *action.Action) { a.ID = "-" },
	} {
		r := scheduled("")
		change(&r.Action)
		out, err := c.Run(t.Context(), r)
		if !errors.Is(err, action.ErrInvalid) || out.Output != "" {
			t.Errorf("%s: it was run: %v, %s", name, err, out.Output)
		}
	}
	r := scheduled("")
	r.Action.Tenant = "-t" // it stands within the argument
	check.Equal(t, "the last argument", reported(t, c, r).Args[2], "x-t")
}

// TestEnvironment: there is what is allowed, and nothing else.
func TestEnvironment(t *testing.T) {
	t.Setenv("TARGET_TEST_SECRET", "hunter2")
	t.Setenv("TARGET_TEST_ALLOWED", "yes")
	t.Setenv("TARGET_TEST_SET", "by the process")
	where, err := filepath.EvalSymlinks(t.TempDir())
	c := reporting(t, func(c *target.CommandConfig) {
		c.Dir = ok(t, where, err)
		c.Inherit = []string{"TARGET_TEST_ALLOWED", "TARGET_TEST_SET", "TARGET_TEST_ABSENT"}
		c.Env = []string{"TARGET_TEST_SET=by = hand", "EMPTY="}
	})
	fixed := []string{helper + "=report", quick, "EMPTY=", "TARGET_TEST_ALLOWED=yes", "TARGET_TEST_SET=by = hand"}

	r := scheduled("")
	r.Action.Schedule, r.Action.RunAt, r.Action.Attempt = "nightly é", time.Date(2026, 3, 1, 2, 30, 0, 5e6, time.UTC), 2
	hook := webhook("x", map[string]string{"X-Event": `<push> "a"`, "X-Bytes": "a\x00\xffb"})
	for _, kind := range []struct {
		run  action.Run
		want []string
	}{
		{r, []string{"ABIDE_ATTEMPT=2", "ABIDE_HEADERS={}", "ABIDE_RUN_AT=2026-03-01T02:30:00.005Z", "ABIDE_SCHEDULE=nightly é", "ABIDE_TRIGGER=scheduled"}},
		{hook, []string{"ABIDE_ATTEMPT=1", `ABIDE_HEADERS={"X-Bytes":"a\u0000\ufffdb","X-Event":"<push> \"a\""}`, "ABIDE_RUN_AT=", "ABIDE_SCHEDULE=", "ABIDE_TRIGGER=webhook"}},
	} {
		want := slices.Concat(fixed, kind.want, []string{"ABIDE_ACTION_ID=0190-1", "ABIDE_SLUG=billing", "ABIDE_TENANT=acme"})
		got := reported(t, c, kind.run)
		slices.Sort(want)
		slices.Sort(got.Env)
		if !slices.Equal(got.Env, want) {
			t.Errorf("the environment is\n%q, want\n%q", got.Env, want)
		}
		check.Equal(t, "the directory", got.Dir, where)
	}

	t.Setenv("HOME", "/home/of/test")
	usual := reporting(t, func(c *target.CommandConfig) { c.Inherit = nil })
	env := reported(t, usual, r).Env
	if !slices.Contains(env, "HOME=/home/of/test") || slices.Contains(env, "TARGET_TEST_SECRET=hunter2") {
		t.Errorf("the usual environment is %q", env)
	}
}

// TestInput: the body of a webhook arrives byte for byte.
func TestInput(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	long := strings.Repeat(string(all), target.Keep/len(all)) // more than a pipe takes at once
	cat := script(t, "exec cat", nil)
	for name, c := range map[string]struct {
		run  action.Run
		want string
	}{
		"webhook":               {webhook(string(all), nil), string(all)},
		"webhook, long":         {webhook(long, nil), long},
		"webhook without body":  {webhook("", nil), ""},
		"scheduled":             {scheduled(`{"a": 1}`), `{"a": 1}`},
		"scheduled, no payload": {scheduled(""), ""},
	} {
		if out, err := cat.Run(t.Context(), c.run); err != nil || out.Output != c.want {
			t.Errorf("%s: %d bytes arrive, and not those that were sent: %v", name, len(out.Output), err)
		}
	}
}

// TestUnreadInput: a command need not read its input, and the
// writer does not wait for its end.
func TestUnreadInput(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", action.MaxBody)
	for text, want := range map[string]int{"exit 0": 0, "exec <&-; echo done": 0, "read -r line; exit 3": 3} {
		out, err := script(t, text, nil).Run(t.Context(), webhook(body, nil))
		if out.ExitCode != want || (err == nil) != (want == 0) {
			t.Errorf("%q: the exit code is %d, %v", text, out.ExitCode, err)
		}
	}
}

func TestExitCode(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		code int
		says string
	}{
		"echo fine":               {0, ""},
		"echo bad; exit 3":        {3, "target: run /bin/sh: it exited with 3"},
		"exit 255":                {255, "it exited with 255"},
		"echo x; kill -KILL $$":   {137, "target: run /bin/sh: it was killed by SIGKILL"},
		"kill -TERM $$; sleep 10": {143, "it was killed by SIGTERM"},
	} {
		out, err := script(t, text, nil).Run(t.Context(), scheduled(""))
		check.Equal(t, "the exit code of "+text, out.ExitCode, c.code)
		if c.says != "" {
			fails(t, err, c.says)
		} else if err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestOutput: both streams are there, in the order in which they were written.
func TestOutput(t *testing.T) {
	t.Parallel()
	out, err := script(t, "echo one; echo two >&2; printf 'three %s' \"$1\"; exit 1", nil).Run(t.Context(), scheduled(""))
	fails(t, err)
	check.Equal(t, "the output", out.Output, "one\ntwo\nthree billing")
	check.Equal(t, "what was cut", out.Cut, 0)
}

// TestFlood: output without end is read all the same, and costs no memory.
func TestFlood(t *testing.T) {
	t.Parallel()
	const flood = 256 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out, err := script(t, "echo begin; head -c 268435456 /dev/zero; echo; echo end", nil).Run(t.Context(), scheduled(""))
	runtime.ReadMemStats(&after)
	check.OK(t, err)
	check.Equal(t, "the length of the output", len(out.Output), target.Keep)
	check.Equal(t, "what was cut", out.Cut, flood+int64(len("begin\n\nend\n"))-target.Keep)
	if !strings.HasPrefix(out.Output, "begin\n\x00") || !strings.HasSuffix(out.Output, "\x00\nend\n") {
		t.Error("the beginning or the end is not there")
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 { // with what other tests use
		t.Errorf("%d MiB were allocated", used>>20)
	}
}

// TestMissing is not parallel: a program that was just written cannot be run while another
// process, forked meanwhile, holds it open.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		check.OK(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	plain := write("plain", "#!/bin/sh\n", 0o600)
	write("good", "#!/bin/sh\npwd\n", 0o700)
	orphan := write("orphan", "#!/no/such/interpreter\n", 0o700)
	for _, c := range []struct {
		program, dir string
		says         string
		checked      bool // Check finds it too
	}{
		{"no-such-program", "", "target: run no-such-program: there is no program no-such-program in PATH", true},
		{dir + "/absent", "", "the program " + dir + "/absent does not exist", true},
		{"./absent", dir, "the program " + dir + "/absent does not exist", true},
		{plain, "", "the program " + plain + " is not executable", true},
		{dir, "", dir + " is a directory, and not a program", true},
		{orphan, "", "perhaps the interpreter that it names is missing", false},
		{"/bin/sh", dir + "/absent", "the directory " + dir + "/absent does not exist", true},
		{"/bin/sh", plain, plain + " is not a directory", true},
	} {
		command, err := target.NewCommand(target.CommandConfig{Argv: []string{c.program}, Dir: c.dir})
		command = ok(t, command, err)
		out, err := command.Run(t.Context(), scheduled(""))
		fails(t, err, c.says)
		check.Equal(t, "the exit code", out.ExitCode, 0)
		if c.checked {
			fails(t, command.Check(), c.says)
		}
	}
	// One that is there, seen from the directory it runs in.
	good, err := target.NewCommand(target.CommandConfig{Argv: []string{"./good"}, Dir: dir})
	good = ok(t, good, err)
	out, err := good.Run(t.Context(), scheduled(""))
	if err != nil || good.Check() != nil || filepath.Base(strings.TrimSpace(out.Output)) != filepath.Base(dir) {
		t.Errorf("a program in the directory: %q, %v, %v", out.Output, err, good.Check())
	}
}

// TestNotBegun: a run whose context has ended does nothing.
func TestNotBegun(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(action.ErrStopping)
	_, err := script(t, "echo > "+mark, nil).Run(ctx, scheduled(""))
	if _, found := os.Stat(mark); !errors.Is(err, action.ErrStopping) || found == nil {
		t.Errorf("it was run, or the error is %v", err)
	}
}

func TestCommandConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says string
		cfg  target.CommandConfig
	}{
		{"CommandConfig.Argv has no program", target.CommandConfig{}},
		{"CommandConfig.Argv has no program", target.CommandConfig{Argv: []string{"", "x"}}},
		{"CommandConfig.Argv[0] is \"{slug}\"; the program must not have placeholders", target.CommandConfig{Argv: []string{"{slug}"}}},
		{"CommandConfig.Argv[0]", target.CommandConfig{Argv: []string{"/opt/{tenant}/run"}}},
		{"CommandConfig.Argv[2] is \"{service}\", with a placeholder at byte 0 that does not exist; {slug}, {id}", target.CommandConfig{Argv: []string{"sdlc", "--for", "{service}"}}},
		{"CommandConfig.Argv[1] is", target.CommandConfig{Argv: []string{"sdlc", "a\x00b"}}},
		{"CommandConfig.Dir", target.CommandConfig{Argv: []string{"sdlc"}, Dir: "a\x00b"}},
		{"CommandConfig.Env[0] is not allowed; it must look like NAME=VALUE", target.CommandConfig{Argv: []string{"sdlc"}, Env: []string{"hunter2"}}},
		{"CommandConfig.Env[1] is not allowed", target.CommandConfig{Argv: []string{"sdlc"}, Env: []string{"A=b", "=hunter2"}}},
		{"CommandConfig.Env[0] is not allowed", target.CommandConfig{Argv: []string{"sdlc"}, Env: []string{"A=hunter2\x00"}}},
		{"CommandConfig.Env[1] sets A once more", target.CommandConfig{Argv: []string{"sdlc"}, Env: []string{"A=hunter2", "A=hunter2"}}},
		{"CommandConfig.Env[0] sets ABIDE_SLUG, which is not", target.CommandConfig{Argv: []string{"sdlc"}, Env: []string{"ABIDE_SLUG=hunter2"}}},
		{"CommandConfig.Env[0] has 131072 bytes", target.CommandConfig{Argv: []string{"sdlc"}, Env: []string{"A=" + strings.Repeat("x", 128<<10)}}},
		{"CommandConfig.Inherit[0] is \"A=b\"", target.CommandConfig{Argv: []string{"sdlc"}, Inherit: []string{"A=b"}}},
		{"CommandConfig.Inherit[1] is \"\"", target.CommandConfig{Argv: []string{"sdlc"}, Inherit: []string{"A", ""}}},
		{"CommandConfig.Inherit[0] is \"ABIDE_HEADERS\"", target.CommandConfig{Argv: []string{"sdlc"}, Inherit: []string{"ABIDE_HEADERS"}}},
		{"CommandConfig.Grace is -1s; 1ms to 10m0s is allowed", target.CommandConfig{Argv: []string{"sdlc"}, Grace: -time.Second}},
		{"CommandConfig.Grace", target.CommandConfig{Argv: []string{"sdlc"}, Grace: time.Hour}},
	} {
		command, err := target.NewCommand(c.cfg)
		refuses(t, err, c.says)
		if command != nil || (err != nil && strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("there is a command, or a secret in the error: %v", err)
		}
	}
}

// TestShellScriptsHaveNoPlaceholdersOfCallers: an ID is any text, and a shell would run it.
func TestShellScriptsHaveNoPlaceholdersOfCallers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		argv    []string
		allowed bool
	}{
		{[]string{"sh", "-c", "echo {id}"}, false},
		{[]string{"/bin/bash", "-ec", "deploy --for '{tenant}'"}, false},
		{[]string{"bash", "-e", "-c", "echo {id}"}, false},
		{[]string{"sh", "-c", "echo {slug} {attempt}"}, true},
		{[]string{"sh", "-c", `echo "$1"`, "sh", "{id}"}, true},
		{[]string{"deploy", "-c", "{id}"}, true},
		{[]string{"sh", "run.sh", "{id}"}, true},
	} {
		_, err := target.NewCommand(target.CommandConfig{Argv: tt.argv})
		if tt.allowed != (err == nil) || err != nil && !errors.Is(err, action.ErrInvalid) {
			t.Errorf("%q: %v", tt.argv, err)
		}
	}
}
