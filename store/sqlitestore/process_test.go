package sqlitestore

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// Environment variables with which this test starts itself as another process.
const (
	childRole = "ABIDE_CHILD"
	childPath = "ABIDE_CHILD_PATH"
	childName = "ABIDE_CHILD_NAME"
)

// roles are what another process does with the store.
var roles = map[string]func(t *testing.T, s *Store){
	"crew":     crewStore,
	"holder":   holdStore,
	"halfway":  stopHalfway,
	"excluder": excludeStore,
}

// TestChildProcess is not a test: it is what the other process does.
func TestChildProcess(t *testing.T) {
	role := os.Getenv(childRole)
	if role == "" {
		return // it was not started
	}
	s, err := Open(t.Context(), os.Getenv(childPath), Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("open")
	if run := roles[role]; run != nil {
		run(t, s)
	}
}

// child is another process that has a store open.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	stdin io.WriteCloser
}

// startChild starts another process, and returns when it has the store open.
func startChild(t *testing.T, role, path string, env ...string) *child {
	t.Helper()
	c := launchChild(t, role, path, env...)
	c.expect(t, "open")
	return c
}

// launchChild starts another process.
func launchChild(t *testing.T, role, path string, env ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestChildProcess$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), append(env, childRole+"="+role, childPath+"="+path)...)
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

// kill kills the process, and returns what it had said before.
func (c *child) kill(t *testing.T) (lines []string) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for c.lines.Scan() {
		lines = append(lines, c.lines.Text())
	}
	_ = c.cmd.Wait() // it was killed
	return lines
}

// end lets the process end by itself.
func (c *child) end(t *testing.T) {
	t.Helper()
	if err := c.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	for c.lines.Scan() {
		if text := c.lines.Text(); strings.Contains(text, "FAIL") || strings.Contains(text, "panic") {
			t.Errorf("the other process says %q", text)
		}
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "abide.db") }

// openAt opens a store with the clock of the machine, and closes it with the test.
func openAt(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func verifies(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Verify(t.Context(), func(problem string) { t.Errorf("verify: %s", problem) }); err != nil {
		t.Fatal(err)
	}
}

// holdStore commits for each line of its input, and ends with it.
func holdStore(t *testing.T, s *Store) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{
			Record: store.Record{Key: store.RecordKey{Kind: "order", ID: in.Text()}}, Expect: store.AnyVersion,
		}}}); err != nil {
			t.Fatal(err)
		}
		fmt.Println("committed")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestWaitersSeeWhatOtherProcessesCommit: an Await call here returns soon after a
// commit of another process.
func TestWaitersSeeWhatOtherProcessesCommit(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openAt(t, path)
	c := startChild(t, "holder", path)
	for _, id := range []string{"a", "b"} {
		done := make(chan error, 1)
		go func() {
			_, err := s.Await(t.Context(), store.RecordKey{Kind: "order", ID: id}, 0)
			done <- err
		}()
		if _, err := fmt.Fprintln(c.stdin, id); err != nil {
			t.Fatal(err)
		}
		c.expect(t, "committed")
		began := time.Now()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		// The core looks by itself only every 10 seconds.
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v to see a commit of another process", took)
		}
	}
	c.end(t)
}

// excludeStore keeps other processes out until its input ends.
func excludeStore(t *testing.T, s *Store) {
	if _, err := s.Exclude(t.Context()); err != nil {
		t.Fatal(err)
	}
	fmt.Println("excluded")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// stopHalfway is killed in the middle of a transaction that has written a lot.
func stopHalfway(t *testing.T, s *Store) {
	_ = s.transact(t.Context(), "test", true, func(w *writer) (bool, error) {
		for i := range 5000 {
			if err := w.exec(`INSERT INTO records (kind, tenant, id, version, status, name, time, tags, body) VALUES ('half', '', ?, 1, '', '', 0, NULL, zeroblob(20000))`,
				fmt.Sprint(i)); err != nil {
				return false, err
			}
		}
		fmt.Println("halfway")
		select {} // until it is killed
	})
}
