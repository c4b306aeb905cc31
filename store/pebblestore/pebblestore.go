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

// memTable is the size of a memtable, and memTables how many there may be before commits
// wait for a flush. Most of the time there are not more than two.
const (
	memTable  = 64 << 20
	memTables = 4
)

// limits bound what is kept in memory. They do not bound what is pinned: leased keys and
// groups in flight are kept whatever their number, since the database cannot answer for
// them.
type limits struct {
	// window is how many messages of a partition are admitted to memory as they arrive.
	// The others stay on disk and are loaded when their turn comes.
	window int

	// load is how many ready keys of a partition are loaded at once.
	load int

	// refs is how many pending messages of one key are known in memory. A key with
	// more costs a read for each message that is put, moved or deleted.
	refs int

	// body is the size up to which the body of a message that is due is kept in memory,
	// so that a claim need not read it.
	body int

	// keys, records and partitions are how many idle ones the caches keep. An idle
	// partition is one without messages.
	keys, records, partitions int

	// total is how many messages of all partitions are kept. Beyond it, each partition keeps
	// and loads only a few: see windowLimit.
	total int

	// idleRefs is how many pending messages an idle key may have to stay in the cache.
	idleRefs int

	// prefetch is how many records and messages a Tx must put for it to pay to read what it
	// needs in advance, without the mutex.
	prefetch int

	// journal is how many bytes the journal has before it is rewritten.
	journal int

	// migrate is how many bytes a batch of a migration has at most. Zero means
	// migrateBytes.
	migrate int

	// searchAfter is how many records a list passes over before it gathers; see search.go.
	searchAfter int

	// locations is how many messages of one key an export sorts at a time. Zero means
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

	searchAfter: searchAfter,

	total:    64 << 10,
	idleRefs: 16,
	prefetch: 16,
}

// Options of a store.
type Options struct {
	// Clock is the store's clock; nil means that of the machine.
	Clock clock.Clock

	// Logger receives warnings and errors, and the messages of Pebble; nil means
	// slog.Default().
	Logger *slog.Logger

	// CacheBytes is the size of the block cache. Zero means [DefaultCache].
	CacheBytes int64

	// Reserve is how many bytes of the disk are left free: with less, commits fail
	// with [store.ErrFull]. Commits that only finish, trim and delete fail only below a
	// quarter of it, so that a full store can be emptied. Zero means [DefaultReserve].
	Reserve uint64

	// Inspect opens the store for reading: calls that change it, and claims, return
	// [store.ErrReadOnly], and no message expires to quarantine. A backup can be opened in no
	// other way.
	Inspect bool

	// fs, tune and limits are for tests: another file system, other settings of
	// Pebble, and other limits than defaultLimits.
	fs     vfs.FS
	tune   func(*pebble.Options)
	limits *limits
}

// openURL opens the store of a URL. An absolute path comes after an empty host, as in
// pebble:///var/lib/abide; of a relative one, as in pebble://./data, the first element is what
// package url calls the host. It returns [store.ErrInvalid] for an invalid value of an option.
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

