package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

// On a real terminal it shows the overview, follows keys, and leaves with q.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, _, stderr := invoke(t, "instances", "start", "order", "--id", "order-1", "--unchecked", "--db", dir+"/db"); code != ExitOK {
		t.Fatal(stderr)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "top", "--db", dir+"/db", "--interval", "100ms")
	cmd.Env = append(os.Environ(), asProgram+"=1", "TERM=xterm-256color", connect.EnvServer+"=", "NO_COLOR=")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	screen := &seen{}
	go func() { _, _ = io.Copy(screen, terminal) }()
	screen.waitFor(t, "order-1")
	if _, err := terminal.WriteString("\r"); err != nil {
		t.Fatal(err)
	}
	screen.waitFor(t, "it waits for a process that serves order")
	if _, err := terminal.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v; it has shown %q", err, screen.text())
	}
}

// seen is what was written so far.
type seen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *seen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *seen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ansi.Strip(s.buf.String())
}

func (s *seen) waitFor(t *testing.T, want string) {
	t.Helper()
	for until := time.Now().Add(patient / 2); !strings.Contains(s.text(), want); <-time.After(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%q was not shown, but %q", want, s.text())
		}
	}
}
