// Package outage stands between a part of Abide and its store. It bounds how long a call
// may take, and logs an outage once: when it begins, each minute while it lasts, and when it
// is over, however many calls fail meanwhile. So those who make the calls need not log that
// they failed.
package outage

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Config is what a [Store] is made of.
type Config struct {
	Store  store.Store
	Clock  base.Clock
	Logger *slog.Logger

	// Part is the part of Abide that makes the calls, for the log.
	Part string

	// Limit is how long a commit or the read of a log, a key or a record may take. After
	// that it fails with [context.DeadlineExceeded], and the outcome of a commit is unknown.
	// Zero means that there is no limit.
	Limit time.Duration

	// Failed, if it is not nil, is called once when the store returns [store.ErrFailed].
	Failed func(error)
}

const (
	// calm is how long no call must have failed before an outage is over: calls that fail
	// now and then are one outage.
	calm = 10 * time.Second

	// remind is how often an outage that lasts is logged.
	remind = time.Minute

	callCommit = "commit"
)

// Store is a store whose outages are logged.
type Store struct {
	store.Store
	cfg Config

	out    atomic.Bool // there is an outage
	limit  atomic.Pointer[sharedLimit]
	failed sync.Once

	mu     sync.Mutex
	began  time.Time
	latest time.Time // when a call failed last
	logged time.Time
	errors int             // since it began
	broken map[string]bool // calls that have failed, and not succeeded since
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Pressured = (*Store)(nil)
)

// Watch returns a store that makes the calls of cfg.Store. One that is watched already is
// returned as it is.
func Watch(cfg Config) store.Store {
	if watched, ok := cfg.Store.(*Store); ok {
		return watched
	}
	return &Store{Store: cfg.Store, cfg: cfg, broken: map[string]bool{}}
}

// note notes how a call ended that was made with ctx.
func (s *Store) note(ctx context.Context, call string, err error) {
	switch {
	case err == nil, answered(err):
		if s.out.Load() {
			s.worked(call)
		}
	case errors.Is(err, store.ErrFailed):
		s.failed.Do(func() {
			s.cfg.Logger.Error("store failed", "part", s.cfg.Part, "call", call, "error", err)
			if s.cfg.Failed != nil {
				s.cfg.Failed(err)
			}
		})
	case errors.Is(err, store.ErrClosed), ctx.Err() != nil: // the caller has ended it
	default:
		s.broke(call, err)
	}
}

// answered reports whether an error is an answer of a store that works.
func answered(err error) bool {
	for _, answer := range []error{store.ErrConflict, store.ErrClaimLost, store.ErrNotFound, store.ErrInvalid, store.ErrCorrupt, store.ErrFormat} {
		if errors.Is(err, answer) {
			return true
		}
	}
	_, partly := errors.AsType[*store.NotRenewedError](err)
	return partly
}

// Permanent reports whether an error says that the store will not serve again: it was closed,
// or has failed.
func Permanent(err error) bool {
	return errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrFailed)
}

// broke notes that a call failed.
func (s *Store) broke(call string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	s.latest = now
	s.errors++
	s.broken[call] = true
	switch {
	case !s.out.Load():
		s.began, s.logged, s.errors = now, now, 1
		s.out.Store(true)
		s.cfg.Logger.Warn("store unavailable", "part", s.cfg.Part, "call", call, "error", err)
	case now.Sub(s.logged) >= remind:
		s.logged = now
		s.cfg.Logger.Error("store still unavailable", "part", s.cfg.Part, "for", now.Sub(s.began), "errors", s.errors, "call", call, "error", err)
	}
}

// worked notes that a call succeeded. The outage is over when all calls that failed, or a
// commit, have succeeded since, and none has failed for a while.
func (s *Store) worked(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.broken, call)
	if call == callCommit { // a store that commits does the rest too, and some calls are rare
		clear(s.broken)
	}
	if !s.out.Load() || len(s.broken) > 0 || s.cfg.Clock.Now().Sub(s.latest) < calm {
		return
	}
	s.out.Store(false)
	s.cfg.Logger.Info("store available again", "part", s.cfg.Part, "after", s.latest.Sub(s.began), "errors", s.errors)
}

