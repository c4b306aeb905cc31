package sqlitestore

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// processLock is a file beside the database that every store which has it open holds a shared lock
// of. Exclude turns that into an exclusive lock. Programs that open the database with SQLite
// alone do not take part.
type processLock struct {
	file *os.File

	mu    sync.Mutex
	alone int // how often Exclude was called and not released
}

// processesSuffix is the suffix of the name of the lock file.
const processesSuffix = "-processes"

// lockProcesses takes the shared lock, or returns store.ErrInUse if another store has excluded the
// others. The file gets the permissions of the database.
func lockProcesses(path string, mode fs.FileMode) (*processLock, error) {
	f, err := os.OpenFile(path+processesSuffix, os.O_CREATE|os.O_RDWR, mode)
	if err != nil {
		return nil, err
	}
	ok, err := lockFile(f, false)
	if err == nil && !ok {
		err = fmt.Errorf("another store keeps all others out: %w", store.ErrInUse)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return &processLock{file: f}, nil
}

func (l *processLock) close() error { return l.file.Close() }

// isAlone reports whether this store has excluded the others.
func (l *processLock) isAlone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alone > 0
}

// exclude takes the exclusive lock, or returns store.ErrInUse and takes the shared one again.
func (l *processLock) exclude(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.alone > 0 {
		l.alone++
		return nil
	}
	ok, err := lockFile(l.file, true)
	if err == nil && ok {
		l.alone++
		return nil
	}
	if back, again := lockFile(l.file, false); again != nil || !back {
		return fmt.Errorf("sqlitestore: exclude: lock %s%s again: %w", path, processesSuffix, again)
	}
	if err != nil {
		return fmt.Errorf("sqlitestore: exclude: lock %s%s: %w", path, processesSuffix, err)
	}
	return fmt.Errorf("sqlitestore: exclude: %s is open elsewhere: %w", path, store.ErrInUse)
}

// Exclude keeps other stores out of the file until release is called, or returns store.ErrInUse if
// one has it open.
//
// An attempt that fails loses the shared lock for a moment. Two attempts at the same time could
// both find the file free, so that an attempt is made under the write lock of the database.
func (s *Store) Exclude(ctx context.Context) (release func() error, err error) {
	if err := s.check(ctx, "exclude"); err != nil {
		return nil, err
	}
	if err := s.transact(ctx, "exclude", true, func(*writer) (bool, error) {
		return false, s.lock.exclude(s.path)
	}); err != nil {
		return nil, err
	}
	var once sync.Once
	return func() (err error) {
		once.Do(func() { err = s.release() })
		return err
	}, nil
}

func (s *Store) release() error {
	l := s.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-s.Ended():
		return nil // closing has released it
	default:
	}
	if l.alone--; l.alone > 0 {
		return nil
	}
	if _, err := lockFile(l.file, false); err != nil {
		return fmt.Errorf("sqlitestore: release: lock %s%s: %w", s.path, processesSuffix, err)
	}
	s.Hint(rows.Hint{}) // what has expired meanwhile goes to quarantine now
	return nil
}
