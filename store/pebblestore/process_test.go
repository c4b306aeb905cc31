package pebblestore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// Environment variables with which this test starts itself as another process.
const (
	childRole = "ABIDE_CHILD"
	childDir  = "ABIDE_CHILD_DIR"
)

// TestChildProcess is not a test: it is what the other process does.
func TestChildProcess(t *testing.T) {
	role := os.Getenv(childRole)
	if role == "" {
		return // it was not started
	}
	s, err := Open(t.Context(), os.Getenv(childDir), Options{Logger: quiet(), tune: busy})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("open")
	switch role {
	case "holder":
		holdStore(t, s)
	case "claimer":
		claimAndDie(t, s)
	}
}

// child is another process that has a store open.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	stdin io.WriteCloser
}

// startChild starts another process, and returns when it has the store open.
func startChild(t *testing.T, role, dir string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestChildProcess$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), childRole+"="+role, childDir+"="+dir)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, lines: bufio.NewScanner(stdout)}
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.expect(t, "open")
	return c
}

func (c *child) expect(t *testing.T, want string) {
	t.Helper()
	if !c.lines.Scan() {
		t.Fatalf("the other process ended, and should have said %q: %v", want, c.cmd.Wait())
	}
	if got := c.lines.Text(); got != want {
		t.Fatalf("the other process says %q, want %q", got, want)
	}
}

// holdStore commits for each line of its input, and ends with it.
func holdStore(t *testing.T, s *Store) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{
			Record: store.Record{Key: store.RecordKey{Kind: kind, ID: in.Text()}}, Expect: store.AnyVersion,
		}}}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("committed")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOneProcessOwnsTheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := startChild(t, "holder", dir)
	for i := range 3 {
		if _, err := Open(t.Context(), dir, Options{Logger: quiet()}); !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), "another process") {
			t.Fatalf("open while another process has it: %v, want %v", err, store.ErrInUse)
		}
		if _, err := fmt.Fprintf(c.stdin, "record-%d\n", i); err != nil {
			t.Fatal(err)
		}
		c.expect(t, "committed")
	}
	if err := c.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	c.expect(t, "PASS")
	if err := c.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), dir, Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := countRecords(t.Context(), s); n != 3 || err != nil {
		t.Errorf("%d records are there, want 3: %v", n, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOneStoreOfAProcessOwnsTheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), dir, Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, dir + "/", filepath.Dir(dir) + "/./" + filepath.Base(dir), link} {
		if _, err := Open(t.Context(), path, Options{Logger: quiet()}); !errors.Is(err, store.ErrInUse) {
			t.Errorf("open %s, which is open: %v, want %v", path, err, store.ErrInUse)
		}
	}
	if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{message(1, 1, time.Time{})}}); err != nil {
		t.Errorf("commit to the store that is open: %v", err)
	}
	// What was refused has not given the lock away, either.
	startRefused(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(t.Context(), link, Options{Logger: quiet()}); err != nil {
		t.Fatalf("open it again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// startRefused starts another process that must not get the store.
func startRefused(t *testing.T, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestChildProcess$")
	cmd.Env = append(os.Environ(), childRole+"=holder", childDir+"="+dir)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), store.ErrInUse.Error()) {
		t.Errorf("another process got the store that is open here: %s", out)
	}
}

// claimAndDie claims a message, tells how often that has happened, and is killed.
func claimAndDie(t *testing.T, s *Store) {
	claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "turns", Routes: []string{"serve"}, Max: 1, Lease: time.Hour})
	if err != nil || len(claims) != 1 {
		t.Fatalf("claimed %v, %v", claims, err)
	}
	fmt.Println("attempt", claims[0].Attempt())
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	select {} // it does not take long
}

func TestAttemptsOutliveKilledProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(t.Context(), dir, Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), &store.Tx{Put: []store.Message{message(0, 0, time.Time{})}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for attempt := range 5 {
		c := startChild(t, "claimer", dir)
		c.expect(t, "attempt "+strconv.Itoa(attempt+1))
		if err := c.cmd.Wait(); err == nil {
			t.Fatal("the other process was not killed")
		}
	}
}

func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	storetest.RunKilled(t, func() string { return t.TempDir() }, func(ctx context.Context, dir string) (store.Store, error) {
		return Open(ctx, dir, Options{Logger: quiet(), tune: busy})
	})
}
