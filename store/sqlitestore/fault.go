package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// isBusy reports whether another connection holds a lock, so that a retry may succeed.
func isBusy(err error) bool {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultBusy, sqlite.ResultLocked, sqlite.ResultProtocol:
		return true
	default:
		return false
	}
}

// isFull reports whether there is no room. The transaction is undone: what marks it as
// committed is written last.
func isFull(err error) bool {
	code := sqlite.ErrCode(err)
	return code.ToPrimary() == sqlite.ResultFull || code == sqlite.ResultIOErrSHMSize
}

// isCorrupt reports whether what is stored cannot be read.
func isCorrupt(err error) bool {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return true
	default:
		return false
	}
}

// explain adds to an error of the engine's what was being done, and which of the
// contract's errors it is.
func (s *Store) explain(verb string, err error) error {
	switch {
	case err == nil || isOurs(err):
		return err
	case isFull(err):
		return fmt.Errorf("sqlitestore: %s: no room for %s: %w: %w", verb, s.path, err, store.ErrFull)
	case isCorrupt(err):
		return fmt.Errorf("sqlitestore: %s: %s: %w: %w", verb, s.path, err, store.ErrCorrupt)
	}
	return fmt.Errorf("sqlitestore: %s: %s: %w", verb, s.path, err)
}

// isOurs reports whether an error says by itself what it is.
func isOurs(err error) bool {
	for _, known := range []error{
		store.ErrConflict, store.ErrClaimLost, store.ErrNotFound, store.ErrInvalid, store.ErrFull, store.ErrClosed,
		store.ErrInUse, store.ErrCorrupt, store.ErrFormat, store.ErrFailed, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// fail makes the store unusable: a disk that does not sync may have lost what was written
// before, and nobody can tell.
func (s *Store) fail(err error) error {
	s.failing.Lock()
	defer s.failing.Unlock()
	if s.failure == nil {
		s.failure = fmt.Errorf("sqlitestore: %s: %w: %w", s.path, err, store.ErrFailed)
		s.logger.Error("sqlitestore: store failed, reopen it", "path", s.path, "error", err)
		go s.Hint(rows.Hint{}) // calls that wait query, and fail; not here, where locks are held
	}
	return s.failure
}

// failed returns why the store is unusable, or nil.
func (s *Store) failed() error {
	s.failing.Lock()
	defer s.failing.Unlock()
	return s.failure
}

// check returns the error of a call that cannot be made.
func (s *Store) check(ctx context.Context, verb string) error {
	if err := s.Check(ctx, verb); err != nil {
		return err
	}
	return s.failed()
}

// rolledBack marks an error after which nothing has changed.
func rolledBack(err error) error { return fmt.Errorf("%w: %w", err, rows.ErrRolledBack) }
