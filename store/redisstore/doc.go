// Package redisstore is the store on a Redis server, or on one that speaks its language,
// such as Valkey. It is opened as redis://host:port/db, and through TLS as rediss://.
//
// Every call is one script, which the server runs alone and as a whole: the script of a
// commit checks everything before it changes anything, because a script that fails is not
// undone. Commits of a process that come while others are under way gather, and are one
// script, which does one after another and says of each what became of it: see call. The
// server writes what a script did to its append-only file as one transaction, and answers after it has synced the file, if it is set up so; Open refuses one that is
// not, unless it is told otherwise. docs/redis.md says what is lost in which failure.
//
// # Glossary
//
//	partition    a queue and a route. The set of all is called lanes on the server
//	group        commits of this process that go to the server as one script
//	in flight    a group whose script has been sent and not answered
//	look         an attempt to claim: one script, or part of a group's script
//	ride         a look that goes along with the next group
//	reservation  a waiting Claim call that a group names, so that its script
//	             claims on the call's behalf (type want)
//	hint         a message on the pub/sub channel: partitions that became
//	             ready, digests of records that changed
//	spent        a message to be quarantined: delivered too often, or expired
//	awaiter      an Await call
//	ticker       the clock by which this process waits; the store's own time
//	             is that of the server, unless a test gives another
//
// # The commit pipeline
//
//	caller                this process             server
//	------                ------------             ------
//	Validate, packTx
//	submit ------------>  gathering.calls
//	  .                   fly: while fewer than
//	  .                   maxFlights groups are
//	  .                   in flight:
//	  .                     take a group
//	  .                     reserve waiting calls
//	  .                     evalDurably -------->  script, alone:
//	  .                                              per commit: check all,
//	  .                                              then write all
//	  .                                              claim for reservations
//	  .                                            append to the AOF, sync
//	  .                                            (WAIT for replicas)
//	  .                     answer       <--------
//	  .                     tell Await calls
//	  .                     hand over claims
//	  .                     wake subscriptions
//	  .  <---------------   close(call.done)
//	return                  fly again
//
// A second group is sent while the first is in flight only if at least as many
// commits have gathered as are in flight: with fewer it pays to wait, because a
// script and a sync cost the same for one commit as for many. A group has at most
// maxTogether commits, maxThings operations and maxGroupBytes: the server serves
// nobody else while a script runs.
//
// States of a commit (type call):
//
//	gathering -> in flight -> ended: applied, refused, or unknown
//	         \-> ended: its context ended before its group was sent
//
// Refused commits of a group change nothing and do not affect the others: the
// script checks each commit against what the ones before it have written. A
// caller whose context ends while its group is in flight returns at once, and the
// commit goes on: the outcome is unknown to that caller.
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
//	  +- a claim without a caller is released, uncounted (giveBack)
//
// A lease is in the head of its key (token, end, delivered messages) and in the
// sorted set l, by its end. A leased key is in no partition, so claims step over
// nothing. Whoever claims next ends the leases whose time is over, by the server's
// clock; so no process needs to be alive for a lease to end.
//
// # Who wakes a Claim call
//
//  1. A commit of this process: its script claims for up to maxWants reserved
//     calls, so that a message goes from put to claim without another round trip;
//     for the others, the answer names the partitions that became ready.
//  2. A commit of another process: by a hint, if this process listens.
//  3. Time: each look learns when its partitions have something next, and each
//     lease that begins is noted for the subscriptions of its queue; the alarm
//     wakes one call of each subscription that is due.
//  4. The poll, every few seconds, for hints that were lost.
//
// Package waitlist holds the calls, and decides which one looks. Two looks of one
// subscription are in flight only when a look has found more than it could take.
//
// # Invariants
//
//  1. A script checks everything it may refuse before it writes anything: Redis
//     does not undo a script that fails in the middle.
//  2. Every key on the server begins with the prefix in braces, so that all are
//     in one slot of a cluster, and a script may touch any of them.
//  3. The times in the sorted sets t and w may be too early, never too late: a
//     look in vain is allowed, a message that nobody looks for is not.
//  4. A waiter that is busy has exactly one owner: the goroutine of lookFor, the
//     list gathering.looks, or a want of a group in flight. Store.calls counts
//     it until its owner ends the attempt, so that Close waits for it.
//  5. What an attempt has leased goes to its caller or is released: looked
//     returns the claims that have no caller.
//  6. A version in Store.known was committed by this process, and no hint about
//     that record has come since. It only ever delays a read, and never answers
//     one.
//  7. A look that goes with a group counts as a whole look only if nothing is due
//     that the group's script does not see to (leases that have ended, messages
//     that expire): then settleLater sweeps, and the call looks again.
//
// # Locks
//
//	Store.mu         waiting calls, topics, Await calls, known versions, alarm
//	gathering.Mutex  commits that gather and looks that ride
//	size.Mutex       the cached size of the server's file
//
// Order: Store.mu before gathering.Mutex (start calls ride). Neither is held while
// the server is asked, while a channel is waited for, or while a call is ended by
// close(call.done). Store.calls.Add happens only with mu held and the store open,
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
//	                       unknown; awaiters of its records ask again (doubt)
//	hint lost              the poll finds it, after pollEvery at most
//	clock of the server    the script of every call keeps the latest time it has
//	is set back            seen in meta, and never goes below it
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
//     time of a small commit.
//
// # What is stored
//
// The names of all that is stored begin with the prefix in braces, {abide}, so that a
// cluster has it in one slot. A letter follows, then names, each with its length before it
// unless it is the last. Numbers are big-endian.
//
//	meta            hash: format, owner and owned (see Exclude), state: the latest time, the
//	                last message's number, the turn, how often records changed
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
// A head is the route; length, first entry and tag of the log; number of messages; place in
// the partition; attempts of the single message, and that; and while there is a lease its token,
// its end and the messages that it is of, which are empty for the single one: see packHead. Most keys have one message at most. If that is small, it is in the head: when it is
// visible, its number, put at, time to live, ID and body. It becomes one of several when
// another comes, or when it is to move. What a server does for a script costs by the
// command, so heads are strings: one command reads those of all keys of a group, another
// writes them, and each sorted set is added to once and removed from once. What a commit
// puts for somebody who waits in the same process is leased before it gets to a partition.
//
// A key that is leased, and one without a route, is in no partition, so a claim steps over
// nothing: it takes the tenant whose turn it is and the first key of its partition. The times in
// t and w may be too early, which costs a look, and are never too late.
//
// # Waiting
//
// A Claim that finds nothing learns when there will be something, and waits until then or
// until it is told that there is something before. Commits of the same process tell it, or
// claim for it in the same script: see want. While commits are under way a Claim does not
// look by itself, but goes with the next ones: see ride. An Await is told by commits of the
// same process what the record is. Those of other processes publish a hint. Hints
// may be lost, so whoever waits looks every few seconds too: see waiter.
package redisstore
