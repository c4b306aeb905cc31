package store

import (
	"context"
	"errors"
	"time"
)

// KindShards is the kind of the records that package shardstore keeps in each of its shards. They
// are not seen through the store over the shards, and no commit through it may name them.
const KindShards = "shards"

// ShardDirectory names the record that says which shard has which tenants. Each shard has a copy.
var ShardDirectory = RecordKey{Kind: KindShards, ID: "directory"}

// ErrShard is the error of a store that is one of several shards and was opened by itself. Nothing
// must run on it alone: it holds some of the tenants, and what it has of the others is out of date.
var ErrShard = errors.New("store is a shard")

// Sharded is a store over several others, its shards, which each have some of the tenants: that of
// package shardstore.
type Sharded interface {
	Store

	// Shards returns what is known of the shards, and of the move under way. A shard that does not
	// answer is among them, with its error.
	Shards(ctx context.Context) (Shards, error)
}

// Shards is what is known of the shards of a store.
type Shards struct {
	// Version is that of the directory, and Home the shard on which it is changed.
	Version int64
	Home    string

	// List has the shards of the configuration, in the order of their names.
	List []ShardStatus

	// Move is the move of a tenant or a slot that is under way, or nil.
	Move *ShardMove
}

// ShardStatus is what is known of a shard.
type ShardStatus struct {
	Name string

	// Listed says that the directory has it. A shard that is only configured has no tenants.
	Listed bool

	// Slots is how many slots it has, and Tenants how many tenants that are not there because of
	// their slot.
	Slots, Tenants int

	// Stats is what it holds. If it could not be asked, Err says why.
	Stats Stats
	Err   error
}

// Pending returns the number of pending messages.
func (s *ShardStatus) Pending() int {
	n := s.Stats.Rest.Pending
	for i := range s.Stats.Routes {
		n += s.Stats.Routes[i].Pending
	}
	return n
}

// ShardMove is a move that is under way.
type ShardMove struct {
	// Slot is the slot that is moved, or -1 if it is a tenant. The default tenant is empty.
	Slot   int
	Tenant string

	From, To string

	// Stage is copy, closed or clean.
	Stage string

	// Done is how many keys and records the stage has dealt with in this round, and Of how many
	// there are.
	Round, Done, Of int

	// SeenAt is when the mover wrote its progress last, by its own clock: zero if it has not.
	SeenAt time.Time

	// Interrupted says that the mover does not write its progress any more, or cannot be asked:
	// the move waits to be resumed.
	Interrupted bool
}
