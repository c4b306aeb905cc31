package pebblestore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
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
		return // nobody has started it
	}
	s, err := Open(t.Context(), os.Getenv(childDir), Options{Logger: quiet(), tune: busy})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("open")
	switch role {
	case "holder":
		holdStore(t, s)
	case "load":
		loadStore(t, s)
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

// holdStore commits when it is told to, and ends when nobody tells it anything more.
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

const loaders = 16

// loadStore commits from many goroutines at once, until the process is killed, and
// tells of each commit after it was acknowledged. A goroutine has one key: commit n
// appends entry n to its log, puts record version n and message n, and consumes what
// was claimed before, which the entry names.
func loadStore(t *testing.T, s *Store) {
	var wg sync.WaitGroup
	var out sync.Mutex
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	for i := range loaders {
		wg.Go(func() {
			for {
				if err := loadOnce(t, s, i, say); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func loaderKey(i int) store.Key {
	return store.Key{Queue: "load", Tenant: "acme", Name: "loader-" + strconv.Itoa(i)}
}

func loaderRecord(i int) store.RecordKey {
	return store.RecordKey{Kind: kind, ID: "loader-" + strconv.Itoa(i)}
}

func loadOnce(t *testing.T, s *Store, i int, say func(string, ...any)) error {
	page, err := s.ReadLog(t.Context(), loaderKey(i), 0)
	if err != nil {
		return err
	}
	n := page.Length + 1
	tx := &store.Tx{
		Put: []store.Message{{Key: loaderKey(i), ID: strconv.Itoa(n), Route: "loader-" + strconv.Itoa(i), Body: []byte(strconv.Itoa(n))}},
		PutRecords: []store.PutRecord{{
			Record: store.Record{Key: loaderRecord(i), Body: []byte(strconv.Itoa(n))}, Expect: int64(n - 1),
		}},
	}
	entry := strconv.Itoa(n)
	if n%3 == 0 {
		claims, err := s.Claim(t.Context(), store.ClaimRequest{
			Queue: "load", Routes: []string{"loader-" + strconv.Itoa(i)}, Max: 1, MaxMessages: 2, Lease: time.Hour,
		})
		if err != nil {
			return err
		}
		for _, c := range claims {
			tx.Finish = append(tx.Finish, store.Finish{Lease: c.Lease()})
			for _, m := range c.Messages {
				say("claim %d %s %d", i, m.ID, m.Attempt)
				entry += " " + m.ID
			}
		}
	}
	tx.Append = []store.Append{{Key: loaderKey(i), At: n - 1, Entries: [][]byte{[]byte(entry)}}}
	if err := s.Commit(t.Context(), tx); err != nil {
		return err
	}
	say("ack %d %d", i, n)
	return nil
}

// told is what a killed process has told of one of its goroutines.
type told struct {
	acked    int            // the last commit that was acknowledged
	attempts map[string]int // of messages, by ID
}

// TestKilledProcesses kills a process under load, again and again on the same
// directory, and looks at what it leaves.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kills := 10
	if testenv.Long() {
		kills = 200
	}
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	known := make([]told, loaders)
	for i := range known {
		known[i].attempts = map[string]int{}
	}
	for range kills {
		c := startChild(t, "load", dir)
		for range 1 + rnd.IntN(400) {
			if !c.lines.Scan() {
				t.Fatalf("the other process ended: %v", c.cmd.Wait())
			}
			note(t, known, c.lines.Text())
		}
		if err := c.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for c.lines.Scan() { // what it had told before it was killed
			note(t, known, c.lines.Text())
		}
		_ = c.cmd.Wait() // it was killed
		checkKilled(t, dir, known)
	}
}

// note notes what a process tells. The last line may be cut.
func note(t *testing.T, known []told, line string) {
	t.Helper()
	f := strings.Fields(line)
	if len(f) < 3 {
		return
	}
	i, err := strconv.Atoi(f[1])
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	switch {
	case f[0] == "ack":
		known[i].acked, err = strconv.Atoi(f[2])
	case f[0] == "claim" && len(f) == 4:
		var attempt int
		attempt, err = strconv.Atoi(f[3])
		if before := known[i].attempts[f[2]]; attempt <= before {
			t.Errorf("message %s of loader %d was claimed with attempt %d, and had %d before", f[2], i, attempt, before)
		}
		known[i].attempts[f[2]] = attempt
	}
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
}

// checkKilled opens what a killed process has left, and checks it.
func checkKilled(t *testing.T, dir string, known []told) {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{Logger: quiet(), tune: busy})
	if err != nil {
		t.Fatal(err)
	}
	for i := range known {
		if err := checkLoader(t, s, i, &known[i]); err != nil {
			t.Errorf("loader %d, of which %d commits were acknowledged: %v", i, known[i].acked, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// checkLoader checks that the log, the record and the messages of a loader agree,
// that nothing acknowledged is missing, and that attempts were counted.
func checkLoader(t *testing.T, s *Store, i int, known *told) error {
	entries, page, err := readLog(t.Context(), s, loaderKey(i))
	if err != nil {
		return err
	}
	n := page.Length
	if n < known.acked || n > known.acked+1 {
		return fmt.Errorf("the log has %d entries", n)
	}
	version := int64(0)
	r, err := s.Get(t.Context(), loaderRecord(i))
	if err == nil {
		version = r.Version
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if version != int64(n) || (n > 0 && string(r.Body) != strconv.Itoa(n)) {
		return fmt.Errorf("the log has %d entries, and the record version %d with %q", n, version, r.Body)
	}
	left := map[string]bool{}
	for j := range n {
		left[strconv.Itoa(j+1)] = true
	}
	for j, entry := range entries {
		f := strings.Fields(entry)
		if f[0] != strconv.Itoa(j+1) {
			return fmt.Errorf("entry %d is %q", j+1, entry)
		}
		for _, id := range f[1:] {
			if !left[id] {
				return fmt.Errorf("message %s was consumed twice", id)
			}
			delete(left, id)
			delete(known.attempts, id)
		}
	}
	pending, err := s.Pending(t.Context(), loaderKey(i), 0)
	if err != nil {
		return err
	}
	for _, m := range pending {
		if !left[m.ID] || string(m.Body) != m.ID {
			return fmt.Errorf("message %s is pending with %q, and was consumed", m.ID, m.Body)
		}
		delete(left, m.ID)
		if want := known.attempts[m.ID]; m.Attempt < want || m.Attempt > want+1 {
			return fmt.Errorf("message %s has %d attempts, and was claimed with %d", m.ID, m.Attempt, want)
		}
		known.attempts[m.ID] = m.Attempt
	}
	if len(left) > 0 {
		return fmt.Errorf("%d messages are neither pending nor consumed: %v", len(left), left)
	}
	known.acked = n
	return nil
}
