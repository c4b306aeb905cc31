package bench

import (
	"context"
	"net/url"
	"sync"
	"testing"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// The scheme shared: is that of stores in memory that outlive a run, so that a test
// can look into them and run again: shared://name.
func init() {
	store.Register("shared", store.Scheme{
		Example: "shared://name",
		Open: func(_ context.Context, u *url.URL) (store.Store, error) {
			sharedStores.Lock()
			defer sharedStores.Unlock()
			s, ok := sharedStores.byName[u.Host]
			if !ok {
				return nil, store.InvalidURL(u, "no such store")
			}
			s.opened++
			return s, nil
		},
	})
}

var sharedStores = struct {
	sync.Mutex
	byName map[string]*sharedStore
}{byName: map[string]*sharedStore{}}

type sharedStore struct {
	store.Store
	opened int

	// commit, if not nil, decides about a commit before the store does.
	commit func(tx *store.Tx) error

	// reopen, if not nil, replaces the store when it is closed.
	reopen func() store.Store
}

// share returns a new store in memory and its URL.
func newShared(t *testing.T) (s *sharedStore, rawURL string) {
	t.Helper()
	s = &sharedStore{Store: memstore.New(memstore.Options{})}
	sharedStores.Lock()
	defer sharedStores.Unlock()
	name := "s" + grouped(int64(len(sharedStores.byName)))
	sharedStores.byName[name] = s
	return s, "shared://" + name
}

func (s *sharedStore) Commit(ctx context.Context, tx *store.Tx) error {
	if s.commit != nil {
		if err := s.commit(tx); err != nil {
			return err
		}
	}
	return s.Store.Commit(ctx, tx)
}

func (s *sharedStore) Close() error {
	if s.reopen != nil {
		s.Store = s.reopen()
	}
	return nil
}
