package sqlitestore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// A crew is several processes that work on the same queue. Each claims keys, and for each
// claim commits an entry that names the messages and puts the next message, until a key
// has done its rounds.

const (
	crewKeys   = 60
	crewRounds = 8
)

func crewKey(i int) store.Key {
	return store.Key{Queue: "crew", Tenant: "tenant-" + strconv.Itoa(i%5), Name: "key-" + strconv.Itoa(i)}
}

// crewStore works until nothing is left.
func crewStore(t *testing.T, s *Store) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				claims, err := s.Claim(t.Context(), store.ClaimRequest{
					Queue: "crew", Routes: []string{"crew"}, Max: 3, Lease: 30 * time.Second, Wait: 2 * time.Second,
				})
				if err != nil {
					t.Error(err)
					return
				}
				if len(claims) == 0 {
					return
				}
				for i := range claims {
					if err := crewTurn(t, s, &claims[i]); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func crewTurn(t *testing.T, s *Store, c *store.Claim) error {
	entry := os.Getenv(childName)
	for _, m := range c.Messages {
		entry += " " + m.ID
	}
	tx := &store.Tx{
		Finish: []store.Finish{{Lease: c.Lease()}},
		Append: []store.Append{{Key: c.Key, At: c.LogLength, Entries: [][]byte{[]byte(entry)}}},
		PutRecords: []store.PutRecord{{
			Record: store.Record{Key: store.RecordKey{Kind: "crew", Tenant: c.Key.Tenant, ID: c.Key.Name}, Status: "round " + strconv.Itoa(c.LogLength+1)},
			Expect: int64(c.LogLength),
		}},
	}
	if c.LogLength+1 < crewRounds {
		tx.Put = []store.Message{{Key: c.Key, ID: "round-" + strconv.Itoa(c.LogLength+1)}}
	}
	if err := s.Commit(t.Context(), tx); err != nil {
		return fmt.Errorf("%v: %w", c.Key, err)
	}
	return nil
}

// TestSeveralProcesses has three processes work on one file: each key does its rounds
// exactly once, in whichever process, and no call returns that the file is locked.
func TestSeveralProcesses(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := openAt(t, path)
	tx := &store.Tx{}
	for i := range crewKeys {
		tx.Put = append(tx.Put, store.Message{Key: crewKey(i), ID: "round-0", Route: "crew"})
	}
	if err := s.Commit(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	var crew []*child
	for i := range 3 {
		crew = append(crew, launchChild(t, "crew", path, childName+"=worker-"+strconv.Itoa(i)))
	}
	for _, c := range crew {
		c.end(t)
	}
	workers := map[string]int{}
	for i := range crewKeys {
		page, err := s.ReadLog(t.Context(), crewKey(i), 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Entries) != crewRounds {
			t.Errorf("%v has %d entries, want %d: %q", crewKey(i), len(page.Entries), crewRounds, page.Entries)
		}
		for n, entry := range page.Entries {
			worker, messages, _ := strings.Cut(string(entry), " ")
			workers[worker]++
			if want := "round-" + strconv.Itoa(n); messages != want {
				t.Errorf("%v: entry %d is of %q, want %q", crewKey(i), n, messages, want)
			}
		}
		if m, err := s.Pending(t.Context(), crewKey(i), 0); len(m) > 0 || err != nil {
			t.Errorf("%v has %d messages left: %v", crewKey(i), len(m), err)
		}
	}
	if len(workers) < 2 {
		t.Errorf("all was done by %v", workers)
	}
	verifies(t, s)
}

// TestExcludedByAnotherProcess: nobody opens a store that another process keeps to itself,
// and everybody does when that process is dead.
func TestExcludedByAnotherProcess(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	c := startChild(t, "excluder", path)
	c.expect(t, "excluded")
	if _, err := Open(t.Context(), path, Options{Logger: quiet()}); !errors.Is(err, store.ErrInUse) {
		t.Errorf("open: %v, want %v", err, store.ErrInUse)
	}
	c.kill(t)
	s := openAt(t, path)
	release, err := s.Exclude(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	other := startChild(t, "holder", path)
	if _, err := s.Exclude(t.Context()); !errors.Is(err, store.ErrInUse) {
		t.Errorf("exclude while another process has it open: %v, want %v", err, store.ErrInUse)
	}
	other.end(t)
	if _, err := s.Exclude(t.Context()); err != nil {
		t.Errorf("exclude after the other process has closed it: %v", err)
	}
}
