// Package shardstore is one store over several others, the shards: several PostgreSQL databases, as
// a rule. Each tenant is on one shard, with all that it has. docs/shards.md says how to set it up
// and how to move tenants.
//
// # Directory
//
// A tenant has a slot, one of [Slots], by a hash that never changes ([SlotOf]). The [Directory] says
// which shard has which slots, and which tenants are elsewhere than their slot. It is a record
// ([store.ShardDirectory]) of which every shard has a copy; it has a version, and the highest version
// counts. Each change is made by a conditional put to the copy of one shard, its home, and then
// written to all others; so versions have one order, and a version that any shard has, the home has
// or had. A shard that was away gets the latest version when it is back. Each process waits for a
// new version on the home and on two other shards ([store.Store.Await]), and has it in milliseconds. It
// looks at the others once a minute. So a change costs a few calls for each process and each shard, not
// for each process with each shard: see TestSimulation.
//
// The directory has the names of shards and nothing else; where they are is configuration
// ([Open]). A process that does not know a name in the directory cannot be opened, and if the name
// appears while it runs, calls for the tenants there fail and others go on.
//
// The empty tenant, which is the default tenant and has the records that belong to no tenant
// (tokens, workers, the audit log), has a slot like any other and can be moved like any other.
//
// # Calls
//
//	Commit                     the shard of the tenants in it; ErrTooLarge if there are several
//	Renew, Release, ReadLog,   the shard of the key's tenant
//	Pending, Get, Await
//	Claim                      all shards, which take turns
//	List, Count, Leases        the shard of the tenant, or all, merged
//	Stats                      all, added
//	Export, Import, Verify,    all
//	Exclude
//
// Each shard has a clock of its own, which decides what is due there. [store.Stats.Now] is the median of
// them, the earlier one of two: one clock that is wrong does not set the time of other shards' tenants.
// A time that a caller computes from it is wrong by as much as the clocks differ.
//
// # A shard that is down
//
// A shard is down when a call to it that concerns all shards fails or takes too long; it is up again
// when its directory can be read. Both are logged once. While it is down, calls for its tenants
// return the shard's error, or fail when it cannot be reached. Claim and Stats leave it out, so that
// the other tenants do not notice. List, Count and Leases of all tenants fail with an error that
// names the shard: a list that silently lacks some tenants would be mistaken for the whole.
//
// # Claims
//
// A Claim call asks the shards one after another for what is ready, without waiting, beginning with
// another shard each time. If nothing is ready, it waits on all of them at once. The first that has
// something ends the waits of the others. What one of them leased in that moment is returned too, or,
// if it is more than was asked for, released without a counted attempt.
//
// Lock order: Store.mu is never held across a call of a shard, nor together with shard.mu.
package shardstore
