package shardstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/abidehq/abide/store"
)

var _ store.Sharded = (*Store)(nil)

// interruptedAfter is how long a mover may not have written its progress, by the clocks of two machines.
const interruptedAfter = 3 * lostAfter

// Shards returns the status of all shards of the configuration, and of the move under way.
func (s *Store) Shards(ctx context.Context) (store.Shards, error) {
	if err := s.check(ctx, "shards"); err != nil {
		return store.Shards{}, err
	}
	d := s.Directory()
	out := store.Shards{Version: d.Version, Home: d.Home, List: s.placed(d)}
	var asking sync.WaitGroup
	for i, sh := range s.shards {
		asking.Go(func() {
			at := &out.List[i]
			at.Stats, at.Err = bounded(ctx, sh, func(ctx context.Context, st store.Store) (store.Stats, error) { return st.Stats(ctx) })
		})
	}
	var err error
	if d.Move != nil {
		out.Move, err = s.moveStatus(ctx, d.Move)
	}
	asking.Wait()
	if err == nil {
		err = s.check(ctx, "shards")
	}
	return out, err
}

// placed returns the shards of the configuration, with how many slots and tenants they have.
func (s *Store) placed(d *Directory) []store.ShardStatus {
	list := make([]store.ShardStatus, len(s.shards))
	for i, sh := range s.shards {
		list[i] = store.ShardStatus{Name: sh.name, Listed: slices.Contains(d.Shards, sh.name)}
	}
	for _, on := range d.Slots {
		if sh := s.byName[on]; sh != nil {
			list[sh.number].Slots++
		}
	}
	for _, on := range d.Tenants {
		if sh := s.byName[on]; sh != nil {
			list[sh.number].Tenants++
		}
	}
	return list
}

// moveStatus returns the status of a move. If the source does not answer, the move waits for it.
func (s *Store) moveStatus(ctx context.Context, m *Move) (*store.ShardMove, error) {
	out := &store.ShardMove{Slot: m.Slot, Tenant: m.Tenant, From: m.From, To: m.To, Stage: string(m.Stage), Interrupted: true}
	r, err := s.readProgress(ctx, m)
	if err != nil || r.Version == 0 {
		return out, nil //nolint:nilerr // the status of the source has the error
	}
	var p storedProgress
	if err := json.Unmarshal(r.Body, &p); err != nil {
		return nil, fmt.Errorf("shardstore: read the progress of a move: %w: %w", err, store.ErrCorrupt)
	}
	if r.Status == string(m.Stage) {
		out.Round, out.Done, out.Of = p.Round, p.Done, p.Of
	}
	out.SeenAt = r.Time
	out.Interrupted = s.clock.Now().Sub(r.Time) > interruptedAfter
	return out, nil
}
