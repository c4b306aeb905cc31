// Package redisstore is the store on a Redis server, or on one that speaks its language,
// such as Valkey, or on a Redis Cluster. It is opened as redis://host:port/db, and through TLS as
// rediss://.
//
// A store has one segment on a single server and several on a cluster: see segment. What
// follows is said of one segment; "Segments" says what several are to each other.
//
// Every call is one script, which the server runs alone and as a whole: the script of a
// commit checks everything before it changes anything, because a script that fails is not
// undone. Commits of a process that arrive while others are in flight are queued and sent
// as one script, which applies them one after another and reports the outcome of each: see
// pendingCommit. The server writes the effects of a script to its append-only file as one
// transaction and, if it is configured so, syncs the file before it answers; Open refuses a
// server that does not, unless Options.Durability allows it. docs/redis.md says what is
// lost in which failure.
//
// # Glossary
//
//	segment      a part of the store with its own hash tag, so that it is in one slot of a
//	             cluster: everything of its tenants
//	partition    a queue and a route. The set of all is called lanes on the server
//	group        commits of this process to a segment that go to the server as one script
//	in flight    a group whose script has been sent and not answered
//	attempt      an attempt to claim: one script, or part of a group's script
//	attached     an attempt that is sent with the next group (attachToGroup)
//	reservation  a waiting Claim call that a group names, so that its script
//	             claims on the call's behalf
//	full claim   an attempt by the claim script, which also ends expired leases
//	             and finds expired messages; the script of a group does not
//	hint         a message on the pub/sub channel: partitions that became
//	             ready, digests of records that changed
//	outlook      what this process knows of the segments for a queue and routes: which may
//	             have something to claim, and when
//	awaiter      an Await call
//	ticker       the clock by which this process waits; the store's own time
//	             is that of the server, unless a test gives another
//
// # The commit pipeline
//
//	caller                this process             server
//	------                ------------             ------
//	Validate, packTx
//	submit ------------>  commitQueue.pending
//	  .                   sendGroups: while fewer
//	  .                   than maxGroupsInFlight
//	  .                   are in flight:
//	  .                     take a group
//	  .                     reserve waiting calls
//	  .                     evalDurably -------->  script, alone:
//	  .                                              per commit: check all,
//	  .                                              then write all
//	  .                                              claim for reservations
//	  .                                            append to the AOF, sync
//	  .                                            (WAIT for replicas)
//	  .                     answer       <--------
//	  .                     notify Await calls
//	  .                     hand over claims
//	  .                     wake subscriptions
//	  .  <---------------   close(commit.done)
//	return                  sendGroups again
//
// A second group is sent while the first is in flight only if at least as many
// commits are pending as are in flight: with fewer it pays to wait, because a
// script and a sync cost the same for one commit as for many. A group has at most
// maxGroupCommits commits, maxGroupOps operations and maxGroupBytes: the server
// serves no other client while a script runs.
//
// States of a commit (type pendingCommit):
//
//	pending -> in flight -> ended: applied, refused, or unknown
//	       \-> ended: its context ended before its group was sent
//
// Refused commits of a group change nothing and do not affect the others: the
// script checks each commit against what the ones before it have written. A
// caller whose context ends while its group is in flight returns at once with the
// error of its context. The commit is not withdrawn: its outcome is unknown to that
// caller, and the other calls of this process still learn of it.
//
// # The life of a lease
//
//	         claim script, or the script             commit script with
//	         of a group that names the call          this token in Finish
//	ready -------------------------------> leased --------------------------> consumed
//	  ^                                      |  |
//	  |   release script; a claim script     |  +- renew script: later end
//	  +---- after the end of the lease ------+
//	  |
//	  +- a claim without a caller is released, uncounted (releaseUnwanted)
//
// A lease is in the head of its key (token with the owner, end, delivered messages) and in the
// sorted set l, by its end. A leased key is in no partition, so claims step over
// nothing. The next claim script of any process ends the leases that have expired by
// the server's clock; so the process that held a lease need not be alive for it to end.
//
// # Who wakes a Claim call
//
//  1. A commit of this process: its script claims for up to maxReservations
//     calls, so that a message goes from put to claim without another round trip;
//     for the others, the answer names the partitions that became ready.
//  2. A commit of another process: by a hint, if this process listens.
//  3. Time: each attempt learns when its partitions have something next, and each
//     lease that begins is noted for the subscriptions of its queue; the alarm
//     wakes one call of each subscription that is due.
//  4. The poll, every few seconds, for hints that were lost.
//
// Package waitlist holds the calls, and decides on whose behalf the next attempt is
// made. Two attempts of one subscription are in flight only when one has found more
// than it could take.
//
// An attempt has three ways to the server:
//
//	attempt          a claim script of its own, in a goroutine of its own: when no
//	                 commit is in flight, when the alarm or the poll wants it, and
//	                 always for a call that does not wait
//	attachToGroup    part of the next group's script: a full claim unless the answer
//	                 says that leases or messages have expired (due), in which case a
//	                 sweep follows
//	reserve          part of a group's script on behalf of an idle call: not a full
//	                 claim, so finding nothing leaves the call waiting
//
// # Invariants
//
//  1. A script checks everything it may refuse before it writes anything: Redis
//     does not undo a script that fails in the middle.
//  2. Every key of a segment begins with the segment's hash tag in braces, so that all are
//     in one slot of a cluster, and a script may touch any of them.
//  3. The times in the sorted sets t and w may be too early, never too late: an
//     attempt that finds nothing is allowed, a ready message that no attempt is
//     made for is not.
//  4. A waiter that is busy has exactly one owner: the goroutine of attempt, the
//     list commitQueue.attempts, or a reservation of a group in flight. Store.calls
//     counts it until its owner ends the attempt, so that Close waits for it.
//  5. What an attempt has leased goes to its caller or is released: finishAttempt
//     returns the claims that have no caller.
//  6. A version in Store.known was committed by this process, and no hint about
//     that record has come since. It only ever delays a read, and never answers
//     one.
//  7. An attached attempt counts as a full claim only if nothing is due that the
//     group's script does not handle (expired leases, expired messages): otherwise
//     sweepThenSettle sweeps, and the call tries again.
//  8. A script is sent again only if it has certainly not run, or only reads: see
//     eval. The client library's own retries are off for the same reason.
//  9. In a cluster a script names two keys that never exist, so that it runs only where its
//     slot is as a whole: see connection.command.
//  10. An outlook says that a segment has nothing only if a script has found nothing there and
//     no answer or hint has told otherwise since it was sent.
//
// # Segments
//
// A tenant is in one segment for ever (segmentIndex), and a commit is of one segment: Commit
// returns store.ErrTooLarge for one that spans two. Each segment has its own queue of
// commits, leases, numbers of messages, turns of tenants, time, list of processes and
// header; nothing on the server spans segments but the channel of hints.
//
//	Commit, Release, Get, Await,    the segment of the tenant
//	ReadLog, Pending
//	Claim                           the segments that may have something, in turn: see outlook
//	Renew                           each segment of a lease
//	List                            merged: a position in the list is a position in each
//	                                segment: see mergedList
//	Count, Stats, Leases            added up or merged
//	Export, Verify                  one segment after another
//	Exclude                         all segments; the first decides between two processes
//
// A segment whose master cannot be reached stops its tenants: their calls wait up to
// retryTimeout while a replica takes over, and claims leave it out and ask again after
// retrySegment. Lists and counts of all tenants return its error.
//
// # Locks
//
//	Store.mu         waiting calls, topics, Await calls, known versions, alarm
//	commitQueue.Mutex  pending commits and attached attempts
//	size.Mutex       the cached size of the server's file
//
// Order: Store.mu before commitQueue.Mutex (start calls attachToGroup). Neither is
// held during a call to the server, while a channel is waited for, or while a
// commit is ended by close(commit.done). size.Mutex is held while the server is asked
// for the size, so that concurrent Stats calls ask once; it is taken with no other
// lock held. Store.calls.Add happens only with mu held and the store open,
// so that Close, which sets closed under mu and then waits, misses no call.
//
// # Crashes
//
//	this process dies      its leases end by time; commits in flight are
//	                       applied or not, as a whole
//	server restarts        what was acknowledged is in its append-only file if
//	                       appendfsync is always (Strict); a script is one
//	                       transaction in the file, so no half of it is there
//	failover to a replica  with Replicas > 0, a commit is acknowledged when that
//	                       many replicas have it; WAIT does not promise that one
//	                       of them is promoted: docs/redis.md
//	connection lost        read-only scripts are tried again; a commit whose
//	                       answer was lost returns an error, and its outcome is
//	                       unknown; awaiters of its records read them again
//	                       (markUnknown)
//	hint lost              the poll finds it, after pollEvery at most
//	clock of the server    the script of every call keeps the latest time it has
//	is set back            seen in meta, and never goes below it
//	slot is moved          scripts wait until it is in one place; meta moves with it, so
//	                       that the time of the segment does not run backwards by more
//	                       than store.MaxClockLead allows
//	master fails           as a failover to a replica; the client follows the cluster
//
// # Alternatives that were tried or considered
//
//   - MULTI/EXEC with WATCH: a round trip more for each commit, and conflicts under
//     load that no caller caused.
//   - Streams and consumer groups: no delayed visibility, no order by key, no lease
//     that fences a commit, and a pending list that each consumer must scan.
//   - A hash per key instead of a packed head: what a server does for a script
//     costs by the command, and one MGET reads the heads of a whole group.
//   - BLPOP or keyspace notifications to wait: a connection per waiting call, or a
//     notification per key; and both are lost with the connection.
//   - A script per commit: the fixed cost of a script and its sync was most of the
//     time of a small commit. Groups took the server's CPU for a minimal instance
//     from about 680 to 355 µs.
//   - A claim script beside every group: a busy process sent 0.44 scripts for each
//     minimal instance; with attached attempts it is 0.16, and Await calls that are
//     given the record by the commit took reads from 3.9 to 0.04.
//   - Tables in Lua for commits and heads: the server hashes every byte of every
//     string that a script makes, so a commit is one flat MessagePack list and a
//     head is packed; 550 to 435 µs.
//   - Promoting all due tenants in one claim: with 300,000 of them the server was
//     blocked for 1.3 s. A claim promotes up to 1,000 and reports that there is more.
//   - A hash tag for each tenant: a claim would have to know of every tenant that has
//     something, and ask each with a script of its own.
//   - Sharded pub/sub for hints: a subscription at each master, which the slots that are moved
//     end; and servers before version 7 have none.
//   - One script for the segments of a master: it would touch slots that it does not
//     name, of which the server does not say whether they are being moved.
//   - Returning the subscribed connection to the client's pool: it unsubscribes
//     first, and the library panics if a busy server refuses that. It is closed.
//
// # What is stored
//
// The names of all that is stored in a segment begin with its hash tag in braces, so that a
// cluster has it in one slot: {abide} for the first segment, which is the only one of most
// stores, and {abide/17.61}, or the like, for others: see segmentTag. A letter follows, then names,
// each with its length before it unless it is the last. Numbers are big-endian.
//
//	meta            hash: format, and segments if there are several; owner and owned (see
//	                Exclude), state: the latest time, the last message's number, the turn,
//	                how often records changed
//	p               sorted set: who has the store open, by when they were last heard of
//	k + key         string: the head
//	n + key         hash: number, attempts and size of the body of each of several messages,
//	                by its ID
//	o + key         sorted set: number and ID of several messages, by when they are visible
//	e + key         list: the entries of its log
//	b               hash: put at, time to live and body of each of several messages, by its
//	                number
//	l, x            sorted sets: leases by their end; messages of keys without a route by
//	                when they expire
//	z + partition, tenant   sorted set: the keys to claim, by their first message
//	t + partition        sorted set: tenants, by when they have something to claim
//	y + partition        sorted set: tenants that have something now, by turn
//	w + queue       sorted set: routes, by when they have something to claim
//	u + queue       sorted set: tenants that were served last, by turn
//	v + partition        sorted set: all messages of a partition, for Stats
//	lanes           set: the partitions that have messages
//	r + record      string: version, time, status, name, tags and body
//	j + kind, status           sorted set: records by time
//	i + kind, tenant, status   sorted set: the same, of one tenant
//	s + kind        set: the statuses that records have
//
// A head is the route; length, first entry and tag of the log; number of messages; position
// in the partition; attempts of the single message, and that message; and, while there is a
// lease, its token, its end and the messages delivered with it, which are empty for the
// single one: see packHead. Most keys have one message at most. If that is small, it is in
// the head: visible at, number, put at, time to live, ID and body. It becomes one of several
// when another is put, or when it is re-timed. The cost of a script is mostly the number of
// its commands, so heads are strings: one command reads those of all keys of a group,
// another writes them, and each sorted set is added to once and removed from once. What a
// commit puts for a Claim call that waits in the same process is leased before it gets to a
// partition.
//
// A key that is leased, and one without a route, is in no partition, so a claim steps over
// nothing: it takes the tenant whose turn it is and the first key of its partition. The times
// in t and w may be too early, which costs an attempt, and are never too late.
//
// # Waiting
//
// A Claim that finds nothing learns when there will be something, and waits until then or
// until it is woken earlier. Commits of the same process wake it, or claim for it in the
// same script: see reservation. While commits are in flight a Claim sends no script of its
// own, but goes with the next group: see attachToGroup. An Await is given the record by
// commits of the same process. Commits of other processes publish a hint. Hints may be
// lost, so waiting calls also poll every few seconds: see retryAll.
package redisstore
