package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// killedPlace is the environment variable with which RunKilled starts its test as another
// process.
const killedPlace = "ABIDE_STORETEST_KILLED"

// Opener opens a store at a place: a path, or a URL.
type Opener func(ctx context.Context, place string) (store.Store, error)

// RunKilled kills a process that commits and claims as fast as it can, again and again, and
// looks at what it leaves: all that was acknowledged is there, nothing is there in part,
// nothing was consumed twice, and each attempt was counted. The other process is the test
// itself, once more, so it must do nothing before it calls RunKilled that a second process
// cannot do; place is asked for where the store is to be in the first one alone.
func RunKilled(t *testing.T, place func() string, open Opener) {
	t.Helper()
	if at := os.Getenv(killedPlace); at != "" {
		loadUntilKilled(t, at, open)
		return
	}
	at, kills := place(), 8
	if testenv.Long() {
		kills = 100
	}
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	known := make([]told, loaders)
	for i := range known {
		known[i].attempts = map[string]int{}
	}
	for range kills {
		for _, line := range killAfter(t, at, 1+rnd.IntN(400)) {
			note(t, known, line)
		}
		lookAtLoaders(t, at, open, known)
	}
}

// killAfter starts the other process, kills it when it has told that much, and returns what
// it told.
func killAfter(t *testing.T, place string, n int) (lines []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), killedPlace+"="+place)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for out := bufio.NewScanner(stdout); out.Scan(); {
		if lines = append(lines, out.Text()); len(lines) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		} // and what it had told before it was killed
	}
	if err := cmd.Wait(); len(lines) < n {
		t.Fatalf("the other process ended by itself: %v\n%s", err, strings.Join(lines, "\n"))
	}
	return lines
}

