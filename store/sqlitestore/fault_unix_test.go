//go:build unix

package sqlitestore

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/abidehq/abide/store"
)

func init() { roles["overrun"] = overrunStore }

// overrunStore commits until the log of the database may not grow any more, which is an
// error of the disk as far as the engine can tell.
func overrunStore(t *testing.T, s *Store) {
	signal.Ignore(syscall.SIGXFSZ)
	info, err := os.Stat(s.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	limit := uint64(info.Size()) + 1<<20
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	put := func(i int) error {
		return s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{
			Record: store.Record{Key: store.RecordKey{Kind: "big", ID: fmt.Sprint(i)}, Body: make([]byte, 100_000)},
		}}})
	}
	i := 0
	for ; err == nil && i < 100; i++ {
		err = put(i)
	}
	if !errors.Is(err, store.ErrFailed) {
		t.Fatalf("commit %d: %v, want %v", i, err, store.ErrFailed)
	}
	if err := put(i); !errors.Is(err, store.ErrFailed) {
		t.Fatalf("the commit after: %v, want %v", err, store.ErrFailed)
	}
	if _, err := s.Stats(t.Context()); !errors.Is(err, store.ErrFailed) {
		t.Fatalf("stats: %v, want %v", err, store.ErrFailed)
	}
	fmt.Println("failed after", i-1)
}

// TestWriteError has a process fail to write: it says so from then on, and what it
// acknowledged is there.
func TestWriteError(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	c := startChild(t, "overrun", path)
	var acked int
	if !c.lines.Scan() {
		t.Fatalf("the other process ended: %v", c.cmd.Wait())
	}
	if _, err := fmt.Sscanf(c.lines.Text(), "failed after %d", &acked); err != nil {
		t.Fatalf("the other process says %q: %v", c.lines.Text(), err)
	}
	c.kill(t)
	s := openAt(t, path)
	n, err := s.Count(t.Context(), store.Query{Kind: "big"}, 1000)
	if err != nil || n < acked || n > acked+1 || acked == 0 {
		t.Errorf("%d records are there, and %d were acknowledged: %v", n, acked, err)
	}
	verifies(t, s)
}
