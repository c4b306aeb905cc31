package sqlitestore

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// watcher finds out whether another process has changed the file, by PRAGMA data_version on the
// connection that writes. SQLite has no notifications; reading the version costs a few
// microseconds and no lock.
type watcher struct {
	news  atomic.Bool
	awake chan struct{} // with room for one
	done  chan struct{}
}

// Bounds of the interval: short after a change, and doubled while nothing changes.
const (
	watchSoon  = 20 * time.Millisecond
	watchLater = 250 * time.Millisecond
)

// formatEvery is the least interval of checks of the format, while others change the file.
const formatEvery = time.Second

// checkFormat fails the store if another process has migrated the file to a format that this
// program must not work on.
func (s *Store) checkFormat() {
	w := s.writer
	w.mu.Lock()
	format, oldest, err := w.format()
	w.mu.Unlock()
	if err == nil {
		err = store.CheckFormat(format, oldest, formatVersion)
	}
	if errors.Is(err, store.ErrFormat) {
		_ = s.fail(err) // the next call returns it
	}
}

func newWatcher() *watcher {
	return &watcher{awake: make(chan struct{}, 1), done: make(chan struct{})}
}

// changed notes that another process has changed the file.
func (o *watcher) changed() {
	o.news.Store(true)
	select {
	case o.awake <- struct{}{}:
	default:
	}
}

// watch hints to the core that other processes have changed the file: at most once per interval, and
// not with each of their commits. The hint has no details, because the file does not say what
// changed.
func (s *Store) watch() {
	defer close(s.others.done)
	gap := watchLater
	var checked time.Time
	unchecked := false
	for {
		if pause(s.life, watchSoon) != nil {
			return
		}
		s.ask()
		news := s.others.news.Swap(false)
		if unchecked = unchecked || news; unchecked && since(checked) > formatEvery {
			checked, unchecked = base.System{}.Now(), false
			s.checkFormat()
		}
		if news {
			gap = watchSoon
			s.Hint(rows.Hint{})
			continue
		}
		if gap = min(2*gap, watchLater); !s.rest(gap - watchSoon) {
			return
		}
	}
}

// rest waits for d, or until changed is called, and reports whether the store is still open.
func (s *Store) rest(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := make(chan struct{})
	stop := base.System{}.AfterFunc(d, func() { close(timer) })
	defer stop()
	select {
	case <-timer:
	case <-s.others.awake:
	case <-s.life.Done():
		return false
	}
	return true
}

// ask reads the version of the file, unless a transaction is under way, which does so itself.
func (s *Store) ask() {
	w := s.writer
	if !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	if err := s.learn(w); err != nil && !isBusy(err) {
		s.logger.Debug("sqlitestore: poll for changes failed", "path", s.path, "error", err)
	}
}
