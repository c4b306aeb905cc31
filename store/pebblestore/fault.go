package pebblestore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// fail makes the store unusable after an error that cannot be undone: the disk and
// the memory may not agree any more. All waiting calls end with the error. What was
// acknowledged is on disk, and opening the store again finds it.
//
// It takes the mutex, so a callback of Pebble, which may hold locks that the holder of the
// mutex waits for, calls it in a goroutine of its own.
func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(err)
}

// failLocked is fail with the mutex held. The first error counts. All groups in
// flight end with it, since it is not known which of them are durable; all
// waiting calls end with it; closing is closed so that calls which wait for room
// in a group, or for a record to change, notice.
func (s *Store) failLocked(err error) {
	if s.failure != nil {
		return
	}
	s.failure = fmt.Errorf("pebblestore: %s: %w: %w", s.dir, err, store.ErrFailed)
	s.logger.Error("pebblestore: store failed, reopen it", "dir", s.dir, "error", err)
	s.alarm.Stop()
	for _, g := range s.inFlight {
		g.err = s.failure
		close(g.done)
	}
	s.waits.Finish(s.failure)
	close(s.failed)
	if !s.closed {
		close(s.closing)
	}
}

// readError adds to an error what was being read, and [store.ErrCorrupt] if Pebble calls it a
// corruption. Errors that already say enough are returned as they are.
//
// An error of a read does not make the store fail: nothing was changed. Pebble
// reports a damaged table through DataCorruption as well: that does.
func (s *Store) readError(verb string, err error) error {
	if err == pebble.ErrNotFound { //nolint:errorlint // the value itself, as Pebble returns it: no more needs to be said, and often
		return err
	}
	if pebble.IsCorruptionError(err) && !errors.Is(err, store.ErrCorrupt) {
		return fmt.Errorf("pebblestore: %s in %s: %w: %w", verb, s.dir, err, store.ErrCorrupt)
	}
	if errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrFailed) || errors.Is(err, store.ErrClosed) {
		return err
	}
	return fmt.Errorf("pebblestore: %s in %s: %w", verb, s.dir, err)
}

// closeIter closes an iterator, and returns its error or else err. The iterator's comes
// first, because err is often its consequence: a value that cannot be read from disk parses
// as one that is cut short.
func closeIter(it *pebble.Iterator, err error) error {
	if readErr := it.Error(); readErr != nil {
		err = readErr
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return err
}

// freeingShare: commits that only remove are accepted down to this fraction (a quarter) of
// the reserve. Without it, a store that has filled its own disk could not be emptied.
const freeingShare = 4

// onlyRemoves reports whether tx adds nothing. Removing takes a little room too, until Pebble
// has compacted its tables.
func onlyRemoves(tx *store.Tx) bool {
	return len(tx.Append) == 0 && len(tx.Put) == 0 && len(tx.Retime) == 0 && len(tx.PutRecords) == 0
}

// checkRoom returns [store.ErrFull] if there is no room to commit. A commit that only removes
// may go below the reserve.
//
// full is set by applyGroups, after each group. Only while it is set does a commit ask the
// file system for its free space, which is a system call; so a store that has room again
// recovers by itself.
func (s *Store) checkRoom(frees bool) error {
	if s.full {
		s.full = s.spaceBelow(s.reserve)
	}
	reserve := s.reserve
	if frees {
		reserve /= freeingShare
	}
	if s.full && (!frees || s.spaceBelow(reserve)) {
		return fmt.Errorf("pebblestore: commit: less than %d MiB left on the disk of %s: %w", reserve>>20, s.dir, store.ErrFull)
	}
	return nil
}

// checkSpace stops commits before the disk is full, so that Pebble can still write what it has
// accepted. A full disk under Pebble would be an error of the log, and the store would fail.
func (s *Store) checkSpace() {
	if s.spaceBelow(s.reserve) {
		s.mu.Lock()
		s.full = true
		s.mu.Unlock()
	}
}

func (s *Store) spaceBelow(reserve uint64) bool {
	usage, err := s.fs.GetDiskUsage(s.dir)
	return err == nil && usage.AvailBytes < reserve
}

// pebbleLogger passes the messages of Pebble to the store's logger. Pebble calls Fatalf
// when it cannot continue, and relies on it not returning: so the store fails, and
// the goroutine blocks for good. The process keeps running, and can shut down in order.
type pebbleLogger struct {
	log   *slog.Logger
	fatal func(error)
}

var _ pebble.Logger = pebbleLogger{}

// Infof logs at the level debug: flushes, compactions and the like.
func (l pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug("pebble: " + fmt.Sprintf(format, args...))
}

// Errorf logs errors that Pebble recovers from.
func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Warn("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf makes the store fail, and does not return.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	go l.fatal(fmt.Errorf("pebble: "+format, args...)) //nolint:err113 // Pebble's own words; in a goroutine because Pebble may hold a lock that the holder of mu waits for
	select {}
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// isLocked reports whether an error says that the directory is open already, in
// another process or in this one. A missing permission is the same error number, but comes
// with a path.
func isLocked(err error) bool {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false
	}
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) || strings.Contains(err.Error(), "lock held")
}