// Store is a store in a directory. The fields up to mu are set by Open and then constant, or
// are safe for concurrent use by themselves.
type Store struct {
	dir     string // absolute and without symbolic links, unless a test gives a file system
	fs      vfs.FS
	db      *pebble.DB
	dirLock *pebble.Lock // keeps other processes out; held until Close, or for good after a failure
	clock   base.Clock
	time    *base.Steady // the clock made monotonic; read under mu by now
	logger  *slog.Logger
	reserve uint64
	limits  limits
	epoch   [16]byte // random prefix of the tokens of this process

	inspecting bool     // opened with Options.Inspect
	guarded    *guardFS // the file system as Pebble sees it

	wakeApply chan struct{} // tells applyGroups that the open group has something to apply; closed by Close
	applied   chan *group   // from applyGroups to syncGroups
	stopped   chan struct{} // closed when syncGroups has ended
	closing   chan struct{} // closed when the store is closed or has failed
	failed    chan struct{} // closed when the store has failed
	closeDone chan struct{} // closed when the first Close has ended; a second one waits for it
	readers   sync.WaitGroup
	backup    sync.Mutex // held by the Backup call under way

	mu      sync.Mutex // guards all that follows
	closed  bool
	failure error
	full    bool   // less than reserve is left on the disk, when it was last checked
	lastNow int64  // the time of the call under way, in milliseconds
	tokens  uint64 // how many were made

	excluded int   // Exclude calls that are not released yet
	sweepAt  int64 // initial sweepAt of new queues

	waits   *waitlist.List[claimResult] // Claim calls that wait
	awaited map[*routeState]struct{}    // the routes that they wait for
	alarm   *waitlist.Alarm

	nextID, reservedIDs uint64 // numbers up to reservedIDs may be given out: see newID
	lastPartition       uint32 // number given out last

	listed   []*routeState            // that Stats reports one by one
	unlisted map[*routeState]struct{} // that Stats only sums up
	rest     int64                    // messages of unlisted routes

	queues         map[string]*queue
	partitions     *cache[partitionName, *partition] // pinned while they have messages or a group changes them
	partitionsByID map[uint32]*partition
	keys           *cache[store.Key, *keyState]
	records        *cache[store.RecordKey, *recordState]
	leases         indexed[*lease] // by their end
	attempts       *journal

	attached   int      // messages in all windows
	groups     uint64   // how many there were; the number of the latest
	recent     *recent  // keys and records that may be in a memtable
	openGroup  *group   // to which commits are added; never nil while the store is open
	inFlight   []*group // from the oldest that is not durable to the open one
	tombstones map[location]*group

	keyBuf, valBuf []byte    // scratch for database keys and values; a batch copies them
	lastPinned     *keyState // the key that the Tx under way has named last, or nil
}

var _ store.Store = (*Store)(nil)

// lock locks the store for a call, and returns the time. If the store is closed or has failed
// it returns the error, and the mutex is not held.
func (s *Store) lock(verb string) (now int64, err error) {
	s.mu.Lock()
	if s.closed || s.failure != nil {
		err := s.closedErrorLocked(verb)
		s.mu.Unlock()
		return 0, err
	}
	return s.now(), nil
}

// read keeps the database open for reads without the mutex, until release is called.
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

// closedError returns why the store cannot be used any more: ErrClosed, or the failure.
func (s *Store) closedError(verb string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closedErrorLocked(verb)
}

func (s *Store) closedErrorLocked(verb string) error {
	if s.closed || s.failure == nil {
		return store.Closed(verb)
	}
	return s.failure
}

// Dir returns the folder of the store: an absolute path without symbolic links. It is empty for a
// store that is not on disk.
func (s *Store) Dir() string {
	if s.fs != disk {
		return ""
	}
	return s.dir
}

// Close ends waiting calls, waits for commits and reads under way, and closes the directory.
// A store that has failed is left as it is, and its failure is returned: the directory stays
// locked until the process ends, since goroutines of Pebble may still write to it.
//
// In this order: no new call begins, waiting calls end, the open group and those before it
// become durable, reads end, Pebble and the journal are closed, the seal is written, the
// directory is unlocked. A crash in between is a crash like any other.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.closeDone
		return nil
	}
	s.closed = true
	defer close(s.closeDone)
	s.alarm.Stop()
	if s.failure != nil {
		s.mu.Unlock()
		return s.failure
	}
	s.waits.Finish(store.Closed("claim"))
	close(s.closing)
	s.kick()
	close(s.wakeApply)
	s.mu.Unlock()

	select {
	case <-s.stopped:
	case <-s.failed:
		return s.failure
	}
	s.readers.Wait()
	return s.closeFiles()
}

// closeFiles closes the database and leaves a seal. It runs in a goroutine of its own, because
// guardFS stops the goroutine of Pebble for good if an error occurs: then the store fails,
// and Close returns that.
func (s *Store) closeFiles() error {
	closed := make(chan error, 1)
	go func() {
		err := errors.Join(s.openGroup.batch.Close(), s.attempts.close(), s.db.Close())
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
