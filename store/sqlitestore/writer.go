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

// writer is the connection that writes. Its cache is worth something only because nobody
// else of this process writes: a commit of another connection empties it.
type writer struct {
	*conn
	mu sync.Mutex

	unsynced  bool      // commits are not synced
	version   int64     // of the file, as others have changed it
	contended time.Time // when others were last seen to have changed it
}

// How long to wait before trying again to get the lock that another process has, and for
// how long to leave it to others after a transaction while they write too.
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

// transact runs f in a transaction that holds the lock of the file, with the connection
// that writes. If f reports that there is nothing to write, or fails, nothing is written.
// A transaction that is not synced is durable with the next one that is, and lost as a
// whole before.
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

// broken says what an error within a transaction means. Before the commit nothing has
// changed. After one that could not be written or synced, what was written may yet turn
// out to be there when the file is opened again: the store has failed.
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

// begin begins a transaction as soon as nobody else has one that writes, and learns what
// others have done since the last one. While others write too, the lock is left to them
// for a moment after each transaction: they try again and again, and would find it taken.
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

// learn finds out whether others have changed the file, and what time they have seen.
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

// markEvery is how far time goes on before it is written down, in milliseconds.
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
