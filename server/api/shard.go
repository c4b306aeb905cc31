package api

import (
	"time"

	"github.com/abidehq/abide/store"
)

// Shards are the shards of a store.
type Shards struct {
	Version int64      `json:"version,omitempty" doc:"Of the directory, which says which shard has which tenants. It grows by one with each change."`
	Home    string     `json:"home,omitempty" doc:"The shard on which the directory is changed."`
	Shards  []Shard    `json:"shards" doc:"In the order of their names. None if the store does not consist of shards."`
	Move    *ShardMove `json:"move,omitempty" doc:"The move that is under way, or was interrupted."`
}

// Shard is one of the shards of a store.
type Shard struct {
	Name    string `json:"name"`
	Status  string `json:"status" enum:"up,down,not_added" doc:"A shard that is down stops its tenants. One that is not added is in the configuration of the server and not in the directory, and has no tenants."`
	Error   string `json:"error,omitempty" doc:"Why it is down."`
	Slots   int    `json:"slots" doc:"How many of the 1,024 slots it has."`
	Tenants int    `json:"tenants" doc:"How many tenants it has that were moved there by themselves."`
	Pending int    `json:"pending" doc:"Messages, visible or not."`
	Leases  int    `json:"leases" doc:"How much is under way, in all processes."`
	Bytes   int64  `json:"bytes" doc:"About how much room it takes on disk; 0 if it is not on disk."`
}

// ShardMove is a move of a tenant or a slot from one shard to another.
type ShardMove struct {
	Tenant      string    `json:"tenant,omitempty" doc:"The tenant that is moved."`
	Slot        *int      `json:"slot,omitempty" doc:"The slot that is moved, if it is not a tenant."`
	From        string    `json:"from"`
	To          string    `json:"to"`
	Stage       string    `json:"stage" enum:"copy,closed,clean" doc:"copy: a copy is made, and nobody notices. closed: calls of the tenant wait while the rest is copied. clean: the tenant is on the other shard, and its source is cleaned up."`
	Round       int       `json:"round" doc:"How often the copy was begun: first all is copied, then what has changed meanwhile."`
	Done        int       `json:"done" doc:"How many keys and records were dealt with in this round."`
	Of          int       `json:"of" doc:"How many there are."`
	SeenAt      time.Time `json:"seen_at,omitzero" doc:"When the mover last said so, by its clock."`
	Interrupted bool      `json:"interrupted,omitempty" doc:"The mover does not say so any more. abide shards resume goes on with the move."`
}

// FromShards returns the shards of a store for the wire. The default tenant has the name that is given.
func FromShards(s *store.Shards, defaultTenant string) Shards {
	out := Shards{Version: s.Version, Home: s.Home, Shards: make([]Shard, len(s.List))}
	for i := range s.List {
		out.Shards[i] = fromShard(&s.List[i])
	}
	if m := s.Move; m != nil {
		out.Move = &ShardMove{
			Tenant: m.Tenant, From: m.From, To: m.To, Stage: m.Stage, Round: m.Round, Done: m.Done, Of: m.Of, SeenAt: m.SeenAt, Interrupted: m.Interrupted,
		}
		switch {
		case m.Slot >= 0:
			out.Move.Slot = new(m.Slot)
		case m.Tenant == "":
			out.Move.Tenant = defaultTenant
		}
	}
	return out
}

func fromShard(s *store.ShardStatus) Shard {
	out := Shard{Name: s.Name, Status: "up", Slots: s.Slots, Tenants: s.Tenants, Pending: s.Pending(), Leases: s.Stats.Leases, Bytes: s.Stats.Bytes}
	switch {
	case s.Err != nil:
		out.Status, out.Error = "down", s.Err.Error()
	case !s.Listed:
		out.Status = "not_added"
	}
	return out
}
