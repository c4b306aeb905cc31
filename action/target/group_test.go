//go:build unix

package target_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/action/target"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store/memstore"
)

func init() {
	// It starts a process that leaves the group and keeps the output open.
	helpers["escape"] = func() error {
		c := exec.Command("/bin/sh", "-c", "echo $$; exec sleep 60")
		c.Stdout, c.Stderr, c.SysProcAttr = os.Stdout, os.Stderr, &syscall.SysProcAttr{Setsid: true}
		return c.Start()
	}
}

// linger has a script stay for half a minute. It looks for traps all the time: a shell
// that waits for one long sleep may miss a signal that comes just before.
const linger = "n=0; while [ $n -lt 600 ]; do sleep 0.05; n=$((n+1)); done"

// pipe is a file to which a command writes a line for the test to wait for.
func pipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	check.OK(t, syscall.Mkfifo(path, 0o600))
	return path
}

// said waits for a line, which is a number.
func said(t *testing.T, pipe string) int {
	t.Helper()
	text := make(chan []byte)
	go func() {
		data, _ := os.ReadFile(pipe)
		text <- data
	}()
	select {
	case data := <-text:
		n, err := strconv.Atoi(string(bytes.TrimSpace(data)))
		return ok(t, n, err)
	case <-time.After(20 * time.Second):
		t.Fatal("the command never said anything")
		return 0
	}
}

// groupIsGone waits until no process of a group is left. Those that were killed and that
// nobody has taken note of yet do not count.
func groupIsGone(t *testing.T, group int) {
	t.Helper()
	check.Eventually(t, fmt.Sprintf("group %d is gone", group), func() bool {
		if errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) {
			return true
		}
		out, err := exec.Command("ps", "-e", "-o", "pgid=,stat=").Output()
		if err != nil {
			return false
		}
		for line := range strings.Lines(string(out)) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == strconv.Itoa(group) && f[1][0] != 'Z' {
				return false
			}
		}
		return true
	})
}

// result is what a run returned.
type result struct {
	out action.Outcome
	err error
}

// inBackground runs a command, and returns how to end its context.
func inBackground(t *testing.T, c *target.Command) (<-chan result, context.CancelCauseFunc) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan result, 1)
	go func() {
		out, err := c.Run(ctx, scheduled(""))
		done <- result{out, err}
	}()
	return done, cancel
}

func within(t *testing.T, done <-chan result) result {
	t.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(20 * time.Second):
		t.Fatal("the run does not return")
		return result{}
	}
}

// TestTerminate: a command is told to end, and what it does then counts, but not as
// success.
func TestTerminate(t *testing.T) {
	t.Parallel()
	ready := pipe(t)
	c := script(t, "trap 'echo bye; exit 0' TERM; echo $$ > "+ready+"; "+linger, nil)
	done, cancel := inBackground(t, c)
	group := said(t, ready)
	cancel(action.ErrCancelled)
	r := within(t, done)
	fails(t, r.err, "cancelled: it exited with 0")
	check.Error(t, r.err, action.ErrCancelled)
	if !strings.HasSuffix(r.out.Output, "bye\n") { // a shell may say before that its child is no more
		t.Errorf("the output is %q", r.out.Output)
	}
	groupIsGone(t, group)
}

// TestHang: a command that does not listen is killed, with all that it has started, after
// the grace and not before.
func TestHang(t *testing.T) {
	t.Parallel()
	ready, told := pipe(t), pipe(t)
	clock := base.NewManual(time.Unix(0, 0))
	c := script(t, `
		(trap '' TERM; exec sleep 60) &
		trap "echo 1 > `+told+`" TERM
		echo $$ > `+ready+`
		`+linger, func(c *target.CommandConfig) { c.Grace, c.Clock = time.Minute, clock })
	done, cancel := inBackground(t, c)
	group := said(t, ready)
	cancel(fmt.Errorf("%w after 1s", action.ErrTimeout))
	said(t, told)
	if err := syscall.Kill(group, 0); err != nil || len(done) > 0 {
		t.Fatalf("it was killed before its time: %v", err)
	}
	check.Eventually(t, "the command is killed", func() bool {
		clock.Advance(time.Minute)
		return len(done) > 0
	})
	r := within(t, done)
	fails(t, r.err, "timed out after 1s: it was killed by SIGKILL")
	check.Equal(t, "the exit code", r.out.ExitCode, 137)
	groupIsGone(t, group)
}

