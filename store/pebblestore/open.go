package pebblestore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// Open opens the store in a directory, which it creates if it does not exist. It returns
// [store.ErrInUse] if the directory is open, in another process or in this one,
// [store.ErrFormat] if it is not a store or has a newer format, [store.ErrCorrupt] if files are
// missing or damaged, and [store.ErrBackup] or [store.ErrIncomplete] for a backup.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := newStore(dir, o)
	s.inspecting = o.Inspect
	s.sweepAt = s.firstSweep()
	if err := s.lockDir(); err != nil {
		return nil, err
	}
	// An error may block the goroutine of Pebble for good (guardFS, Fatalf): so it opens in a
	// goroutine of its own.
	opened := make(chan error, 1)
	go func() { opened <- s.open(ctx, o) }()
	select {
	case err := <-opened:
		if err != nil {
			return nil, err
		}
	case <-s.failed:
		return nil, s.failure
	}
	go s.applyGroups()
	go s.syncGroups()
	s.mu.Lock()
	s.full = s.spaceBelow(s.reserve)
	s.setAlarm(s.now())
	s.mu.Unlock()
	return s, nil
}

// newStore returns a store without its database, with the defaults of o.
func newStore(dir string, o Options) *Store {
	lim := defaultLimits
	if o.limits != nil {
		lim = *o.limits
	}
	s := &Store{
		dir: dir, fs: o.fs, clock: o.Clock, logger: o.Logger, reserve: o.Reserve, limits: lim,
		wakeApply:      make(chan struct{}, 1),
		applied:        make(chan *group),
		stopped:        make(chan struct{}),
		closing:        make(chan struct{}),
		failed:         make(chan struct{}),
		closeDone:      make(chan struct{}),
		awaited:        map[*routeState]struct{}{},
		queues:         map[string]*queue{},
		partitions:     newCache[partitionName, *partition](lim.partitions),
		unlisted:       map[*routeState]struct{}{},
		partitionsByID: map[uint32]*partition{},
		keys:           newCache[store.Key, *keyState](lim.keys),
		records:        newCache[store.RecordKey, *recordState](lim.records),
		tombstones:     map[location]*group{},
		recent:         newRecent(),
		leases: indexed[*lease]{
			less: func(a, b *lease) bool { return a.until < b.until },
			slot: func(l *lease) *int { return &l.index },
		},
	}
	s.partitions.onEvict = s.dropPartition
	if s.fs == nil {
		s.fs = disk
	}
	if s.clock == nil {
		s.clock = base.System{}
	}
	if s.logger == nil {
		s.logger = slog.Default()
	}
	s.waits = waitlist.New[claimResult](&s.mu, s.clock, s.expireWait)
	s.waits.Detached = s.detached
	s.alarm = waitlist.NewAlarm(s.clock, s.onAlarm)
	s.time = base.NewSteady(s.clock, func(lead time.Duration) {
		s.logger.Warn("pebblestore: clock is behind the store's time", "dir", s.dir, "lead", lead)
	})
	if s.reserve == 0 {
		s.reserve = DefaultReserve
	}
	_, _ = rand.Read(s.epoch[:]) // it never fails
	return s
}

// lockDir creates the directory and locks it. The lock is that of the operating system on the
// file LOCK, so it ends with the process.
func (s *Store) lockDir() error {
	if err := s.makeDir(); err != nil {
		return fmt.Errorf("pebblestore: make directory %s: %w", s.dir, err)
	}
	if s.fs == disk { // the lock is by name, of which a directory may have several
		dir, err := filepath.Abs(s.dir)
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if err != nil {
			return fmt.Errorf("pebblestore: open %s: %w", s.dir, err)
		}
		s.dir = dir
		if err := s.warnIfShared(); err != nil {
			return fmt.Errorf("pebblestore: open %s: %w", s.dir, err)
		}
	}
	lock, err := pebble.LockDirectory(s.dir, s.fs)
	if err != nil {
		if isLocked(err) {
			return fmt.Errorf("pebblestore: open %s: another process has it open, and one is all that is allowed: %w", s.dir, store.ErrInUse)
		}
		return fmt.Errorf("pebblestore: lock %s: %w", s.dir, err)
	}
	s.dirLock = lock
	return nil
}

