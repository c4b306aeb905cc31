package shardstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// shard is one of the stores. It may not be open yet: a process starts also while one of its
// shards cannot be reached.
type shard struct {
	name   string
	number int                                            // among those of the configuration
	open   func(ctx context.Context) (store.Store, error) // nil if the store was given
	clock  base.Clock
	log    *slog.Logger

	// probe starts what finds out that the shard is up again.
	probe func()

	mu     sync.Mutex
	store  store.Store // nil while it is not open
	ready  bool        // it may be used: the directory was acknowledged
	acked  int64       // the version of the directory that was acknowledged
	closed bool
	cause  error     // why it is down; nil if it is up
	since  time.Time // when it went down
}

// use returns the store of the shard, or an error if it is not open.
func (sh *shard) use() (store.Store, error) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.store == nil || !sh.ready {
		return nil, fmt.Errorf("shardstore: shard %s cannot be reached: %w", sh.name, sh.reason())
	}
	return sh.store, nil
}

// opened returns the store of the shard, also before it may be used; nil if it is not open.
func (sh *shard) opened() store.Store {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.store
}

func (sh *shard) setReady() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.ready = true
}

func (sh *shard) setAcked(version int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.acked = version
}

func (sh *shard) ackedVersion() int64 {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.acked
}

// errNotOpen is the reason why a shard is not open that nobody has tried to open.
var errNotOpen = errors.New("it is not open yet")

// reason returns why the shard is down. The lock is held.
func (sh *shard) reason() error {
	if sh.cause != nil {
		return sh.cause
	}
	return errNotOpen
}

// ensure opens the store, unless it is open.
func (sh *shard) ensure(ctx context.Context) (store.Store, error) {
	if st := sh.opened(); st != nil {
		return st, nil
	}
	st, err := sh.open(ctx)
	if err != nil {
		return nil, sh.failed(err)
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case sh.closed:
		return nil, errors.Join(store.Closed("open"), st.Close())
	case sh.store != nil: // another call was faster
		return sh.store, st.Close()
	}
	sh.store = st
	return st, nil
}

// isUp reports whether the shard is not known to be down.
func (sh *shard) isUp() bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.cause == nil && sh.ready
}

// setDown notes that a call of the shard failed, and has the shard probed.
func (sh *shard) setDown(err error) {
	sh.mu.Lock()
	first := sh.cause == nil && !sh.closed
	if first {
		sh.cause, sh.since = err, sh.clock.Now()
	}
	sh.mu.Unlock()
	if first {
		sh.log.Warn("shard down", "shard", sh.name, "error", err)
		sh.probe()
	}
}

// setUp notes that the shard answers, and reports whether it was down.
func (sh *shard) setUp() bool {
	sh.mu.Lock()
	was, since := sh.cause != nil, sh.since
	sh.cause = nil
	sh.mu.Unlock()
	if was {
		sh.log.Info("shard up again", "shard", sh.name, "after", sh.clock.Now().Sub(since))
	}
	return was
}

// close closes the store.
func (sh *shard) close() error {
	sh.mu.Lock()
	st := sh.store
	sh.closed = true
	sh.mu.Unlock()
	if st == nil {
		return nil
	}
	return sh.failed(st.Close())
}

// failed returns the error of a call of the shard. Answers of a store that works stay as they are;
// others name the shard. That one shard has failed for good does not mean that the store has.
func (sh *shard) failed(err error) error {
	switch {
	case err == nil, answered(err):
		return err
	case errors.Is(err, store.ErrFailed):
		return fmt.Errorf("shardstore: shard %s: %v", sh.name, err) //nolint:errorlint // see above
	}
	return fmt.Errorf("shardstore: shard %s: %w", sh.name, err)
}

// answered reports whether an error is an answer of a store that works, or of the caller's context.
func answered(err error) bool {
	for _, answer := range []error{
		store.ErrConflict, store.ErrClaimLost, store.ErrNotFound, store.ErrInvalid, store.ErrClosed, context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}
	_, partly := errors.AsType[*store.NotRenewedError](err)
	return partly
}

// callLimit is how long a call that concerns all shards waits for one of them before the shard counts
// as down. Calls that concern one tenant wait for as long as their caller does.
const callLimit = 5 * time.Second

// errSlow is the reason of a shard that did not answer within [callLimit].
var errSlow = fmt.Errorf("no answer within %v", callLimit)

// bounded makes a call of a shard that concerns all shards, and notes whether the shard is up: it
// is down if the call fails, or takes too long although the caller waits.
func bounded[T any](ctx context.Context, sh *shard, call func(ctx context.Context, st store.Store) (T, error)) (T, error) {
	var none T
	st, err := sh.use()
	if err != nil {
		return none, err
	}
	short, cancel := withLimit(ctx, sh.clock, callLimit)
	defer cancel(nil)
	v, err := call(short, st)
	if err != nil && ctx.Err() == nil && context.Cause(short) == errSlow { //nolint:errorlint // it is that very value
		err = errSlow
	}
	if err == nil || answered(err) {
		return v, err
	}
	sh.setDown(err)
	return none, sh.failed(err)
}

// withLimit returns a context that ends after d by a clock, with the cause errSlow.
func withLimit(ctx context.Context, clock base.Clock, d time.Duration) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := clock.AfterFunc(d, func() { cancel(errSlow) })
	return ctx, func(err error) {
		stop()
		cancel(err)
	}
}

// pause is how long to wait before a shard that is down is tried again.
func (sh *shard) pause() backoff.Pause { return backoff.Outage(sh.clock) }
