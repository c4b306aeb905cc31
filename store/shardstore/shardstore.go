package shardstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Shard is one of the stores that a [Store] is made of.
type Shard struct {
	// Name is what the directory calls it: lower-case letters, digits, hyphens and dots, at most
	// [MaxShardName] bytes. It must not change.
	Name string

	// Store is the store. It belongs to the [Store], which closes it.
	Store store.Store
}

// MaxShardName is the largest length of the name of a shard, in bytes.
const MaxShardName = 63

// Options of a store.
type Options struct {
	// Clock is the clock by which shards that do not answer are given up; nil means that of the
	// machine. What is due is decided by the clocks of the shards.
	Clock clock.Clock

	// Logger receives warnings about shards that are down. Nil means slog.Default.
	Logger *slog.Logger

	// Mover says that the process moves tenants, and changes nothing else: commits, claims,
	// renewals and releases return [store.ErrReadOnly]. Moves need not wait for it to acknowledge
	// anything, so that one which was killed is not in the way of the next.
	Mover bool

	// Pace is the share of the time in which a move copies, more than 0 and at most 1. It rests in
	// between, since others use the shards, too. While a tenant is closed it does not rest. 0 means
	// [DefaultPace].
	Pace float64
}

// DefaultPace is the share of the time in which a move copies.
const DefaultPace = 0.5

// Store is one store over several shards.
type Store struct {
	clock  base.Clock
	log    *slog.Logger
	id     string // of this process, so that not all do something at the same time
	mover  bool
	pace   float64
	shards []*shard // in the order of their names
	first  int      // the first of those that are watched besides the home
	byName map[string]*shard

	routing atomic.Pointer[routing]
	turns   turns
	limits  store.Limits
	acking  chan struct{} // wakes the acknowledger

	background context.Context //nolint:containedctx // of what runs until the store is closed
	cancel     context.CancelFunc

	mu      sync.Mutex
	closed  bool
	tasks   sync.WaitGroup // what runs until the store is closed; added to while open
	follows map[*follow]struct{}
	retired []*routing    // those that changes may still go by
	changed chan struct{} // closed when a shard is up again or the directory has changed
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Portable  = (*Store)(nil)
	_ store.Pressured = (*Store)(nil)
)

// New returns a store over shards, which belong to it from then on: it closes them, also after an
// error. Where no shard has a directory it makes one, which all shards must be reachable for: slots
// are spread evenly over shards that are all empty. If one of them holds something, as a store that is
// to become the first of several shards does, it has all slots. It returns [store.ErrInvalid] if two
// do, for names that are malformed or given twice, and if the directory names a shard that is not
// among these.
func New(ctx context.Context, shards []Shard, o Options) (*Store, error) {
	list := make([]*shard, 0, len(shards))
	for _, s := range shards {
		list = append(list, &shard{name: s.Name, store: s.Store})
	}
	return open(ctx, list, o)
}

// open returns a store over shards that may not be open yet.
func open(ctx context.Context, shards []*shard, o Options) (*Store, error) {
	if o.Clock == nil {
		o.Clock = base.System{}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Store{
		clock: o.Clock, log: o.Logger, id: base.NewUUID(o.Clock.Now()), mover: o.Mover, pace: cmp.Or(o.Pace, DefaultPace), shards: slices.Clone(shards), byName: map[string]*shard{},
		follows: map[*follow]struct{}{}, changed: make(chan struct{}), acking: make(chan struct{}, 1),
	}
	if len(shards) > 0 {
		s.first = int(maphash.String(maphash.MakeSeed(), s.id) % uint64(len(shards))) //nolint:gosec // less than len
	}
	s.background, s.cancel = context.WithCancel(context.Background())
	slices.SortFunc(s.shards, func(a, b *shard) int { return strings.Compare(a.name, b.name) })
	for i, sh := range s.shards {
		sh.number = i
		sh.clock, sh.log, sh.probe = s.clock, s.log, func() { s.spawn(func() { s.probe(sh) }) }
		s.byName[sh.name] = sh
	}
	if err := s.begin(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// begin checks the names, opens the shards, finds or makes the directory, and starts to watch it.
func (s *Store) begin(ctx context.Context) error {
	if !(s.pace > 0 && s.pace <= 1) {
		return fmt.Errorf("shardstore: the pace is %v, more than 0 and at most 1 is allowed: %w", s.pace, store.ErrInvalid)
	}
	if len(s.shards) == 0 {
		return fmt.Errorf("shardstore: there are no shards: name at least one: %w", store.ErrInvalid)
	}
	for i, sh := range s.shards {
		if err := checkName(sh.name); err != nil {
			return err
		}
		if i > 0 && s.shards[i-1].name == sh.name {
			return fmt.Errorf("shardstore: shard %s is given twice: %w", sh.name, store.ErrInvalid)
		}
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	s.limits = store.ContractLimits()
	for _, sh := range s.shards {
		st := sh.opened()
		if st == nil {
			continue
		}
		l := st.Limits()
		s.limits.TxOps, s.limits.TxBytes = min(s.limits.TxOps, l.TxOps), min(s.limits.TxBytes, l.TxBytes)
		s.limits.Body, s.limits.Record = min(s.limits.Body, l.Body), min(s.limits.Record, l.Record)
		if err := s.join(ctx, sh); err != nil {
			sh.setDown(err)
		}
	}
	for _, sh := range s.shards {
		s.spawn(func() { s.watch(sh) })
	}
	s.spawn(s.acknowledger)
	return nil
}

func checkName(name string) error {
	bad := func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-._", r) }
	if name == "" || len(name) > MaxShardName || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("shardstore: %q is no name of a shard: 1 to %d lower-case letters, digits, hyphens, underscores and dots are allowed: %w", name, MaxShardName, store.ErrInvalid)
	}
	return nil
}

// spawn runs f in a goroutine that Close waits for, unless the store is closed.
func (s *Store) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.tasks.Go(f)
	return true
}

// check returns the error of a call on a store that is closed, or with a context that has ended.
func (s *Store) check(ctx context.Context, verb string) error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return store.Closed(verb)
	}
	return ctx.Err()
}

// Close closes all shards.
func (s *Store) Close() error {
	s.mu.Lock()
	was := s.closed
	s.closed = true
	s.mu.Unlock()
	if was {
		return nil
	}
	s.cancel()
	errs := make([]error, len(s.shards))
	var closing sync.WaitGroup
	for i, sh := range s.shards {
		closing.Go(func() { errs[i] = sh.close() })
	}
	closing.Wait()
	s.tasks.Wait()
	return errors.Join(errs...)
}

// Pressure is the highest of the shards.
func (s *Store) Pressure() float64 {
	most := 0.0
	for _, sh := range s.shards {
		if st, err := sh.use(); err == nil {
			most = max(most, store.Pressure(st))
		}
	}
	return most
}

// Limits are the least of those of the shards that could be reached when the store was opened.
func (s *Store) Limits() store.Limits { return s.limits }

// Directory returns the directory that the process goes by.
func (s *Store) Directory() *Directory { return s.routing.Load().dir }
