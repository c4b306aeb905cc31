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
// is filled while the one before is being written and synced:
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
//	  .                                                notify Await calls,
//	  .                                                serve Claim calls
//	  .  <---------------------------------------      close(group.done)
//	return                                           unlock mu
//
// States of a group, in this order and never backwards:
//
//		open -> closed -> applied -> durable
//		    \________\_________\____-> failed (the store has failed)
//
//	  - open: s.openGroup; callers add to it. There is exactly one.
//	  - closed: its batch does not change any more; group.closed is closed.
//	  - applied: reads of the database see it; it may be lost in a crash.
//	  - durable: synced; group.done is closed and callers return.
//
// Commits are serialised by the mutex: the order in which they are applied to memory is
// that of the batches and of Pebble's log, so that recovery never finds a later commit
// without an earlier one.
//
// A commit that fails in pinAll, check or prepare has changed nothing. A
// failure in apply would leave half of a Tx in memory and in the batch, so
// apply must not fail for a reason that prepare could have found; if it fails
// all the same the store fails as a whole, because there is no way back.
//
// A claim that depends on a group which is not yet durable, such as one of a
// key whose last lease was finished by that group, is made at once and held
// back: claimResult.group is awaited before the caller sees it.
//
// # What each call sees
//
//	call                   reads            sees commits that are
//	----                   -----            ---------------------
//	Claim                  memory, and      durable
//	                       disk for bodies
//	                       and to load
//	Commit: check          memory           applied to memory, durable or not
//	Await                  memory, disk     durable
//	Get, List, Count,      disk, one view   applied to the database, which may
//	ReadLog, Pending,      for each call    be a moment before they are durable
//	Export, Verify
//	Stats                  both             the same, for what it counts on disk
//
// Only the first three hold the mutex while they read. The others never wait for a
// commit, a sync or a claim. What they return of a group that is not yet durable may
// be lost in a crash; a commit that depends on it states the version or the length that
// it expects.
//
// # An example
//
// A partition has messages due at 10:00, 10:05 and 11:00, and nothing of it is in
// memory after a restart: cursor and next are at its floor. At 10:06 a claim comes.
// The partition is in the heap due of its route, with next in the past, so it is
// loaded: 10:00 and 10:05 go into the window, cursor is after 10:05, next is 11:00,
// two keys are ready, and the partition moves from the heap into the ring. The claim
// leases the first key, and its commit consumes the message: it leaves the window, and its
// location has a tombstone until the group is applied. When the group is closed, the
// header of the partition is written with count 2 and floor 10:05. A message that is put
// for 10:30 now is announced when its group is durable: it is after the cursor and before
// next and not due, so next becomes 10:30, and its body is not kept in memory. When both keys
// are gone the partition is in the heap again, and the alarm is set for 10:30
// if a call waits for the route.
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
// no claim is held any more. After a restart every message that was leased is
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
//     numbers; the last one is s.openGroup. They are acknowledged in order.
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
// failure excepted. joinGroup and sweepAll unlock mu for a while: their callers
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
//	before ApplyNoSyncWait    nothing of the group; no caller has returned
//	before the sync ends      all of the group or nothing: a batch is one
//	                          record of Pebble's log. If all, there are
//	                          commits whose callers never got an answer,
//	                          which is what "outcome unknown" means
//	after the sync, before    all of the group; no caller has returned
//	callers return
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
// returns ErrFailed, every waiting call ends with it, and the process can shut down
// in order, or open the store again in a new process. guardFS keeps such an error
// away from Pebble, which would panic with locks held. An error of a read is returned
// to the call that needed it, and changes nothing. A disk that is nearly full makes
// commits fail with ErrFull before Pebble has to fail.
//
//	error                           effect
//	-----                           ------
//	write or sync of the log,       the store fails
//	list of files, directory
//	write of a table                Pebble tries again; the store fails after
//	                                maxBackgroundErrors in a row
//	read of a table: checksum       the store fails (DataCorruption)
//	read of a table: I/O            the call returns the error
//	value that does not parse       the call returns ErrCorrupt
//	write of the journal            the claim is undone and returns the error;
//	                                the next one writes a new file
//	less than Reserve left          commits that add return ErrFull
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
//     own; one shared batch that is filled before Pebble sees it costs less, and
//     makes the order of groups the order of acknowledgements.
//   - Partitions and routes that stay in memory once they were used: 300,000 route
//     names cost 2.3 GB, and 8 to 10 s of CPU for each Stats. Empty ones are dropped,
//     but for some thousands, and Stats reports a bounded number one by one.
//   - One index of records, by tenant, status and time: a page of a list over 200,000
//     tenants took 522 ms, a seek for each tenant. The shared index takes 0.3 ms, and
//     costs 6 % more bytes in the log for tenants other than the empty one.
//   - Two compactions at a time whatever the machine, and no stop of writes before a
//     thousand sublevels: each sublevel is one more table in which a key is searched.
//   - Bloom filters that are dropped after a number of flushes: when flushes were not
//     counted, because another callback had replaced that of recent, every new key was
//     searched in memtables again (24 % more CPU). Sequence numbers cannot be missed.
//   - Snapshots for reads: closing one waits for Pebble's list of files to be
//     synced. An iterator does not: see view.
//   - Range deletions for short logs: each costs every later read a little.
//   - Ending the process when Pebble calls Fatalf, as Pebble assumes: a program
//     that embeds the store has other work to finish, and a log to write.
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
