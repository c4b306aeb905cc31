package claimloop

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/store"
)

// LongPoll is how long a claim of [Loop.Run] waits. A commit or a due time ends the wait.
const LongPoll = 10 * time.Minute

// Loop claims keys of a queue and has them handled. Its fields are not changed while it runs,
// so several goroutines may run one Loop.
type Loop struct {
	// Store is one whose outages are logged: see internal/outage.
	Store store.Store
	Clock base.Clock

	// Request is what is claimed. Its Wait is set by the loop. If it has no Owner, that is the
	// process.
	Request store.ClaimRequest

	// Prepare, if it is not nil, is called before each claim. It waits until there is capacity
	// for claims, and may change the request of this claim: to claim as many keys as there is
	// capacity for, or not to wait. It returns false if there is nothing to claim for; then the
	// loop ends.
	Prepare func(ctx context.Context, req *store.ClaimRequest) bool

	// Claimed, if it is not nil, is called after each claim, also after one that failed, with
	// how many keys were to be claimed at most and how many were: to return capacity.
	Claimed func(most, n int)

	// Handle takes over claims, at least one. It returns an error only if the store is in
	// trouble. It gets the context of the loop, which may have ended.
	Handle func(ctx context.Context, claims []store.Claim) error

	// Gather is the least time between two batches that are neither small nor full: many small
	// commits cost more than a few large ones. A message that is ready alone is handled at once.
	Gather time.Duration
}

// Run claims and handles until ctx ends, and then returns nil. It returns an error that matches
// [store.ErrClosed] or [store.ErrFailed] if the store will not serve again.
func (l *Loop) Run(ctx context.Context) error {
	pause := backoff.Outage(l.Clock)
	pace := pace{clock: l.Clock, every: l.Gather}
	for {
		pace.wait(ctx)
		claims, most, err := l.claim(ctx, LongPoll)
		if len(claims) == 0 && (most == 0 || ctx.Err() != nil) {
			return nil //nolint:nilerr // of a call that was stopped
		}
		pace.took(len(claims), len(claims) == most)
		if len(claims) > 0 {
			err = l.Handle(ctx, claims)
		}
		switch {
		case err == nil:
			pause.Reset()
		case outage.Permanent(err):
			return err
		default:
			_ = pause.Sleep(ctx) // if ctx ends, the next claim tells
		}
	}
}

// Pass claims and handles what is ready, without waiting, until nothing is. It returns the first
// error.
func (l *Loop) Pass(ctx context.Context) error {
	for {
		claims, _, err := l.claim(ctx, 0)
		if err != nil || len(claims) == 0 {
			return err
		}
		if err := l.Handle(ctx, claims); err != nil {
			return err
		}
	}
}

// claim makes one claim, and returns how many keys were to be claimed at most: none if Prepare
// has ended the loop.
func (l *Loop) claim(ctx context.Context, wait time.Duration) (claims []store.Claim, most int, err error) {
	req := l.Request
	req.Wait = wait
	if req.Owner == "" {
		req.Owner = base.ProcessName()
	}
	if l.Prepare != nil && !l.Prepare(ctx, &req) {
		return nil, 0, nil
	}
	claims, err = l.Store.Claim(ctx, req)
	if l.Claimed != nil {
		l.Claimed(req.Max, len(claims))
	}
	return claims, req.Max, err
}

// Drain returns the context of work that was claimed before ctx ended: it ends when ctx has
// ended and d has passed since, or when cancel is called.
func Drain(ctx context.Context, clock base.Clock, d time.Duration) (work context.Context, cancel func()) {
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { clock.AfterFunc(d, end) })
	return work, func() {
		stop()
		end()
	}
}

// Release gives leases back, so that their messages are claimed again at once and not only when
// the leases expire. The attempt does not count. It takes at most within. A lease that is lost
// already needs no release; one whose release fails expires. Release returns the first error of
// those.
func Release(s store.Store, within time.Duration, leases ...store.Lease) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var first error
	for _, l := range leases {
		err := s.Release(ctx, store.Release{Lease: l, Uncounted: true})
		if err != nil && !errors.Is(err, store.ErrClaimLost) && first == nil {
			first = err
		}
	}
	return first
}

// PanicError is the panic of a function called by [Catch].
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the value of the panic.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Catch calls f, which is code of users, and returns its panic, or nil.
func Catch(f func()) (caught *PanicError) {
	defer func() {
		if v := recover(); v != nil {
			caught = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	f()
	return nil
}
