package rig

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/abidehq/abide/internal/check"
)

// childDir is the environment variable that makes the test binary a child: its directory.
const childDir = "ABIDE_TEST_CHILD_DIR"

// Child is the test binary in a process of its own. It runs TestCrashChild of its package,
// which is no test: it does its work until it is killed, and tells of it on its standard
// output.
type Child struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// StartChild starts a child that works in a directory, with more environment variables.
func StartChild(t *testing.T, dir string, env ...string) *Child {
	t.Helper()
	self, err := os.Executable()
	check.OK(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestCrashChild$", "-test.timeout=2m")
	cmd.Env = append(append(os.Environ(), childDir+"="+dir), env...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	check.OK(t, err)
	_, err = cmd.StdinPipe()
	check.OK(t, err)
	check.OK(t, cmd.Start())
	return &Child{t: t, cmd: cmd, lines: bufio.NewScanner(stdout)}
}

// Line returns the next line that the child says, and whether there is one.
func (c *Child) Line() (string, bool) {
	ok := c.lines.Scan()
	return c.lines.Text(), ok
}

// Kill kills the child. What it has said before can still be read.
func (c *Child) Kill() { _ = c.cmd.Process.Kill() } // it may be gone

// Wait waits for the end of a child that was killed.
func (c *Child) Wait() {
	c.t.Helper()
	if err := c.cmd.Wait(); err == nil {
		c.t.Error("the child has come to an end by itself")
	}
}

// ReadAndKill hands each line that the child says to read, kills it after so many lines, and
// waits for its end.
func (c *Child) ReadAndKill(lines int, read func(line string)) {
	c.t.Helper()
	for line, ok := c.Line(); ok; line, ok = c.Line() {
		read(line)
		if lines--; lines == 0 {
			c.Kill()
		}
	}
	c.Wait()
}

// InChild returns the directory of a child, and whether this process is one. It then ends
// with the process that has started it.
func InChild() (dir string, ok bool) {
	dir = os.Getenv(childDir)
	if dir == "" {
		return "", false
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	return dir, true
}
