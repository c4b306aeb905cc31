package engine

import (
	"context"
	"time"

	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/store"
)

// Lease is the lease of a turn or of an activity: who works on it, and until when nobody else does.
type Lease struct {
	// Worker is what people call the worker, such as shop:42, and WorkerID its ID in the roster. Both
	// are empty if the program that claimed does not tell.
	Worker   string
	WorkerID string

	// Until is when the lease ends unless it is renewed, by the store's clock.
	Until time.Time

	// SeenAt is when the worker has reported to the roster last; zero if that is not known.
	SeenAt time.Time
}

// leases reads the leases of keys, and asks the roster once for each worker.
type leases struct {
	store store.Store
	seen  map[string]time.Time // by ID of worker
}

// of returns the lease of a key, or nil.
func (l *leases) of(ctx context.Context, key store.Key) (*Lease, error) {
	found, err := l.store.Leases(ctx, store.LeaseQuery{Key: key})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	lease := &Lease{Until: found[0].Until}
	lease.Worker, lease.WorkerID = roster.ParseOwner(found[0].Owner)
	if lease.WorkerID == "" {
		return lease, nil
	}
	at, known := l.seen[lease.WorkerID]
	if !known {
		if at, err = roster.SeenAt(ctx, l.store, lease.WorkerID); err != nil {
			return nil, err
		}
		if l.seen == nil {
			l.seen = map[string]time.Time{}
		}
		l.seen[lease.WorkerID] = at
	}
	lease.SeenAt = at
	return lease, nil
}

// TurnLease returns the lease of the turn of an instance, or nil if no worker has it. It returns
// [ErrNotFound] if there is no such instance.
func (c *Client) TurnLease(ctx context.Context, ref Ref) (*Lease, error) {
	if _, err := c.Get(ctx, ref); err != nil {
		return nil, err
	}
	l := leases{store: c.store}
	lease, err := l.of(ctx, ref.key())
	return lease, wrap("lease", err)
}
