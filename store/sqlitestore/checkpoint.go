package sqlitestore

import (
	"os"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/base"
)

// checkpointer keeps the write-ahead log (-wal) from growing without bound. A commit that finds
// checkpointPages in it copies them to the database, and the log starts over, unless a reader still
// uses it at that moment. Under constant load there may always be one: above logHuge, writers are
// held up until readers are done.
type checkpointer struct {
	writes atomic.Int64
	done   chan struct{}
	warned time.Time
}

const (
	// checkpointPages is how many pages the log has when a commit writes them to the
	// database: 64 MiB. A page that was changed often meanwhile is written there once.
	checkpointPages = 16384

	// logKept is how much of the log file is kept when it starts over: overwriting is faster
	// than extending.
	logKept = 64 << 20

	// logHuge is the size of the log above which writers wait for a checkpoint.
	logHuge = 256 << 20

	checkpointEvery = 2 * time.Second
	checkpointWait  = 500 * time.Millisecond
	warnPeriod      = 10 * time.Minute
)

func newCheckpointer() *checkpointer { return &checkpointer{done: make(chan struct{})} }

func (k *checkpointer) wrote() { k.writes.Add(1) }

// runCheckpoints checks the size of the log every checkpointEvery, if anything was written.
func (s *Store) runCheckpoints() {
	defer close(s.checkpointer.done)
	seen := int64(0)
	for pause(s.life, checkpointEvery) == nil {
		if n := s.checkpointer.writes.Load(); n != seen && s.logBytes() > logHuge {
			seen = n
			s.shorten()
		}
	}
}

func (s *Store) logBytes() int64 {
	info, err := os.Stat(s.path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

// shorten copies the log to the database and truncates it, while no transaction runs.
func (s *Store) shorten() {
	w := s.writer
	w.mu.Lock()
	busy, err := w.checkpoint("TRUNCATE", checkpointWait)
	w.mu.Unlock()
	if err == nil && !busy {
		return
	}
	if since(s.checkpointer.warned) > warnPeriod {
		s.checkpointer.warned = base.System{}.Now()
		s.logger.Warn("sqlitestore: write-ahead log grows, a reader blocks its checkpoint",
			"path", s.path+"-wal", "bytes", s.logBytes(), "error", err)
	}
}

// checkpoint copies the log to the database, waiting for readers and other writers for wait, and
// reports whether they kept it from completing.
func (c *conn) checkpoint(mode string, wait time.Duration) (busy bool, err error) {
	c.db.SetBusyTimeout(wait)
	defer c.db.SetBusyTimeout(0)
	_, err = c.one("PRAGMA wal_checkpoint("+mode+")", func(s *sqlite.Stmt) { busy = s.ColumnInt64(0) != 0 })
	if isBusy(err) {
		return true, nil
	}
	return busy, err
}
