package sqlitestore

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// watcher looks whether another process has changed the file. It asks the connection that
// writes: for that one, the version of the file is that of the others' commits alone.
type watcher struct {
	news  atomic.Bool
	awake chan struct{} // with room for one
	done  chan struct{}
}

// How often the file is looked at: soon after something has happened, and less and less
// often while nothing does.
const (
	watchSoon  = 20 * time.Millisecond
	watchLater = 250 * time.Millisecond
)

// formatEvery is how often the format is looked at while others change the file.
const formatEvery = time.Second

// checkFormat makes the store unusable if another process has changed the file to a format
// that this program must not work on.
func (s *Store) checkFormat() {
	w := s.writer
	w.mu.Lock()
	format, oldest, err := w.format()
	w.mu.Unlock()
	if err == nil {
		err = store.CheckFormat(format, oldest, formatVersion)
	}
	if errors.Is(err, store.ErrFormat) {
		_ = s.fail(err) // whoever calls next is told
	}
}

func newWatcher() *watcher {
	return &watcher{awake: make(chan struct{}, 1), done: make(chan struct{})}
}

// changed is called by whoever has seen that others have changed the file.
func (o *watcher) changed() {
	o.news.Store(true)
	select {
	case o.awake <- struct{}{}:
	default:
	}
}

// watch tells the frame of what others have changed. It does so every now and then, not
// with each of their commits.
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
			s.Hint(nil, nil)
			continue
		}
		if gap = min(2*gap, watchLater); !s.rest(gap - watchSoon) {
			return
		}
	}
}

// rest waits, unless somebody has seen that there is news, and reports whether the store
// is still open.
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

// ask looks at the version of the file, if nobody writes at the moment: whoever does
// looks too.
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
