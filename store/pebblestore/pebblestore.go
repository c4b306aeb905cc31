package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

func init() {
	store.Register("pebble", store.Scheme{
		Open:    openURL,
		Options: []string{"cache_mib", "inspect", "reserve_mib"},
		Example: "pebble:///var/lib/abide",
	})
}

// Defaults of Options.
const (
	DefaultCache   = 64 << 20
	DefaultReserve = 256 << 20
)

// memTable is how many bytes Pebble gathers before it writes a table, and memTables
// how many of them there may be before commits wait for it. Most of the time there
// are not more than two.
const (
	memTable  = 64 << 20
	memTables = 4
)

// limits bound what is kept in memory.
type limits struct {
	// window is how many messages of a partition are kept as they arrive. Those that
	// arrive when there are more stay on disk until their turn comes.
	window int

	// load is how many ready keys of a partition are brought into memory at once.
	load int

	// refs is how many pending messages of one key are known in memory. A key with
	// more costs a look at the disk for each message that is put, moved or deleted.
	refs int

	// body is up to which size the body of a message that is due is kept in memory,
	// so that a claim need not read it.
	body int

	// keys and records are how many of them that are not in use are remembered, and partitions
	// how many that are empty.
	keys, records, partitions int

	// total is how many messages of all partitions are kept. With more, each partition keeps and
	// loads only a few.
	total int

	// idleRefs is how many pending messages a key may have to be remembered when it is
	// not in use.
	idleRefs int

	// prefetch is how many records and messages a Tx must put for it to be worth while to
	// read what it needs in advance, without the lock.
	prefetch int

	// journal is how many bytes the journal has before it is written anew.
	journal int

	// migrate is how many bytes a batch of a migration has at most. Zero means
	// migrateBytes.
	migrate int

	// locations is how many messages of one key an export puts in order at a time. Zero means
	// exportLocations.
	locations int
}

var defaultLimits = limits{
	window:     4096,
	load:       256,
	refs:       store.DefaultMessages,
	body:       1 << 10,
	keys:       16 << 10,
	records:    16 << 10,
	partitions: 4 << 10,
	journal:    256 << 10,

	total:    64 << 10,
	idleRefs: 16,
	prefetch: 16,
}

// Options of a store.
type Options struct {
	// Clock is the store's clock; nil means that of the machine.
	Clock clock.Clock

	// Logger gets what the store has to say; nil means slog.Default.
	Logger *slog.Logger

	// CacheBytes is the size of the block cache. Zero means [DefaultCache].
	CacheBytes int64

	// Reserve is how many bytes of the disk are left free: with less, commits fail
	// with [store.ErrFull]. Commits that only finish, trim and delete fail only below a
	// quarter of it, so that a full store can be emptied. Zero means [DefaultReserve].
	Reserve uint64

	// Inspect opens the store to be read only: what changes what it holds returns
	// [store.ErrReadOnly], nothing can be claimed, and nothing goes to quarantine. A backup
	// is opened in no other way.
	Inspect bool

	// fs, tune and limits are for tests: another file system, other settings of
	// Pebble, and other limits than defaultLimits.
	fs     vfs.FS
	tune   func(*pebble.Options)
	limits *limits
}

func openURL(ctx context.Context, u *url.URL) (store.Store, error) {
	dir := u.Host + u.Path
	if u.Opaque != "" {
		dir = u.Opaque
	}
	if dir == "" || u.User != nil {
		return nil, store.InvalidURL(u, "name a directory, such as pebble:///var/lib/abide or pebble://./abide-data")
	}
	var o Options
	for name, set := range map[string]func(mib int64){
		"cache_mib":   func(mib int64) { o.CacheBytes = mib << 20 },
		"reserve_mib": func(mib int64) { o.Reserve = uint64(mib) << 20 },
	} {
		if value := u.Query().Get(name); value != "" || u.Query().Has(name) {
			mib, err := strconv.ParseInt(value, 10, 64)
			if err != nil || mib < 1 || mib > 1<<20 {
				return nil, store.InvalidOption(u, name, "a number of MiB from 1 to 1048576")
			}
			set(mib)
		}
	}
	if u.Query().Has("inspect") {
		if u.Query().Get("inspect") != "true" {
			return nil, store.InvalidOption(u, "inspect", "true")
		}
		o.Inspect = true
	}
	return Open(ctx, dir, o)
}

