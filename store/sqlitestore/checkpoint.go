package sqlitestore

import (
	"os"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/base"
)

// keeper keeps the log of the database, the file that ends in -wal, from growing without
// end. Its pages are written to the database itself every now and then by a commit, and
// then it begins again, unless somebody reads it at that very moment. Under constant load
// there may always be somebody: then all wait for a moment.
type checkpointer struct {
	writes atomic.Int64
	done   chan struct{}
	warned time.Time
}

const (
	// checkpointPages is how many pages the log has when a commit writes them to the
	// database: 64 MiB. A page that was changed often meanwhile is written there once.
	checkpointPages = 16384

	// logKept is how much of the file of the log is kept for the next time: to write over
	// what is there is faster than to make a file longer.
	logKept = 64 << 20

	// logHuge is how large the log may get before everybody has to wait for it to be
	// written to the database.
	logHuge = 256 << 20

	checkpointEvery = 2 * time.Second
	checkpointWait  = 500 * time.Millisecond
	warnPeriod      = 10 * time.Minute
)

func newCheckpointer() *checkpointer { return &checkpointer{done: make(chan struct{})} }

func (k *checkpointer) wrote() { k.writes.Add(1) }

// keep looks at the log every now and then, if anything was written.
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

// shorten writes the log to the database and has it begin again, while nobody writes.
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

// checkpoint writes the log to the database, and reports whether others kept it from
// doing so. It waits for them that long.
func (c *conn) checkpoint(mode string, wait time.Duration) (busy bool, err error) {
	c.db.SetBusyTimeout(wait)
	defer c.db.SetBusyTimeout(0)
	_, err = c.one("PRAGMA wal_checkpoint("+mode+")", func(s *sqlite.Stmt) { busy = s.ColumnInt64(0) != 0 })
	if isBusy(err) {
		return true, nil
	}
	return busy, err
}
