package sqlitestore

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

func init() {
	store.Register("sqlite", store.Scheme{
		Example: "sqlite:///var/lib/abide/abide.db",
		Options: []string{"cache"},
		Open:    open,
	})
}

func open(ctx context.Context, u *url.URL) (store.Store, error) {
	path := u.Host + u.Path
	if u.Opaque != "" {
		path = u.Opaque
	}
	if path == "" || path == "/" {
		return nil, store.InvalidURL(u, "name a file: sqlite:///absolute/file.db or sqlite://relative/file.db")
	}
	o := Options{}
	if cache := u.Query().Get("cache"); cache != "" {
		mib, err := strconv.Atoi(cache)
		if err != nil || mib < 1 || mib > 1<<20 {
			return nil, store.InvalidOption(u, "cache", "a number of MiB, 1 or more")
		}
		o.CacheBytes = int64(mib) << 20
	}
	return Open(ctx, path, o)
}

// Options of a store. The zero value is fine.
type Options struct {
	// Clock is the store's clock; nil means that of the machine.
	Clock clock.Clock

	// Logger is told what happens in the background; nil means the default one.
	Logger *slog.Logger

	// CacheBytes is the size of the page cache of the writing connection. Zero means
	// [DefaultCache]. Connections that read have a small cache of their own.
	CacheBytes int64

	// maxPages bounds the file, for tests of a full disk.
	maxPages int

	// lockWarn is how long to wait for the write lock before that is logged; zero means
	// lockWarning.
	lockWarn time.Duration
}

// DefaultCache is how much of the file is kept in memory, in bytes, if Options do not say.
const DefaultCache = 64 << 20

// Store is a store in a file.
type Store struct {
	*rows.Core

	path   string
	clock  base.Clock
	logger *slog.Logger
	o      Options

	writer       *writer
	readers      *pool
	others       *watcher
	checkpointer *checkpointer
	lock         *processLock

	conversion *conversion // nil unless the file is opened by Convert

	life context.Context // ends when the store is closed
	end  context.CancelFunc

	time *base.Steady

	marked atomic.Int64 // the latest time that this process has written into the file
	ahead  atomic.Int64 // the latest time in the file that was too far ahead of the clock

	failing sync.Mutex
	failure error
}

var (
	_ store.Portable = (*Store)(nil)
	_ rows.Database  = (*Store)(nil)
)

// now returns the time.
func (s *Store) now() int64 { return s.time.Now() }

// observe notes a time that others have written down. One that is far ahead is from a clock
// that was wrong.
func (s *Store) observe(ms int64) {
	if !s.time.Observe(ms, store.MaxClockLead) && s.ahead.Swap(ms) != ms {
		s.logger.Warn("sqlitestore: stored time is ahead of the clock, ignored", "path", s.path,
			"stored", store.FromMillis(ms), "clock", s.clock.Now())
	}
}

// bytes returns how much room the files take.
func (s *Store) bytes() (n int64) {
	for _, name := range []string{s.path, s.path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			n += info.Size()
		}
	}
	return n
}
