package shardstore

import (
	"context"
	"slices"
	"sync"

	"github.com/abidehq/abide/store"
)

// ShardStatus is what is known of a shard.
type ShardStatus struct {
	Name string

	// Listed says that the directory has it. A shard that is only configured has no tenants.
	Listed bool

	// Slots is how many slots it has, and Tenants how many tenants that are not there because of
	// their slot.
	Slots, Tenants int

	// Stats is what it holds. If it could not be asked, Err says why.
	Stats store.Stats
	Err   error
}

// Status returns the status of all shards, of the configuration and of the directory, in the order of
// their names.
func (s *Store) Status(ctx context.Context) ([]ShardStatus, error) {
	if err := s.check(ctx, "status"); err != nil {
		return nil, err
	}
	d := s.Directory()
	var list []ShardStatus
	for _, sh := range s.shards {
		list = append(list, ShardStatus{Name: sh.name, Listed: slices.Contains(d.Shards, sh.name)})
	}
	for _, on := range d.Slots {
		for i := range list {
			if list[i].Name == on {
				list[i].Slots++
			}
		}
	}
	for _, on := range d.Tenants {
		for i := range list {
			if list[i].Name == on {
				list[i].Tenants++
			}
		}
	}
	var asking sync.WaitGroup
	for i, sh := range s.shards {
		asking.Go(func() {
			list[i].Stats, list[i].Err = bounded(ctx, sh, func(ctx context.Context, st store.Store) (store.Stats, error) { return st.Stats(ctx) })
		})
	}
	asking.Wait()
	return list, s.check(ctx, "status")
}
