package action_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/store"
)

// lateStore shows a record only after a few looks, as a store does on which it conflicts
// with others before it is durable.
type lateStore struct {
	store.Store
	looks atomic.Int64 // that find nothing
}

func (s *lateStore) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if s.looks.Add(-1) >= 0 {
		return store.Record{}, store.ErrNotFound
	}
	return s.Store.Get(ctx, key)
}

// TestADuplicateWaitsForTheFirst: it is the same action, also while nobody can read it.
func TestADuplicateWaitsForTheFirst(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		s := &lateStore{Store: teststore.New(t)}
		t.Cleanup(func() { _ = s.Close() })
		r := newFixtureOn(t, s, newJournal(t))
		hook := action.Received{Tenant: "acme", Slug: "deploy", Target: "do", Delivery: "1", Body: []byte("{}")}
		first, existed, err := r.Receive(t.Context(), hook)
		if err != nil || existed {
			t.Fatalf("existed %t, error %v", existed, err)
		}
		s.looks.Store(3)
		again, existed, err := r.Receive(t.Context(), hook)
		if err != nil || !existed || again.ID != first.ID || again.Version != first.Version {
			t.Errorf("got %+v, existed %t, error %v; want %+v", again, existed, err, first)
		}
		s.looks.Store(1 << 40) // it never comes
		if _, _, err := r.Receive(t.Context(), hook); !errors.Is(err, action.ErrConflict) {
			t.Errorf("error %v", err)
		}
	})
}
