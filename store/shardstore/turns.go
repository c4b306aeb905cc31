package shardstore

import (
	"hash/maphash"
	"sync"

	"github.com/abidehq/abide/store"
)

// turns says with which shard a Claim call begins: with another one each time. Calls for other
// routes and tenants are counted apart. Were they counted together, two callers that take turns would each
// begin with the same shard every time, and the other shards would starve.
type turns struct {
	mu   sync.Mutex
	seed maphash.Seed
	next map[uint64]uint
}

// maxTurns is how many sets of routes are counted. When there are more, all begin anew.
const maxTurns = 4096

// take returns the number of the call among those for the same routes.
func (t *turns) take(req *store.ClaimRequest) uint {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil || len(t.next) > maxTurns {
		t.seed, t.next = maphash.MakeSeed(), map[uint64]uint{}
	}
	var h maphash.Hash
	h.SetSeed(t.seed)
	_, _ = h.WriteString(req.Queue)
	for _, route := range req.Routes {
		_ = h.WriteByte(0)
		_, _ = h.WriteString(route)
	}
	for _, tenant := range req.Tenants {
		_ = h.WriteByte(1)
		_, _ = h.WriteString(tenant)
	}
	id := h.Sum64()
	n := t.next[id]
	t.next[id] = n + 1
	return n
}
