package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/shardstore"
)

// unsteady is a shard that can be cut off.
type unsteady struct {
	*memstore.Store
	cut *atomic.Bool
}

func (u unsteady) Stats(ctx context.Context) (store.Stats, error) {
	if u.cut.Load() {
		return store.Stats{}, errors.New("connection refused")
	}
	return u.Store.Stats(ctx)
}

// newShards returns a world on three shards, the last of which can be cut off, and is not added.
func newShards(t *testing.T) (w *world, s *shardstore.Store, cut *atomic.Bool) {
	t.Helper()
	cut = &atomic.Bool{}
	one, two := memstore.New(memstore.Options{}), memstore.New(memstore.Options{})
	first, err := shardstore.New(t.Context(), []shardstore.Shard{{Name: "a", Store: one.Process()}, {Name: "b", Store: two.Process()}}, shardstore.Options{})
	check.OK(t, err)
	check.OK(t, first.Close())
	s, err = shardstore.New(t.Context(), []shardstore.Shard{
		{Name: "a", Store: one.Process()}, {Name: "b", Store: two.Process()}, {Name: "c", Store: unsteady{memstore.New(memstore.Options{}), cut}},
	}, shardstore.Options{})
	check.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return newWorldOn(t, s), s, cut
}

// moving begins to move a tenant that has some things, and returns when a copy is being made. It goes on when resume is called.
func moving(t *testing.T, s *shardstore.Store, tenant string) (resume func()) {
	t.Helper()
	to := "a"
	if s.Directory().Of(tenant) == "a" {
		to = "b"
	}
	for i := range 200 {
		key := store.RecordKey{Kind: "note", Tenant: tenant, ID: fmt.Sprint(i)}
		check.OK(t, s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: key}}}}))
	}
	reached, resumed, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		ended <- s.Move(context.Background(), shardstore.OneTenant(tenant), to, func(at shardstore.Progress) {
			if at.Done > 0 && at.Done < at.Of {
				once.Do(func() { close(reached); <-resumed })
			}
		})
	}()
	<-reached
	return func() {
		close(resumed)
		check.OK(t, <-ended)
	}
}

func TestShards(t *testing.T) {
	t.Parallel()
	w, s, cut := newShards(t)
	w.start("nap", "customer-17-return", "acme", abide.Running)
	w.contains(w.see("/"), "Shards")
	body := w.see("/shards")
	w.contains(body, "up", "not added", "512")
	w.lacks(body, "Move of", "down")

	resume := moving(t, s, "acme")
	w.eventually(func() bool { return strings.Contains(w.see("/shards"), "100 of 2") })
	w.contains(w.see("/shards"), "<progress", "Move of tenant acme from", "A copy is made", "copy")
	resume()
	w.lacks(w.see("/shards"), "Move of")

	cut.Store(true)
	w.contains(w.see("/shards"), "down", "connection refused")
	cut.Store(false)

	w.who = acme
	w.lacks(w.see("/"), "Shards")
	check.Equal(t, "the status for who has one tenant", w.get("/shards").status, http.StatusForbidden)
}