func lookAtLoaders(t *testing.T, place string, open Opener, known []told) {
	t.Helper()
	s, err := open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	for i := range known {
		if err := known[i].check(t.Context(), s, i); err != nil {
			t.Errorf("loader %d, of which %d commits were acknowledged: %v", i, known[i].acked, err)
		}
	}
	if p, ok := s.(store.Portable); ok {
		if err := p.Verify(t.Context(), func(problem string) { t.Errorf("verify: %s", problem) }); err != nil {
			t.Error(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// loaders is how many goroutines of a process commit at once.
const loaders = 16

// loadUntilKilled commits from many goroutines at once, and tells of each commit after it
// was acknowledged. A goroutine has one key: commit n appends entry n to its log, puts
// record version n and message n, and consumes what was claimed before, which the entry
// names.
func loadUntilKilled(t *testing.T, place string, open Opener) {
	t.Helper()
	s, err := open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	var out sync.Mutex
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	var wg sync.WaitGroup
	for i := range loaders {
		wg.Go(func() {
			for {
				if err := loadOnce(t.Context(), s, i, say); err != nil {
					t.Errorf("loader %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func loaderName(i int) string { return "loader-" + strconv.Itoa(i) }

func loaderKey(i int) store.Key {
	return store.Key{Queue: "load", Tenant: "acme", Name: loaderName(i)}
}

func loaderRecord(i int) store.RecordKey {
	return store.RecordKey{Kind: "loader", Tenant: "acme", ID: loaderName(i)}
}

func loadOnce(ctx context.Context, s store.Store, i int, say func(string, ...any)) error {
	page, err := s.ReadLog(ctx, loaderKey(i), 0)
	if err != nil {
		return err
	}
	n := page.Length + 1
	text := strconv.Itoa(n)
	tx := &store.Tx{
		Put:        []store.Message{{Key: loaderKey(i), ID: text, Route: loaderName(i), Body: []byte(text)}},
		PutRecords: []store.PutRecord{{Record: store.Record{Key: loaderRecord(i), Body: []byte(text)}, Expect: int64(n - 1)}},
	}
	entry := []string{text}
	if n%3 == 0 {
		// The lease of a process that was killed ends soon.
		claims, err := s.Claim(ctx, store.ClaimRequest{
			Queue: "load", Routes: []string{loaderName(i)}, Max: 1, MaxMessages: 2, Lease: time.Second, Wait: 2 * time.Second,
		})
		if err != nil {
			return err
		}
		for _, c := range claims {
			tx.Finish = append(tx.Finish, store.Finish{Lease: c.Lease()})
			for _, m := range c.Messages {
				say("claim %d %s %d", i, m.ID, m.Attempt)
				entry = append(entry, m.ID)
			}
		}
	}
	tx.Append = []store.Append{{Key: loaderKey(i), At: n - 1, Entries: [][]byte{[]byte(strings.Join(entry, " "))}}}
	err = s.Commit(ctx, tx)
	if errors.Is(err, store.ErrClaimLost) {
		return nil // the machine was slow, and the lease short
	}
	if err != nil {
		return err
	}
	say("ack %d %d", i, n)
	return nil
}

// told is what killed processes have told of one of their goroutines.
type told struct {
	acked    int            // the last commit that was acknowledged
	attempts map[string]int // of messages, by ID
}

// note notes what a process told. The last line may be cut.
func note(t *testing.T, known []told, line string) {
	t.Helper()
	f := strings.Fields(line)
	if len(f) < 3 {
		return
	}
	i, err := strconv.Atoi(f[1])
	if err != nil || i >= len(known) {
		t.Fatalf("the other process says %q", line)
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
		t.Fatalf("the other process says %q: %v", line, err)
	}
}

// check checks that the log, the record and the messages of a loader agree, that nothing
// acknowledged is missing, and that attempts were counted.
func (k *told) check(ctx context.Context, s store.Store, i int) error {
	n, left, err := k.readLog(ctx, s, i)
	if err != nil {
		return err
	}
	version := int64(0)
	r, err := s.Get(ctx, loaderRecord(i))
	if err == nil {
		version = r.Version
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if version != int64(n) || (n > 0 && string(r.Body) != strconv.Itoa(n)) {
		return fmt.Errorf("the log has %d entries, and the record version %d with %q", n, version, r.Body)
	}
	pending, err := s.Pending(ctx, loaderKey(i), 0)
	if err != nil {
		return err
	}
	for _, m := range pending {
		if !left[m.ID] || string(m.Body) != m.ID {
			return fmt.Errorf("message %s is pending with %q, and was consumed", m.ID, m.Body)
		}
		delete(left, m.ID)
		if want := k.attempts[m.ID]; m.Attempt < want || m.Attempt > want+1 {
			return fmt.Errorf("message %s has %d attempts, and was claimed with %d", m.ID, m.Attempt, want)
		}
		k.attempts[m.ID] = m.Attempt
	}
	if len(left) > 0 {
		return fmt.Errorf("%d messages are neither pending nor consumed: %v", len(left), left)
	}
	k.acked = n
	return nil
}

// readLog returns the length of a loader's log, and the messages that were put and not
// consumed, according to it.
func (k *told) readLog(ctx context.Context, s store.Store, i int) (n int, left map[string]bool, err error) {
	var entries [][]byte
	for {
		page, err := s.ReadLog(ctx, loaderKey(i), len(entries))
		if err != nil {
			return 0, nil, err
		}
		entries = append(entries, page.Entries...)
		if n = page.Length; len(entries) >= n || len(page.Entries) == 0 {
			break
		}
	}
	if n < k.acked || n > k.acked+1 || len(entries) != n {
		return 0, nil, fmt.Errorf("the log has %d entries, and %d can be read", n, len(entries))
	}
	left = map[string]bool{}
	for j := range n {
		left[strconv.Itoa(j+1)] = true
	}
	for j, entry := range entries {
		f := strings.Fields(string(entry))
		if len(f) == 0 || f[0] != strconv.Itoa(j+1) {
			return 0, nil, fmt.Errorf("entry %d is %q", j+1, entry)
		}
		for _, id := range f[1:] {
			if !left[id] {
				return 0, nil, fmt.Errorf("message %s was consumed twice", id)
			}
			delete(left, id)
			delete(k.attempts, id)
		}
	}
	return n, left, nil
}
