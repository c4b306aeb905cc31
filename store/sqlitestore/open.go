package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// Open opens the store in a file, and makes it if it is not there; its folder must be. It
// returns [store.ErrFormat] for a file of an older design, which [Convert] converts, and leaves
// it as it is. It returns [store.ErrInUse] if another process keeps all others out.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	whole, err := resolve(path)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: open %s: %w", path, err)
	}
	s := newStore(whole, o)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlitestore: open %s: %w", s.path, err), s.closeFiles())
	}
	s.Start(s)
	go s.watch()
	go s.runCheckpoints()
	return s, nil
}

func newStore(path string, o Options) *Store {
	s := &Store{path: path, clock: o.Clock, logger: o.Logger, o: o, readers: newPool(path), others: newWatcher(), checkpointer: newCheckpointer()}
	if s.clock == nil {
		s.clock = base.System{}
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.time = base.NewSteady(s.clock, func(lead time.Duration) {
		s.logger.Warn("sqlitestore: clock is behind the store's time", "path", s.path, "lead", lead)
	})
	if s.o.CacheBytes == 0 {
		s.o.CacheBytes = DefaultCache
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.Core = rows.New(rows.Options{Clock: s.clock, Writers: 1})
	return s
}

// resolve returns the one path of a file that may have several: what is locked has the
// same name for all.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	whole, err := filepath.EvalSymlinks(path)
	if err == nil {
		info, err := os.Stat(whole)
		if err == nil && info.IsDir() {
			err = fmt.Errorf("it is a folder; name a file in it: %w", store.ErrInvalid)
		}
		return whole, err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the folder %s is not there: %w", filepath.Dir(path), fs.ErrNotExist)
	}
	return filepath.Join(folder, filepath.Base(path)), err
}

// open opens the file, and makes what is in it or, for Convert, converts it.
func (s *Store) open(ctx context.Context) (err error) {
	mode, err := private(s.path, s.logger)
	if err != nil {
		return s.openError(err)
	}
	if s.lock, err = lockProcesses(s.path, mode); err != nil {
		return err
	}
	c, err := openConn(s.path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		return s.openError(err)
	}
	s.writer = &writer{conn: c}
	if err := s.patiently(ctx, s.prepare); err != nil {
		return s.openError(err)
	}
	return nil
}

// patiently calls f until no other process has the file locked.
func (s *Store) patiently(ctx context.Context, f func() error) error {
	for {
		err := f()
		if !isBusy(err) {
			return err
		}
		if err := pause(ctx, lockPause); err != nil {
			return err
		}
	}
}

// prepare brings the file into the state that the store needs. It is idempotent: it is called again
// after another process had the file locked.
func (s *Store) prepare() error {
	w := s.writer
	if err := s.recognize(); err != nil {
		return err
	}
	if c := s.conversion; c != nil && c.dryRun {
		return s.configureOnce()
	}
	mode := ""
	if _, err := w.one("PRAGMA journal_mode = WAL", func(st *sqlite.Stmt) { mode = st.ColumnText(0) }); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the file system does not allow a log beside the file (journal mode is %q): %w", mode, errors.ErrUnsupported)
	}
	pragmas := []string{
		"synchronous = FULL", "wal_autocheckpoint = " + strconv.Itoa(checkpointPages), "journal_size_limit = " + strconv.Itoa(logKept),
		"cache_size = -" + strconv.FormatInt(s.o.CacheBytes>>10, 10), "temp_store = MEMORY", "foreign_keys = OFF",
	}
	if s.o.maxPages > 0 {
		pragmas = append(pragmas, "max_page_count = "+strconv.Itoa(s.o.maxPages))
	}
	for _, p := range pragmas {
		if err := w.once("PRAGMA " + p); err != nil {
			return err
		}
	}
	return s.configureOnce()
}

// configureOnce runs configure in a transaction.
func (s *Store) configureOnce() error {
	w := s.writer
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := s.configure()
	switch {
	case err != nil:
	case s.conversion != nil && s.conversion.dryRun:
		err = w.exec("ROLLBACK")
	default:
		err = w.exec("COMMIT")
	}
	if err != nil && !w.db.AutocommitEnabled() {
		_ = w.exec("ROLLBACK") // what was wrong comes first
	}
	return err
}

// configure creates the tables, or checks that this version reads those of the file, and reads
// the latest time. It runs in a transaction.
func (s *Store) configure() error {
	w := s.writer
	what, err := s.wanted()
	if err != nil {
		return err
	}
	if what == shapeForeign {
		if s.conversion.tables, err = w.renameForeign(); err != nil {
			return err
		}
	}
	switch what {
	case shapeOurs:
	case shapeFirst:
		if err := w.renew(); err != nil {
			return err
		}
	default:
		if err := w.create(s.now()); err != nil {
			return err
		}
	}
	if what == shapeForeign {
		if err := s.convert(); err != nil {
			return err
		}
	}
	if err := w.refreshViews(extended()); err != nil {
		return err
	}
	if err := w.exec("DELETE FROM tally WHERE pending = 0"); err != nil {
		return err
	}
	mark, err := w.number("SELECT value FROM meta WHERE name = 'time'")
	if err != nil {
		return err
	}
	s.observe(mark)
	w.version, err = w.number("PRAGMA data_version")
	return err
}

// openError says what is wrong with a file that cannot be opened.
func (s *Store) openError(err error) error {
	switch code := sqlite.ErrCode(err).ToPrimary(); {
	case isOurs(err):
		return err
	case code == sqlite.ResultNotADB:
		return fmt.Errorf("this is not an SQLite database, or its first page is damaged: %w: %w: %w", err, store.ErrFormat, store.ErrCorrupt)
	case isCorrupt(err):
		return fmt.Errorf("%w: %w", err, store.ErrCorrupt)
	case isFull(err):
		return fmt.Errorf("%w: %w", err, store.ErrFull)
	case code == sqlite.ResultReadOnly || code == sqlite.ResultPerm:
		return fmt.Errorf("the file or its folder may not be written: %w: %w", err, fs.ErrPermission)
	case code == sqlite.ResultCantOpen:
		return fmt.Errorf("the file or its folder may not be read or written: %w", err)
	}
	return err
}

// Close ends waiting calls, waits for those under way, and closes the file.
func (s *Store) Close() error {
	if !s.CloseCore() {
		return nil
	}
	s.end()
	<-s.others.done
	<-s.checkpointer.done
	err := s.readers.close()
	if s.failed() == nil {
		// The last one to close it does this by itself; others leave a short log behind.
		if _, end := s.writer.checkpoint("TRUNCATE", 0); err == nil {
			err = end
		}
	}
	err = errors.Join(err, s.closeFiles())
	if err != nil {
		return fmt.Errorf("sqlitestore: close %s: %w", s.path, err)
	}
	return nil
}

// closeFiles closes the connection that writes, and releases the lock of the process.
func (s *Store) closeFiles() (err error) {
	if s.writer != nil {
		err = s.writer.close()
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.close())
	}
	return err
}
