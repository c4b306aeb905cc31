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
// the memory may not agree any more. Everybody who waits is told. What was
// acknowledged is on disk, and opening the store again finds it.
func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failLocked(err)
}

// failLocked is fail with the mutex held. The first error counts. All groups in
// flight end with it, since it is not known which of them are durable; all
// waiting calls end with it; closing is closed so that those who wait for room
// in a group, or for news of a record, notice.
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

// readError adds to an error what was being read. What is corrupt is marked so.
//
// An error of a read does not make the store fail: nothing was changed. Pebble
// says by itself, through DataCorruption, when a table is damaged: that does.
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

// closeIter closes an iterator, and returns its error or else err: a value that
// cannot be read from disk looks as if it were cut short.
func closeIter(it *pebble.Iterator, err error) error {
	if readErr := it.Error(); readErr != nil {
		err = readErr
	}
	if closeErr := it.Close(); err == nil {
		err = closeErr
	}
	return err
}

// freeingShare is which part of the reserve commits that only remove may use up: without
// it, a store that has filled its own disk could not be emptied.
const freeingShare = 4

// frees reports whether tx only removes. Removing takes a little room too, until Pebble
// has merged its tables.
func frees(tx *store.Tx) bool {
	return len(tx.Append) == 0 && len(tx.Put) == 0 && len(tx.Retime) == 0 && len(tx.PutRecords) == 0
}

// room returns an error if there is no room to commit. A commit that frees room may go
// below the reserve.
//
// full is set by the goroutine that applies groups, after each one, and is
// looked at again here, so that a store with room again goes on by itself.
func (s *Store) room(frees bool) error {
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

// checkSpace stops commits before the disk is full: then Pebble can still write
// what it has accepted, and the store goes on by itself when there is room again.
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

// pebbleLogger hands what Pebble says to the store's logger. Pebble calls Fatalf
// when it cannot go on, and counts on never coming back: so the store fails, and
// the goroutine stays where it is for good. The process goes on, and can end in its
// own way.
type pebbleLogger struct {
	log   *slog.Logger
	fatal func(error)
}

var _ pebble.Logger = pebbleLogger{}

// Infof logs what is only of interest to who looks for it.
func (l pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug("pebble: " + fmt.Sprintf(format, args...))
}

// Errorf logs what Pebble gets over by itself.
func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Warn("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf makes the store fail, and does not return.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	go l.fatal(fmt.Errorf("pebble: "+format, args...)) //nolint:err113 // Pebble's own words; and it may hold a lock that somebody waits for who holds ours
	select {}
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// isLocked reports whether an error says that the directory is open already, in
// another process or in this one. That of a file that may not be written looks much
// the same, but names a path.
func isLocked(err error) bool {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false
	}
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) || strings.Contains(err.Error(), "lock held")
}