// TestTerminateGroup: all of the group is told to end, not only the command.
func TestTerminateGroup(t *testing.T) {
	t.Parallel()
	ready := pipe(t)
	c := script(t, "trap 'wait; exit 1' TERM; (trap 'echo child; exit' TERM; echo $$ > "+ready+"; "+linger+") & wait", nil)
	done, cancel := inBackground(t, c)
	group := said(t, ready)
	cancel(action.ErrStopping)
	r := within(t, done)
	if !strings.HasSuffix(r.out.Output, "child\n") {
		t.Errorf("the output is %q", r.out.Output)
	}
	groupIsGone(t, group)
}

// TestLeftBehind: what a command leaves behind does not keep it from being over, and is
// killed.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"holding the output": "(trap '' TERM; exec sleep 60) & echo $$",
		"holding nothing":    "(trap '' TERM; exec sleep 60) >/dev/null 2>&1 & echo $$",
		"writing later":      "(sleep 0.05; echo later) & echo $$",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			grace := 100 * time.Millisecond
			if name != "holding the output" {
				grace = target.MaxGrace // it must not take that long
			}
			done, _ := inBackground(t, script(t, text, func(c *target.CommandConfig) { c.Grace = grace }))
			r := within(t, done)
			if r.err != nil {
				t.Fatal(r.err)
			}
			first, rest, _ := strings.Cut(r.out.Output, "\n")
			group, err := strconv.Atoi(first)
			groupIsGone(t, ok(t, group, err))
			if name == "writing later" {
				check.Equal(t, "the rest of the output", rest, "later\n")
			}
		})
	}
}

// TestEscaped: a process that has left the group is not killed, and holds nobody up.
func TestEscaped(t *testing.T) {
	t.Parallel()
	c, err := target.NewCommand(target.CommandConfig{
		Argv: []string{self(t)}, Env: []string{helper + "=escape", quick}, Grace: 500 * time.Millisecond,
	})
	done, _ := inBackground(t, ok(t, c, err))
	r := within(t, done)
	if r.err != nil {
		t.Fatal(r.err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(r.out.Output))
	ok(t, pid, err)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the process that has left the group is not there: %v", err)
	}
}

// TestServiceCommand: an action whose command takes too long has failed, and says why.
func TestServiceCommand(t *testing.T) {
	t.Parallel()
	m := memstore.New(memstore.Options{})
	defer m.Close()
	hang := script(t, "trap '' TERM; echo $$; exec sleep 60", func(c *target.CommandConfig) { c.Grace = 50 * time.Millisecond })
	s, stop := serve(t, m, action.MinRate, action.Definition{Target: hang, Timeout: 300 * time.Millisecond})
	defer stop()
	a, _, err := s.Add(t.Context(), action.Request{Tenant: "acme", Slug: "billing", Target: "t"})
	check.OK(t, err)
	check.Eventually(t, "the action has ended", func() bool {
		a, err = s.Get(t.Context(), "acme", a.ID)
		return err == nil && a.Status.Ended()
	})
	check.Equal(t, "the status", a.Status, action.Failed)
	check.Equal(t, "the reason", a.Reason, "target: run /bin/sh: timed out after 300ms: it was killed by SIGKILL")
	check.Equal(t, "the exit code", a.Outcome.ExitCode, 137)
	first, _, _ := strings.Cut(a.Outcome.Output, "\n")
	group, err := strconv.Atoi(first)
	groupIsGone(t, ok(t, group, err))
}