// bound returns ctx with the limit of a call.
func (s *Store) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case s.cfg.Limit <= 0:
		return ctx, func() {}
	case ctx == context.Background():
		return s.shared(), func() {}
	}
	return context.WithTimeout(ctx, s.cfg.Limit)
}

// shareFor is for how long calls share a context with a limit, of which theirs may be so much longer.
const shareFor = 100 * time.Millisecond

// sharedLimit is a context for the calls that began within shareFor of its first one.
type sharedLimit struct {
	context.Context                    //nolint:containedctx // it is for calls of one moment
	cancel          context.CancelFunc // not called: others may use it, and it ends by its timer
	until           time.Time
}

// shared returns a context with the limit of a call that has no other end: most commits. Thousands of
// them begin in a second, and one context for each took 2 % of the CPU. It ends by itself.
func (s *Store) shared() context.Context {
	now := s.cfg.Clock.Now()
	if l := s.limit.Load(); l != nil && now.Before(l.until) {
		return l.Context
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Limit+shareFor)
	s.limit.Store(&sharedLimit{ctx, cancel, now.Add(shareFor)})
	return ctx
}

// watched makes a call that has no limit.
func watched[T any](ctx context.Context, s *Store, call string, do func() (T, error)) (T, error) {
	v, err := do()
	s.note(ctx, call, err)
	return v, err
}

// bounded makes a call that has one.
func bounded[T any](ctx context.Context, s *Store, call string, do func(context.Context) (T, error)) (T, error) {
	short, cancel := s.bound(ctx)
	defer cancel()
	v, err := do(short)
	s.note(ctx, call, err)
	return v, err
}

// Commit is that of the store.
func (s *Store) Commit(ctx context.Context, tx *store.Tx) error {
	short, cancel := s.bound(ctx)
	defer cancel()
	err := s.Store.Commit(short, tx)
	s.note(ctx, callCommit, err)
	return err
}

// Release is that of the store.
func (s *Store) Release(ctx context.Context, r store.Release) error {
	short, cancel := s.bound(ctx)
	defer cancel()
	err := s.Store.Release(short, r)
	s.note(ctx, "release", err)
	return err
}

// Claim is that of the store.
func (s *Store) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	return watched(ctx, s, "claim", func() ([]store.Claim, error) { return s.Store.Claim(ctx, req) })
}

// Renew is that of the store. Its callers know best how long they can wait, so the end of
// their context is a failure too.
func (s *Store) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	lost, err := s.Store.Renew(ctx, d, leases)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		ctx = context.WithoutCancel(ctx)
	}
	s.note(ctx, "renew", err)
	return lost, err
}

// ReadLog is that of the store.
func (s *Store) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	return bounded(ctx, s, "read log", func(ctx context.Context) (store.LogPage, error) { return s.Store.ReadLog(ctx, key, from) })
}

// Pending is that of the store.
func (s *Store) Pending(ctx context.Context, key store.Key, limit int) ([]store.Message, error) {
	return bounded(ctx, s, "pending", func(ctx context.Context) ([]store.Message, error) { return s.Store.Pending(ctx, key, limit) })
}

// Leases is that of the store.
func (s *Store) Leases(ctx context.Context, q store.LeaseQuery) ([]store.LeaseInfo, error) {
	return bounded(ctx, s, "leases", func(ctx context.Context) ([]store.LeaseInfo, error) { return s.Store.Leases(ctx, q) })
}

// Get is that of the store.
func (s *Store) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	return bounded(ctx, s, "get", func(ctx context.Context) (store.Record, error) { return s.Store.Get(ctx, key) })
}

// List is that of the store.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	return watched(ctx, s, "list", func() (store.Page, error) { return s.Store.List(ctx, q) })
}

// Count is that of the store.
func (s *Store) Count(ctx context.Context, q store.Query, limit int) (int, error) {
	return watched(ctx, s, "count", func() (int, error) { return s.Store.Count(ctx, q, limit) })
}

// Await is that of the store.
func (s *Store) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	return watched(ctx, s, "await", func() (store.Record, error) { return s.Store.Await(ctx, key, after) })
}

// Pressure is that of the store.
func (s *Store) Pressure() float64 { return store.Pressure(s.Store) }

// Stats is that of the store.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	return watched(ctx, s, "stats", func() (store.Stats, error) { return s.Store.Stats(ctx) })
}
