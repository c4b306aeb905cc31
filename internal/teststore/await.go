package teststore

import (
	"context"
	"errors"

	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// reader is an Await call, which is told that its record may have changed.
type reader = waitlist.Reader[struct{}]

// Await returns a record when it is past a version, and waits here until it is.
func (b *bubble) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	if err := store.ValidateAwait(key, after); err != nil {
		return store.Record{}, err
	}
	r := waitlist.NewReader[struct{}]()
	b.mu.Lock()
	b.awaits.Join(key, &r)
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.awaits.Leave(key, &r)
	}()
	for {
		if b.isClosed() {
			return store.Record{}, store.Closed("await")
		}
		rec, err := b.Get(ctx, key)
		switch {
		case err == nil && rec.Version > after:
			return rec, nil
		case errors.Is(err, store.ErrNotFound) && after > 0:
			return store.Record{}, store.NotFound("await", key)
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return store.Record{}, err
		}
		select {
		case <-r.News:
		case <-ctx.Done():
			return store.Record{}, ctx.Err()
		}
	}
}

func (b *bubble) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// wake tells the readers of a record that it may have changed. The lock is held.
func (b *bubble) wake(key store.RecordKey) {
	for _, r := range b.awaits.Of(key) {
		r.Tell(struct{}{})
	}
}

// wakeKind tells the readers of all records of a kind. The lock is held.
func (b *bubble) wakeKind(kind string) {
	for key := range b.awaits {
		if key.Kind == kind {
			b.wake(key)
		}
	}
}
