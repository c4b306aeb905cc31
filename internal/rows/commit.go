package rows

import (
	"context"
	"errors"
	"time"

	"github.com/abidehq/abide/store"
)

// call is an operation with the caller that waits for it.
type call struct {
	operation
	ctx  context.Context
	size int           // about how many bytes it writes
	done chan struct{} // closed when the outcome is in err
	then func()        // called after that, if it is not nil, under no lock

	// State of a call that waits for a row lock; see lockwait.go.
	aside   bool          // the side queue has it
	limit   time.Duration // how long it waits for row locks in all; 0 is lockLimit
	blocked time.Time     // when it first met a locked row
	locked  error         // what the database said
}

// opSize is about how many bytes an operation writes besides its bodies.
const opSize = 128

func newCall(ctx context.Context, op operation, size int) *call {
	return &call{operation: op, ctx: ctx, size: size, done: make(chan struct{})}
}

// end publishes the outcome of the call. It is called once, under no lock.
func (c *call) end() {
	close(c.done)
	if c.then != nil {
		c.then()
	}
}

// wait returns the outcome of the call, or the error of its context if that ends first.
func (c *call) wait() error {
	select {
	case <-c.done:
		return c.err
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// Commit applies tx. It returns when the changes are durable, or the error of the contract if
// nothing was changed. If ctx ends first, the outcome is unknown.
func (f *Core) Commit(ctx context.Context, tx *store.Tx) error {
	ops, bytes, err := tx.Size()
	if err != nil {
		return err
	}
	if err := f.Check(ctx, "commit"); err != nil {
		return err
	}
	if tx.Empty() {
		return nil
	}
	return f.commits.submit("commit", newCall(ctx, operation{tx: copyTx(tx)}, ops*opSize+bytes))
}

// A renewal waits for a locked row for an eighth of the new duration of the lease, within
// these bounds, so that a caller that renews many leases learns in time about the others.
const (
	minRenewal = 100 * time.Millisecond
	maxRenewal = 5 * time.Second
)

// Renew extends leases by d from now, and returns those that are lost. Each lease is a call
// of its own, so that a locked row delays one lease only: leases that were not renewed for
// that reason are in a store.NotRenewedError.
func (f *Core) Renew(ctx context.Context, d time.Duration, leases []store.Lease) (lost []store.Lease, err error) {
	if err := store.ValidateRenew(d, leases); err != nil {
		return nil, err
	}
	if err := f.Check(ctx, "renew"); err != nil {
		return nil, err
	}
	calls := make([]*call, len(leases))
	for i := range leases {
		calls[i] = newCall(ctx, operation{renew: &renewal{lease: leases[i], d: d}}, opSize)
		calls[i].limit = min(max(d/8, minRenewal), maxRenewal)
	}
	if err := f.commits.enqueue("renew", calls...); err != nil {
		return nil, err
	}
	var locked []store.Lease
	for _, c := range calls {
		switch err := c.wait(); {
		case errors.Is(err, ErrLocked):
			locked = append(locked, c.renew.lease)
		case err != nil:
			return nil, err
		case c.renew.lost:
			lost = append(lost, c.renew.lease)
		}
	}
	if len(locked) > 0 {
		return lost, &store.NotRenewedError{Leases: locked}
	}
	return lost, nil
}

// Release ends a lease. It returns store.ErrClaimLost if the lease is not live.
func (f *Core) Release(ctx context.Context, r store.Release) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := f.Check(ctx, "release"); err != nil {
		return err
	}
	return f.commits.submit("release", newCall(ctx, operation{release: &r}, opSize))
}