// makeDir creates the directory and those above it, for their owner alone, and syncs the
// directories that they were created in: Pebble does so only for what it creates itself. A
// store whose first commit is durable must not vanish because its directory was not.
func (s *Store) makeDir() error {
	var changed []string
	for dir := s.dir; ; dir = changed[len(changed)-1] {
		_, err := s.fs.Stat(dir)
		if err != nil && !isNotExist(err) {
			return err
		}
		if err == nil || s.fs.PathDir(dir) == dir {
			break
		}
		changed = append(changed, s.fs.PathDir(dir))
	}
	if err := s.fs.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	for _, dir := range changed {
		f, err := s.fs.OpenDir(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

const (
	// sublevelsPerCompaction is how many sublevels of level 0 make Pebble run one more
	// compaction at a time, up to maxCompactions. Usually there are one or two sublevels.
	sublevelsPerCompaction = 4

	// maxSublevels is at how many sublevels commits wait for compactions: each of them is
	// one more table in which a key is searched. All compactions run long before.
	maxSublevels = 64
)

// maxCompactions returns how many compactions may run at a time on so many cores: half of
// them, but two at least, so that a long one does not hold up level 0, and eight at most.
func maxCompactions(cores int) int { return min(max(cores/2, 2), 8) }

// pebbleOptions returns the settings of Pebble. docs/performance.md says what they
// are worth.
//
// What differs from Pebble's defaults, and why:
//
//   - large memtables: most messages are put and consumed within one, and their
//     deletes then never reach a table;
//   - an early compaction of level 0 and a late stop: reads search each
//     sublevel, and a stop is a stall of commits;
//   - filters on all levels: most keys that are looked up do not exist;
//   - a comparer with a prefix (split), so that filters work for the prefix of a
//     key as well as for a whole database key.
func pebbleOptions(o Options, s *Store) *pebble.Options {
	p := &pebble.Options{
		FS:                          s.fs,
		Lock:                        s.dirLock,
		Comparer:                    comparer,
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		MemTableSize:                memTable,
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       maxSublevels,
		LBaseMaxBytes:               64 << 20,
		CompactionConcurrencyRange:  func() (int, int) { return 1, maxCompactions(runtime.GOMAXPROCS(0)) },
		Logger:                      pebbleLogger{s.logger, s.fail},
	}
	p.Experimental.L0CompactionConcurrency = sublevelsPerCompaction
	// Pebble takes the memory of its memtables out of the cache: without an extra
	// share for them, the filters that tell new keys from old ones were read from disk
	// again and again, and loading ten million messages took three times as long.
	p.CacheSize = o.CacheBytes
	if p.CacheSize == 0 {
		p.CacheSize = DefaultCache
	}
	p.CacheSize += 2 * memTable
	for i := range p.Levels {
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	p.EventListener = &pebble.EventListener{
		FlushEnd:        s.recent.flushEnd,
		BackgroundError: func(err error) { s.logger.Error("pebblestore: background work failed", "dir", s.dir, "error", err) },
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			// The reader may hold the mutex, which fail takes.
			go s.fail(fmt.Errorf("%s: %w: %w", info.Path, info.Details, store.ErrCorrupt))
		},
	}
	if o.tune != nil {
		o.tune(p)
	}
	return p
}

// open opens the database and reads what must be in memory.
//
// In this order, each step relying on those before:
//
//  1. checkBackup: a backup is not opened for writing.
//  2. checkFiles: the files that Pebble needs are there.
//  3. breakSeal: after a clean Close every file is as it was left. The seal is
//     removed before anything is changed.
//  4. Pebble replays its log, through guardFS.
//  5. readFormat and migrate: the format is one that this version reads.
//  6. readIDs: numbers that an earlier process may have used are skipped.
//  7. readPartitions: one small value per partition that has messages. Their
//     messages stay on disk: the time to open does not grow with what is pending.
//  8. readAttempts: the journal, without entries for messages that are gone.
func (s *Store) open(ctx context.Context, o Options) error {
	err := s.checkBackup(o.Inspect)
	if err == nil {
		err = s.checkFiles()
	}
	if err == nil {
		err = s.breakSeal()
	}
	if err != nil {
		err = fmt.Errorf("pebblestore: open %s: %w", s.dir, err)
		return errors.Join(err, s.dirLock.Close())
	}
	options := pebbleOptions(o, s)
	s.guard(options)
	db, err := pebble.Open(s.dir, options)
	if err != nil {
		return errors.Join(s.openError(err), s.dirLock.Close())
	}
	s.db = db
	// Pebble has written what was in its log into tables, and begins with one memtable
	// that is empty.
	s.recent.oldMemtables = db.Metrics().MemTable.Count > 1
	format, err := s.readFormat()
	if err == nil {
		err = s.migrate(ctx, format)
	}
	if err == nil {
		err = s.readIDs()
	}
	if err == nil {
		err = s.readPartitions()
	}
	if err == nil {
		err = s.readAttempts()
	}
	if err != nil {
		return errors.Join(err, db.Close(), s.dirLock.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openGroup = s.newGroup()
	return nil
}

// openError returns the error of a directory that Pebble does not open, with the sentinel that
// fits: Pebble has no sentinels for these, so its texts are matched.
func (s *Store) openError(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, "comparer name"), strings.Contains(text, "format major version"):
		return fmt.Errorf("pebblestore: open %s: this is not a directory of Abide: %w: %w", s.dir, err, store.ErrFormat)
	case pebble.IsCorruptionError(err), isNotExist(err), strings.Contains(text, "object size mismatch"):
		return fmt.Errorf("pebblestore: open %s: %w%s: %w", s.dir, err, s.suspects(text), store.ErrCorrupt)
	}
	return fmt.Errorf("pebblestore: open %s: %w", s.dir, err)
}

// suspects names the files that an error of Pebble may be about, where the error does not.
func (s *Store) suspects(text string) string {
	ending := ""
	switch {
	case strings.Contains(text, "replaying WAL"):
		ending = ".log"
	case strings.Contains(text, "key=value"), strings.Contains(text, "section"):
		ending = "OPTIONS-"
	default:
		return ""
	}
	files, _ := s.fs.List(s.dir) // best effort: the error is complete without
	files = slices.DeleteFunc(files, func(name string) bool { return !strings.Contains(name, ending) })
	slices.Sort(files)
	return " (in one of " + strings.Join(files, ", ") + ")"
}

// readIDs continues with the first number that no earlier process can have used: a block of
// numbers is reserved on disk in the same group as its first use.
func (s *Store) readIDs() error {
	s.nextID, s.reservedIDs = 1, 1
	v, closer, err := s.db.Get(metaIDs)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return s.readError("open", err)
	}
	defer closer.Close() //nolint:errcheck // what was read is in memory
	if len(v) != 8 {
		return fmt.Errorf("pebblestore: open %s: counter has %d bytes: %w", s.dir, len(v), store.ErrCorrupt)
	}
	s.nextID = binary.BigEndian.Uint64(v)
	s.reservedIDs = s.nextID
	return nil
}

// readPartitions reads the headers of all partitions. Their messages stay on disk. Empty ones
// are deleted.
//
// A partition starts with nothing in its window, and its cursor and next at the
// floor. Whether something is there is found out when it is loaded: next may be
// too early, never too late.
func (s *Store) readPartitions() error {
	s.mu.Lock() // the store may fail concurrently, in the background work of Pebble
	defer s.mu.Unlock()
	var empty []uint32
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tagPartition}, UpperBound: []byte{tagPartition + 1}})
	if err != nil {
		return s.readError("open", err)
	}
	for it.First(); it.Valid() && err == nil; it.Next() {
		r := reader{b: it.Value()}
		name := partitionName{r.string(), r.string(), r.string()}
		id := binary.BigEndian.Uint32(it.Key()[1:])
		count := int64(r.uvarint())
		floor := pos{due: int64(r.uvarint()), seq: r.uvarint()}
		if err = r.check("partition", it.Key()); err != nil {
			break
		}
		s.lastPartition = max(s.lastPartition, id)
		if count == 0 {
			empty = append(empty, id)
			continue
		}
		l := s.addPartition(id, name)
		s.addCount(l, count)
		s.partitions.unpin(l.entry) // addCount has pinned it
		l.cursor = floor
		l.setNext(floor)
	}
	if err := closeIter(it, err); err != nil {
		return s.readError("open", err)
	}
	for _, id := range empty {
		if err := s.db.Delete(partitionKey(nil, id), pebble.NoSync); err != nil {
			return fmt.Errorf("pebblestore: open %s: %w", s.dir, err)
		}
	}
	return nil
}

// readAttempts reads the journal, and drops entries without a message. It reads the database
// once for each entry: the journal has entries only for messages that were claimed, and is
// bounded by limits.journal and the number of those.
func (s *Store) readAttempts() (err error) {
	if s.attempts, err = openJournal(s.fs, s.dir, s.limits.journal); err != nil {
		return err
	}
	return s.attempts.keep(func(at location) (bool, error) {
		_, closer, err := s.db.Get(msgKey(nil, at.partition, at.pos))
		if errors.Is(err, pebble.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, s.readError("open", err)
		}
		return true, closer.Close()
	})
}
