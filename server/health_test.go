package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// slowStore counts reads. While held, a read waits and does not look at its context.
type slowStore struct {
	store.Store
	gets, stats atomic.Int64
	hold        atomic.Pointer[chan struct{}]
	fails       atomic.Bool
}

func (s *slowStore) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	s.gets.Add(1)
	if held := s.hold.Load(); held != nil {
		<-*held
	}
	if s.fails.Load() {
		return store.Record{}, errors.New("connection refused by db.internal")
	}
	return s.Store.Get(ctx, key)
}

func (s *slowStore) Stats(ctx context.Context) (store.Stats, error) {
	s.stats.Add(1)
	return s.Store.Stats(ctx)
}

// TestReadyCostsTheStoreOneReadASecond, however many ask, and nothing that grows with what
// the store holds.
func TestReadyCostsTheStoreOneReadASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &slowStore{Store: memstore.New(memstore.Options{})}
		defer slow.Close()
		handler, err := server.New(server.Config{Store: slow, Logger: rig.Quiet})
		check.OK(t, err)
		ask := func(want int) {
			t.Helper()
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
			if w.Code != want {
				t.Errorf("status %d, want %d: %s", w.Code, want, w.Body)
			}
		}
		all := func(want int) {
			var wg sync.WaitGroup
			for range 100 {
				wg.Go(func() { ask(want) })
			}
			wg.Wait()
		}
		reads := func(gets int64) {
			t.Helper()
			if slow.gets.Load() != gets || slow.stats.Load() != 0 {
				t.Errorf("%d reads of a record and %d of the statistics, want %d and 0", slow.gets.Load(), slow.stats.Load(), gets)
			}
		}
		all(http.StatusOK)
		reads(1)
		<-time.After(time.Second - 1)
		ask(http.StatusOK)
		reads(1)
		<-time.After(1)
		ask(http.StatusOK)
		reads(2)

		slow.fails.Store(true)
		<-time.After(time.Second)
		all(http.StatusServiceUnavailable)
		reads(3)
		slow.fails.Store(false)
		<-time.After(time.Second)
		ask(http.StatusOK)
		reads(4)

		// A read that does not come back is waited for by each for a while, and is not followed
		// by another one.
		held := make(chan struct{})
		slow.hold.Store(&held)
		<-time.After(time.Second)
		for range 3 {
			began := time.Now()
			all(http.StatusServiceUnavailable)
			check.Equal(t, "the answer took", time.Since(began), 2*time.Second)
		}
		reads(5)
		slow.hold.Store(nil)
		close(held)
		synctest.Wait()
		ask(http.StatusServiceUnavailable) // the read that came back late says so, for a second
		<-time.After(time.Second)
		ask(http.StatusOK)
		reads(6)
	})
}
