package sqlitestore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

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
	return store.RecordKey{Kind: "loader", ID: "loader-" + strconv.Itoa(i)}
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
			Queue: "load", Routes: []string{"loader-" + strconv.Itoa(i)}, Max: 1, MaxMessages: 2, Lease: time.Second, Wait: 2 * time.Second,
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
	err = s.Commit(t.Context(), tx)
	if errors.Is(err, store.ErrClaimLost) {
		return nil // the machine was slow, and the lease short
	}
	if err != nil {
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

// TestKilledProcesses kills a process under load, again and again on the same file, and
// looks at what it leaves.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	kills := 8
	if testenv.Long() {
		kills = 100
	}
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	known := make([]told, loaders)
	for i := range known {
		known[i].attempts = map[string]int{}
	}
	for range kills {
		c := startChild(t, "load", path)
		for range 1 + rnd.IntN(400) {
			if !c.lines.Scan() {
				t.Fatalf("the other process ended: %v", c.cmd.Wait())
			}
			note(t, known, c.lines.Text())
		}
		for _, line := range c.kill(t) {
			note(t, known, line)
		}
		s := openAt(t, path)
		for i := range known {
			if err := checkLoader(t, s, i, &known[i]); err != nil {
				t.Errorf("loader %d, of which %d commits were acknowledged: %v", i, known[i].acked, err)
			}
		}
		verifies(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
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

// checkLoader checks that the log, the record and the messages of a loader agree,
// that nothing acknowledged is missing, and that attempts were counted.
func checkLoader(t *testing.T, s *Store, i int, known *told) error {
	page, err := s.ReadLog(t.Context(), loaderKey(i), 0)
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
	for j, entry := range page.Entries {
		f := strings.Fields(string(entry))
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

// TestKilledInATransaction kills a process that is in the middle of a transaction so
// large that much of it is on disk already.
func TestKilledInATransaction(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openAt(t, path)
	put := func(id string) {
		t.Helper()
		if err := s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "half", ID: id}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	put("before")
	c := startChild(t, "halfway", path)
	c.expect(t, "halfway")
	if n, err := s.Count(t.Context(), store.Query{Kind: "half"}, 10); n != 1 || err != nil {
		t.Errorf("%d records while the other process is halfway, want 1: %v", n, err)
	}
	c.kill(t)
	put("after")
	if n, err := s.Count(t.Context(), store.Query{Kind: "half"}, 10); n != 2 || err != nil {
		t.Errorf("%d records after the other process was killed, want 2: %v", n, err)
	}
	verifies(t, s)
}