// Store is a store in a directory.
type Store struct {
	dir     string
	fs      vfs.FS
	db      *pebble.DB
	dirLock *pebble.Lock
	clock   base.Clock
	time    *base.Steady
	logger  *slog.Logger
	reserve uint64
	limits  limits
	epoch   [16]byte // makes the tokens of this process its own

	inspecting bool     // nothing may be changed
	guarded    *guardFS // what Pebble works on

	gathered chan struct{} // tells applyGroups that there is something to apply
	applied  chan *group   // from applyGroups to syncGroups
	stopped  chan struct{} // closed when syncGroups has ended
	closing  chan struct{} // closed when the store is closed or has failed
	failed   chan struct{} // closed when the store has failed
	gone     chan struct{} // closed when Close has done what it could
	readers  sync.WaitGroup
	backup   sync.Mutex // held by the Backup call under way

	mu      sync.Mutex // guards all that follows
	closed  bool
	failure error
	full    bool // the disk is
	lastNow int64
	tokens  uint64

	excluded int   // how often Exclude was called and not released
	sweepAt  int64 // that of new queues

	waits   *waitlist.List[taken]    // Claim calls that wait
	awaited map[*routeState]struct{} // the routes that they wait for
	alarm   *waitlist.Alarm

	nextID, reservedIDs uint64
	lastPartition       uint32

	listed   []*routeState            // that Stats reports one by one
	unlisted map[*routeState]struct{} // that Stats only sums up
	rest     int64                    // messages of unlisted routes

	queues         map[string]*queue
	partitions     *cache[partitionName, *partition] // pinned while it has messages or a group changes it
	partitionsByID map[uint32]*partition
	keys           *cache[store.Key, *keyState]
	records        *cache[store.RecordKey, *recordState]
	leases         indexed[*lease]
	attempts       *journal

	attached   int     // messages in all windows
	groups     uint64  // how many there were
	recent     *recent // keys and records
	gathering  *group
	inFlight   []*group // from the oldest that is not durable to the one that gathers
	tombstones map[location]*group

	keyBuf, valBuf []byte    // scratch
	lastPinned     *keyState // the key that a Tx under way named last
}

var _ store.Store = (*Store)(nil)

// lock locks the store for a call, and returns the time.
func (s *Store) lock(verb string) (now int64, err error) {
	s.mu.Lock()
	if s.closed || s.failure != nil {
		err := s.endedLocked(verb)
		s.mu.Unlock()
		return 0, err
	}
	return s.now(), nil
}

// read keeps the database open until release is called.
func (s *Store) read(ctx context.Context, verb string) (release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := s.lock(verb); err != nil {
		return nil, err
	}
	s.readers.Add(1)
	s.mu.Unlock()
	return s.readers.Done, nil
}

// ended returns why the store cannot be used any more.
func (s *Store) ended(verb string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endedLocked(verb)
}

func (s *Store) endedLocked(verb string) error {
	if s.closed || s.failure == nil {
		return store.Closed(verb)
	}
	return s.failure
}

// Close ends waiting calls, waits for commits under way, and closes the directory.
// A store that has failed is left as it is: its directory stays locked until the
// process ends, since nobody knows what still happens in it.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.gone
		return nil
	}
	s.closed = true
	defer close(s.gone)
	s.alarm.Stop()
	if s.failure != nil {
		s.mu.Unlock()
		return s.failure
	}
	s.waits.Finish(store.Closed("claim"))
	close(s.closing)
	s.kick()
	close(s.gathered)
	s.mu.Unlock()

	select {
	case <-s.stopped:
	case <-s.failed:
		return s.failure
	}
	s.readers.Wait()
	return s.closeFiles()
}

func (s *Store) closeFiles() error {
	closed := make(chan error, 1)
	go func() { // Pebble may give up here too
		err := errors.Join(s.gathering.batch.Close(), s.attempts.close(), s.db.Close())
		if err == nil {
			if sealErr := s.seal(); sealErr != nil {
				s.logger.Warn("pebblestore: closed without a seal", "dir", s.dir, "error", sealErr)
			}
		}
		closed <- errors.Join(err, s.dirLock.Close())
	}()
	select {
	case err := <-closed:
		if err != nil {
			return fmt.Errorf("pebblestore: close %s: %w", s.dir, err)
		}
		return nil
	case <-s.failed:
		return s.failure
	}
}
