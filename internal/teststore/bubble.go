package teststore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// bubble is a store for use inside a bubble of virtual time. The backend behind it lives
// outside, with connections, files and goroutines that know nothing of virtual time, and
// its clock shows the bubble's time whenever it is called.
//
// No call waits outside. A Claim or an Await that finds nothing waits here, until another
// call or the time may have changed that: all calls come through here, so
// that it is known when. Like memstore it claims on behalf of those who wait, in their
// order, so that a test sees the same whatever the backend is.
type bubble struct {
	backend store.Store
	clock   base.Clock // of the users of the store: that of the bubble

	moving sync.Mutex   // held while hidden is moved
	hidden *base.Manual // the backend's clock

	// mu guards what follows. It is also held while waiters are served, so that they are
	// served one after another.
	mu     sync.Mutex
	closed bool
	queues map[string]*queue
	waits  *waitlist.List[[]store.Claim]              // Claim calls
	awaits waitlist.Records[store.RecordKey, *reader] // Await calls
}

var _ store.Store = (*bubble)(nil)

// wrap returns a store whose users go by clock, of a backend that goes by hidden.
func wrap(backend store.Store, clock base.Clock, hidden *base.Manual) *bubble {
	b := &bubble{
		backend: backend, clock: clock, hidden: hidden,
		queues: map[string]*queue{}, awaits: waitlist.Records[store.RecordKey, *reader]{},
	}
	b.waits = waitlist.New[[]store.Claim](&b.mu, clock, b.serveWaiters)
	return b
}

// hiddenClock returns a clock for a backend, which shows what clock shows.
func hiddenClock(clock base.Clock) *base.Manual { return base.NewManual(clock.Now().Round(0)) }

// ask has the backend answer, outside of the bubble and at the bubble's time.
func ask[T any](ctx context.Context, b *bubble, call func(context.Context) (T, error)) (T, error) {
	var answer T
	var err error
	now := b.clock.Now().Round(0)
	outside(ctx, func(ctx context.Context) {
		b.moveTo(now)
		answer, err = call(ctx)
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = ctx.Err() // which may be another one
	}
	return answer, err
}

// tell is ask for what is answered by an error alone.
func tell(ctx context.Context, b *bubble, call func(context.Context) error) error {
	_, err := ask(ctx, b, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// moveTo moves the backend's clock, never backwards.
func (b *bubble) moveTo(now time.Time) {
	b.moving.Lock()
	defer b.moving.Unlock()
	if d := now.Sub(b.hidden.Now()); d > 0 {
		b.hidden.Advance(d)
	}
}

// Commit applies tx, and serves those who wait for what it made ready.
func (b *bubble) Commit(ctx context.Context, tx *store.Tx) error {
	err := tell(ctx, b, func(ctx context.Context) error { return b.settled(ctx, b.backend.Commit(ctx, tx)) })
	b.committed(tx) // also after an error, whose outcome may be unknown
	return err
}

// settled returns err when the outcome of a call whose context ended is settled: it
// may have its effect after it returned, and a bubble's time must not pass before. What is
// committed next comes after it.
func (b *bubble) settled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		nothing := store.RecordKey{Kind: "teststore", ID: "nothing"}
		_ = b.backend.Commit(context.Background(), &store.Tx{ // a backend that fails says so to the next call
			DeleteRecords: []store.DeleteRecord{{Key: nothing, Expect: store.AnyVersion}},
		})
	}
	return err
}

// Renew makes leases last longer.
func (b *bubble) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	lost, err := ask(ctx, b, func(ctx context.Context) ([]store.Lease, error) { return b.backend.Renew(ctx, d, leases) })
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range leases {
		q := b.queue(l.Key.Queue)
		b.note(q, b.after(d))
		b.setAlarm(q)
	}
	return lost, err
}

// Release gives up a lease, and serves those who wait for its key.
func (b *bubble) Release(ctx context.Context, r store.Release) error {
	err := tell(ctx, b, func(ctx context.Context) error { return b.settled(ctx, b.backend.Release(ctx, r)) })
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queue(r.Lease.Key.Queue)
	b.note(q, b.after(r.After))
	b.serve(q)
	return err
}

// ReadLog returns entries of a log.
func (b *bubble) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	return ask(ctx, b, func(ctx context.Context) (store.LogPage, error) { return b.backend.ReadLog(ctx, key, from) })
}

// Pending returns the messages of a key.
func (b *bubble) Pending(ctx context.Context, key store.Key, limit int) ([]store.Message, error) {
	return ask(ctx, b, func(ctx context.Context) ([]store.Message, error) { return b.backend.Pending(ctx, key, limit) })
}

// Leases returns live leases.
func (b *bubble) Leases(ctx context.Context, q store.LeaseQuery) ([]store.LeaseInfo, error) {
	return ask(ctx, b, func(ctx context.Context) ([]store.LeaseInfo, error) { return b.backend.Leases(ctx, q) })
}

// Get returns a record.
func (b *bubble) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	return ask(ctx, b, func(ctx context.Context) (store.Record, error) { return b.backend.Get(ctx, key) })
}

// List returns records that match q.
func (b *bubble) List(ctx context.Context, q store.Query) (store.Page, error) {
	return ask(ctx, b, func(ctx context.Context) (store.Page, error) { return b.backend.List(ctx, q) })
}

// Count counts the records that match q.
func (b *bubble) Count(ctx context.Context, q store.Query, limit int) (int, error) {
	return ask(ctx, b, func(ctx context.Context) (int, error) { return b.backend.Count(ctx, q, limit) })
}

// Stats returns what the backend holds, and who waits here.
func (b *bubble) Stats(ctx context.Context) (store.Stats, error) {
	stats, err := ask(ctx, b, b.backend.Stats)
	if err != nil {
		return stats, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	stats.Waiting = b.waits.Waiting()
	return stats, nil
}

// Limits returns those of the backend.
func (b *bubble) Limits() store.Limits { return b.backend.Limits() }

// Close ends all who wait, and closes the backend.
func (b *bubble) Close() error {
	b.endWaits()
	return tell(context.Background(), b, func(context.Context) error { return b.backend.Close() })
}
