package teststore

import (
	"context"
	"errors"
	"slices"

	"github.com/abidehq/abide/store"
)

// await is an Await call that waits. Its channel is closed when its record may have
// changed.
type await struct{ changed chan struct{} }

// Await returns a record when it is past a version, and waits here until it is.
func (b *bubble) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	if err := store.ValidateAwait(key, after); err != nil {
		return store.Record{}, err
	}
	for {
		a := &await{changed: make(chan struct{})}
		if !b.join(key, a) {
			return store.Record{}, store.Closed("await")
		}
		r, err := b.Get(ctx, key)
		switch {
		case err == nil && r.Version > after:
			b.leave(key, a)
			return r, nil
		case errors.Is(err, store.ErrNotFound) && after > 0:
			b.leave(key, a)
			return store.Record{}, store.NotFound("await", key)
		case err != nil && !errors.Is(err, store.ErrNotFound):
			b.leave(key, a)
			return store.Record{}, err
		}
		select {
		case <-a.changed:
		case <-ctx.Done():
			b.leave(key, a)
			return store.Record{}, ctx.Err()
		}
	}
}

// join makes a one of those who are woken, and reports whether the store is open.
func (b *bubble) join(key store.RecordKey, a *await) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.awaits[key] = append(b.awaits[key], a)
	return true
}

func (b *bubble) leave(key store.RecordKey, a *await) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.awaits[key] = slices.DeleteFunc(b.awaits[key], func(other *await) bool { return other == a })
	if len(b.awaits[key]) == 0 {
		delete(b.awaits, key)
	}
}

// wake has those look again who wait for a record. The lock is held.
func (b *bubble) wake(key store.RecordKey) {
	for _, a := range b.awaits[key] {
		close(a.changed)
	}
	delete(b.awaits, key)
}

// wakeKind has those look again who wait for a record of a kind. The lock is held.
func (b *bubble) wakeKind(kind string) {
	for key := range b.awaits {
		if key.Kind == kind {
			b.wake(key)
		}
	}
}
