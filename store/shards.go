package store

import (
	"errors"
)

// KindShards is the kind of the records that package shardstore keeps in each of its shards. They
// are not seen through the store over the shards, and no commit through it may name them.
const KindShards = "shards"

// ShardDirectory names the record that says which shard has which tenants. Each shard has a copy.
var ShardDirectory = RecordKey{Kind: KindShards, ID: "directory"}

// ErrShard is the error of a store that is one of several shards and was opened by itself. Nothing
// must run on it alone: it holds some of the tenants, and what it has of the others is out of date.
var ErrShard = errors.New("store is a shard")
