package sqlitestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// writer is the one connection of this process that writes. SQLite keeps its page cache as long as no
// other connection commits, which is why there is one, and why writes of several callers share
// its transactions. mu is held for a whole transaction; it comes after the locks of rows, which
// are never held during one.
type writer struct {
	*conn
	mu sync.Mutex

	unsynced  bool      // commits are not synced
	version   int64     // of the file, as others have changed it
	contended time.Time // when others were last seen to have changed it
}

// The write lock of the file has no queue: a process that finds it taken tries again after
// lockPause and a bit, at a different time than others (lockSpread). So that they get it at all,
// a process leaves it free for lockYield before each transaction, while it was contended within
// the last contendedTime.
const (
	lockPause     = 500 * time.Microsecond
	lockSpread    = 7
	lockYield     = time.Millisecond
	contendedTime = time.Second
)

// lockWarning is how long to wait for the lock before that is logged: transactions take
// milliseconds, so the process that has it may be stopped, or hang on its disk.
const lockWarning = 5 * time.Second

// closePatience is for how long a store that is being closed waits for the lock.
const closePatience = 10 * time.Second

// transact runs f in a transaction that holds the write lock of the file. If f reports that nothing
// changed, or fails, it is rolled back. A transaction that is not synced becomes durable with the
// next one that is; a crash before that loses it as a whole, with everything after it.
func (s *Store) transact(ctx context.Context, verb string, synced bool, f func(w *writer) (changed bool, err error)) error {
	w := s.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := s.failed(); err != nil {
		return err
	}
	if err := w.setSync(synced); err != nil {
		return rolledBack(s.explain(verb, err))
	}
	if err := s.begin(ctx, w); err != nil {
		return rolledBack(s.explain(verb, err))
	}
	changed, err := f(w)
	if err != nil || !changed {
		if back := w.exec("ROLLBACK"); err == nil {
			err = back
		}
		if err != nil {
			return s.broken(verb, err, false)
		}
		return nil
	}
	if err := w.exec("COMMIT"); err != nil {
		if !w.db.AutocommitEnabled() {
			err = errors.Join(err, w.exec("ROLLBACK"))
		}
		return s.broken(verb, err, true)
	}
	s.checkpointer.wrote()
	return nil
}

// broken returns the error of a transaction that failed. Before the commit nothing has changed. A
// commit that could not be written or synced may yet turn out to be there when the file is opened
// again: then the outcome is unknown, and the store fails all further calls.
func (s *Store) broken(verb string, err error, commit bool) error {
	if !commit || isOurs(err) || isFull(err) || isCorrupt(err) || isBusy(err) {
		return rolledBack(s.explain(verb, err))
	}
	return s.fail(fmt.Errorf("%s: %w", verb, err))
}

// setSync says whether commits are synced. The statement has its effect when it is
// prepared, so it is not kept.
func (w *writer) setSync(synced bool) error {
	if w.unsynced == !synced {
		return nil
	}
	level := "FULL"
	if !synced {
		level = "NORMAL"
	}
	if err := w.once("PRAGMA synchronous = " + level); err != nil {
		return err
	}
	w.unsynced = !synced
	return nil
}

// begin takes the write lock, however long another process has it, and finds out what others have
// committed since the last transaction. It returns the error of ctx when that ends, and
// store.ErrClosed if the store is being closed and the lock is not to be had.
func (s *Store) begin(ctx context.Context, w *writer) error {
	if since(w.contended) < contendedTime {
		if err := pause(ctx, lockYield); err != nil {
			return err
		}
	}
	var closing time.Time
	waits := lockWait{s: s, since: base.System{}.Now()}
	defer waits.end()
	for try := 0; ; try++ {
		err := w.exec("BEGIN IMMEDIATE")
		if err == nil {
			break
		}
		if !isBusy(err) {
			return err
		}
		select {
		case <-s.Ended():
			if closing.IsZero() {
				closing = base.System{}.Now()
			}
			if since(closing) > closePatience {
				return fmt.Errorf("another process does not let go of the file: %w", store.ErrClosed)
			}
		default:
		}
		waits.note()
		// Several who wait try at different times.
		if err := pause(ctx, lockPause+time.Duration(try%lockSpread)*lockPause/lockSpread); err != nil {
			return err
		}
	}
	err := s.learn(w)
	if err != nil {
		_ = w.exec("ROLLBACK") // nothing was written
	}
	return err
}

// lockWait logs that the lock was waited for for long, once, and that it was had then.
type lockWait struct {
	s      *Store
	since  time.Time
	logged bool
}

func (l *lockWait) note() {
	if waited := since(l.since); !l.logged && waited >= cmp.Or(l.s.o.lockWarn, lockWarning) {
		l.logged = true
		l.s.logger.Warn("sqlitestore: write lock held by another process, waiting", "path", l.s.path, "for", waited)
	}
}

func (l *lockWait) end() {
	if l.logged {
		l.s.logger.Info("sqlitestore: wait for the write lock ended", "path", l.s.path, "after", since(l.since))
	}
}

// learn finds out whether other processes have committed since the last call, and if so takes over the
// latest time in the file and has the watcher hint. data_version of this connection changes with
// commits of other connections only, and no other connection of this process writes.
func (s *Store) learn(w *writer) error {
	version, err := w.number("PRAGMA data_version")
	if err != nil || version == w.version {
		return err
	}
	mark, err := w.number("SELECT value FROM meta WHERE name = 'time'")
	if err != nil {
		return err
	}
	s.observe(mark)
	w.version, w.contended = version, base.System{}.Now()
	s.others.changed()
	return nil
}

// markEvery is how far time advances before it is stored, in milliseconds.
const markEvery = 100

// writeMark notes the time in the file, so that another process whose clock is behind
// does not go back.
func (s *Store) writeMark(w *writer, now int64) error {
	if now < s.marked.Load()+markEvery {
		return nil
	}
	const mark = `UPDATE meta SET value = CASE WHEN value > ?1 + ?2 THEN ?1 ELSE max(value, ?1) END WHERE name = 'time'`
	if err := w.exec(mark, now, store.MaxClockLead.Milliseconds()); err != nil {
		return err
	}
	s.marked.Store(now)
	return nil
}

// pause waits for real time to pass: another process does not go by this one's clock.
func pause(ctx context.Context, d time.Duration) error { return base.Sleep(ctx, base.System{}, d) }

func since(t time.Time) time.Duration { return base.System{}.Now().Sub(t) }
