// Package pebblestore is the embedded store: one directory, owned by one
// process, on the LSM tree Pebble. It is opened as pebble://path.
//
// # Design in short
//
// All state that a commit needs is in memory, and memory is authoritative.
// A commit is checked and applied to memory under one mutex, and its writes
// are added to a batch that it shares with other commits. The disk follows:
// one batch and one sync for all commits that arrived while the batch before
// was being synced (group commit). A commit returns when its batch is durable,
// and only then can another caller claim what it has put. So the disk is
// always a little older than memory, and never newer.
//
// Memory holds only what is in use: messages that are due (a bounded window of
// each partition), keys that are leased or are changed by a group in flight,
// and a bounded number of idle keys and records. Ten million messages that are
// due next week cost disk, not memory.
//
// # Glossary
//
//	partition   all pending messages of one queue, tenant and route; one
//	            range of database keys. The partition with an empty route
//	            holds the messages of keys that have no route yet
//	position    where a message is in its partition: due time, then the
//	            sequence number of its put (type pos). Of a message without
//	            a route, the due time is that at which it expires
//	location    a partition and a position in it: one database key
//	window      the messages of a partition that are in memory
//	cursor      the position up to which the window has been loaded
//	next        the first position on disk, at or after the cursor, that may
//	            hold a message
//	floor       the position below which a partition has no message on disk;
//	            it is stored, so that no scan steps over what was consumed
//	overflow    messages that stay on disk although they are before the
//	            cursor, because their key has too many in the window
//	ring        the partitions of a route that have ready keys, in the order
//	            of their turns (round robin over tenants)
//	ready key   a key without a lease whose first visible message is in the
//	            window
//	group       commits that share a batch and a sync
//	tombstone   a location that a message has left in a group that is not yet
//	            applied: reads of the database still show the message there
//	pin         a reference that keeps a value in its cache
//	journal     the file of delivery attempts, beside the database
//	token       names a claim; it is unique over all processes
//	stream      the records of one kind, status and perhaps tenant, by time
//
// # The commit pipeline
//
// Three stages, each with its own goroutine, connected so that the next group
// gathers while the one before is being written and synced:
//
//	caller                  applyGroups              syncGroups
//	------                  -----------              ----------
//	Validate
//	prefetch  (no lock)
//	lock mu
//	  pinAll    read what memory lacks
//	  check     leases, lengths, versions
//	  prepare   read what apply needs
//	  apply     change memory, fill batch
//	  kick  ------------->  lock mu
//	unlock mu                 close the group: write partition
//	wait for group.done       headers, start a new group
//	  .                     unlock mu
//	  .                     ApplyNoSyncWait ------>  SyncWait
//	  .                     lock mu                  .
//	  .                       applied; drop          .
//	  .                       tombstones             .
//	  .                     unlock mu                .
//	  .                     (next group)             lock mu
//	  .                                                acknowledge: announce
//	  .                                                arrivals, unpin,
//	  .                                                tell Await calls,
//	  .                                                serve Claim calls
//	  .  <---------------------------------------      close(group.done)
//	return                                           unlock mu
//
// States of a group, in this order and never backwards:
//
//		gathering -> taken -> applied -> durable
//		         \________\_________\____-> failed (the store has failed)
//
//	  - gathering: s.gathering; callers add to it. There is exactly one.
//	  - taken: its batch does not change any more; group.taken is closed.
//	  - applied: reads of the database see it; it may be lost in a crash.
//	  - durable: synced; group.done is closed and callers return.
//
// A commit that fails in pinAll, check or prepare has changed nothing. A
// failure in apply would leave half of a Tx in memory and in the batch, so
// apply must not fail for a reason that prepare could have found; if it fails
// all the same the store fails as a whole, because there is no way back.
//
// A claim that depends on a group which is not yet durable, such as one of a
// key whose last lease was finished by that group, is made at once and held
// back: taken.group is awaited before the caller sees it.
//
// # The life of a lease
//
//	         claimKey                    Commit with Finish
//	ready ----------------> leased ---------------------------> consumed
//	  ^                     |  |  \
//	  |   Release, expiry,  |  |   +-- Renew: until moves on
//	  +---- undo -----------+  |
//	  |                        +-- DeleteKeys, Delete of a delivered
//	  |                            message: the lease ends, a later Finish
//	  |                            returns ErrClaimLost
//	  +-- the window is loaded, or the message becomes due
//
// Leases are in memory only: one process owns the directory, so when it ends
// nobody can hold a claim. After a restart every message that was leased is
// ready at once, with its attempts counted. Tokens begin with random bytes of
// the process, so that a token of an earlier process never matches.
//
// A lease ends by time when the next claim, or the alarm, finds it expired; it
// is never valid after its end, because live compares with the time. Attempts
// are counted when a key is claimed, in memory and in the journal, so that a
// process that is killed by the message it handles has counted it.
//
// # Invariants
//
// With the mutex held:
//
//  1. A value that a group in flight changes is pinned: what the database
//     shows of it is out of date, so it must not be read again before the
//     group is durable. The pins are in group.keys, group.records and
//     group.partitions, and are released by acknowledge.
//  2. inFlight is the groups that are not durable, in the order of their
//     numbers; the last one is s.gathering. They are acknowledged in order.
//  3. Every message of a partition whose position is before the cursor is in
//     the window, or overflows, or is gone, or is not durable yet.
//  4. A durable message whose position is in [cursor, next) overflows.
//  5. floor(l) is not above the position of any message of the partition, in
//     the window, in an overflow, on disk or in a group in flight.
//  6. A partition is in the ring of its route if it has ready keys; else it is
//     in the heap due if next is not maxPos; else in neither. A partition that
//     has become empty may stay in the ring until its turn comes.
//  7. A key is in the heap ready of its partition if and only if it has no
//     lease and its first visible message is in the window; it is pinned then.
//  8. k.refs is in the order of positions. If k.complete it has all pending
//     messages of the key, and k.count is its length.
//  9. A lease is in the heap of leases and is k.lease of its key, which is
//     pinned; each ref in lease.delivered has leased set to it, unless the ref
//     is gone.
//  10. partition.count is the number of its pending messages, and the sum over
//     the partitions of a route is routeState.pending. While it is positive
//     the partition is pinned.
//
// What is cheap to check is checked always, and panics: acknowledge checks 2,
// package waitlist its own rules. With the build tag invariants, checkInvariants
// compares all of them with a scan of memory, and 3, 4, 5 and 10 with the disk, after
// each group: see invariants_on.go. make test runs the suite with the tag.
//
// # Locks
//
// Store.mu guards all fields after it, and all state of partitions, keys,
// records, leases, groups, the journal and the waiting calls. There is one
// because a commit touches most of them, and holds it for microseconds: the
// disk is written without it.
//
// Order, outer first:
//
//	Store.backup     held during a Backup; nothing else waits for it
//	Store.mu
//	Pebble's locks   taken by reads and batches under mu
//
// Under mu it is allowed to read the database and to write the journal (no
// sync). It is forbidden to apply a batch, to wait for a sync, to wait for a
// channel that is closed under mu, or to call out to the user, the logger of a
// failure excepted. gather and sweepAll unlock mu for a while: their callers
// must not rely on what they read before.
//
// Pebble calls back with its own locks held (flushEnd, guardFS, Fatalf). Those
// callbacks must not take mu: recent.flushed is atomic, and fail runs in a
// goroutine of its own.
//
// Store.readers counts reads without mu, so that Close waits for them.
//
// # Crashes
//
// What a process leaves behind when it ends at each point, and what the next
// Open finds:
//
//	before ApplyNoSyncWait    nothing of the group; its callers were told
//	                          nothing
//	before the sync ends      all of the group or nothing: a batch is one
//	                          record of Pebble's log. If all, messages are
//	                          there that nobody was told of, which is what
//	                          "outcome unknown" means
//	after the sync, before    all of the group; its callers were told nothing
//	callers are told
//	after a claim             the message is ready again; its attempt is in
//	                          the journal. A power failure may lose the last
//	                          entries of the journal: then a message may be
//	                          delivered more often than MaxAttempts
//	while the journal is      the old file or the new one: it is renamed
//	rewritten                 into its place
//	during Close              as above; without a seal, so that the next Open
//	                          cannot tell damage from a crash
//
// Sequence numbers come from blocks that are reserved on disk (newID), so that
// a number is never used twice. The number of a partition can come again after
// four billion others; the journal's entries for it are told apart by the
// sequence numbers in them.
//
// Time does not go back within a process: see base.Steady.
//
// # Failures
//
// An error of the log, of the list of files or of a sync cannot be undone: it is
// unknown what the disk has. Then the store fails (failLocked): every call
// returns ErrFailed, every waiting call is told, and the process can end in its
// own way, or open the store again. guardFS keeps such an error away from
// Pebble, which would panic with locks held. An error of a read is returned to
// the caller who needed it, and changes nothing. A disk that is nearly full
// makes commits fail with ErrFull before Pebble has to fail.
//
// # Alternatives that were tried or considered
//
//   - Reading the state of a key from Pebble in every commit: most commits are
//     to new keys, and the search of memtables for a key that is not there was
//     most of their cost. Hence the caches, and the filters in recent that tell
//     which keys cannot be in a memtable.
//   - Leases on disk: each claim would be a synced write. One owner makes them
//     unnecessary.
//   - Attempts in the database: a write per claim, though not synced, went
//     through the commit pipeline and doubled the batches. The journal appends
//     28 bytes.
//   - pebble.Sync in each commit, and Pebble's own group commit: it shares
//     syncs, but each commit still takes the pipeline's locks and a batch of its
//     own; gathering in our own batch before Pebble sees it costs less, and
//     makes the order of groups the order of acknowledgements.
//   - Snapshots for reads: closing one waits for Pebble's list of files to be
//     synced. An iterator does not: see view.
//   - Range deletions for short logs: each costs every later read a little.
//   - One mutex per queue: commits span queues (a turn finishes in one and puts
//     to another), and the time under the mutex is short beside the sync.
//
// # Where to read on
//
// partition.go (partitions, windows, readiness), key.go (keys and messages),
// commit.go and group.go (the pipeline), claim.go and lease.go (claims), wait.go
// (waiting calls and the alarm), record.go (records), journal.go (attempts),
// recent.go (which keys may be in memtables), open.go, guard.go and seal.go
// (what is trusted on disk), list.go, count.go and scan.go (queries),
// portable*.go (export, import, verify), backup.go, migrate.go and version.go.
// docs/format.md is the format on disk.
package pebblestore
