// Package rows is what the stores on SQL databases share: the whole contract of
// [github.com/abidehq/abide/store] except SQL.
//
// A store is four tables: keys, messages, records and log entries. A backend is a
// [Database]: it loads rows, writes changes that were worked out for it, leases keys that are
// ready, and reads. The [Core] is the rest of a store. The rules of a commit are evaluated
// in memory by this package, on the rows that the database loaded: one place for both
// backends, and no rule is written in SQL.
//
// # Parts
//
//	Core         the methods of the store, and the order in which the parts are called
//	committer    groups concurrent calls, and decides which groups may be in flight together
//	claimer      serves Claim: bounds of due times, waiting calls, hand-off, prefetch
//	watcher      serves Await: awaited records, cached versions
//	poller       queries, while calls wait, for what no hint announced
//	announcer    decides what other processes are told of a commit
//	storeTime    estimates the database's clock between its answers
//	lifecycle    open or closed; the goroutines to wait for
//
// The rest is pure: plan, keyWork and messageSet work out what a group changes, footprint
// says which rows an operation touches, importer does the same for parcels.
//
// # Words
//
//	partition     the keys of one queue and one route: what is claimed together. Keys
//	              without a route are one partition of each queue. Its number is the column
//	              lane of both backends
//	subscription  the set of partitions that a Claim call asks for; calls with the same
//	              routes share one
//	call          an operation (Tx, renewal, release, quarantine) with its caller
//	group         the calls of one transaction
//	hand-off      a group that makes a key ready leases it to a call that waits
//	prefetch      the same for the next call of a caller that is being served
//	orphan        a lease whose caller went away before it got it
//	announcement  what a process tells the others after a commit; a hint at the other end
//	holder        the process that appended to the log of a key last
//	reservation   a short lease of a key for its holder, made by the commit of another process
//	              that puts a message to it
//	watch         a process asks the others to announce changes of a record
//
// # The commit pipeline
//
//	Commit ─▶ copyTx ─▶ committer.enqueue ──┐
//	Renew, Release ─▶ (side queue) ─────────┤
//	                                        ▼
//	            committer.take: a group of calls that share no row with a group in flight
//	                                        │
//	  ┌─────────────────────────────────────▼──────────────────────── one transaction ─┐
//	  │ Database.Update: load the rows of the group                                     │
//	  │   decide(now, state): plan.do(op) for each call, each with a verdict of its own │
//	  │           claimer.handOff: lease keys that became ready to calls that wait      │
//	  │           plan.changes: what to write                                           │
//	  │ write, sync                                                                     │
//	  └─────────────────────────────────────┬───────────────────────────────────────────┘
//	              ok                        │                    error
//	     ┌──────────────────────────────────┴───────────────┬────────────────┐
//	     ▼                                                  ▼                ▼
//	Core.publish                                      ErrLocked:       ErrRetry: again; rolled
//	  watcher: records to Await calls                 to the side      back: each half by itself;
//	  claimer: leases to Claim calls                  queue            else: outcome unknown
//	  Database.Announce: to other processes
//	     │
//	     ▼
//	each caller gets its verdict
//
// A caller learns of its commit after the calls that wait for it have been served, so that a
// process that commits and then waits does not overtake its own messages.
//
// # The life of a lease
//
//	           Database.LeaseReady (a query of a task)
//	ready ──┬─ hand-off            (the group that puts the message)
//	        ├─ prefetch            (the same, for the next call)
//	        └─ reservation         (the same, for the holder, which leases it in turn)
//	              │
//	              ▼       renew: Until moves
//	           leased ◀──────────┐
//	              ├──────────────┘
//	              ├─ Commit with Finish ─▶ delivered messages are gone, kept ones ready
//	              ├─ Release ───────────▶ ready, at once or after a delay
//	              ├─ message or key deleted, message retimed ─▶ lease ended, attempts counted
//	              └─ Until is over ─────▶ the next LeaseReady leases it again, and counts the attempts
//
// A lease is columns of the row of its key: token, end, and the numbers of the delivered
// messages. The token carries the owner of the claim (store.OwnedToken): no column was added for
// it, and programs of releases that know no owners take such a token for any other. The attempt of a delivery is counted in the row of a message when its lease ends,
// by whatever ends it, so that a lease costs one write of one row. A caller learns of a lease
// that was made by a group only when the group is durable. If the caller has gone by then,
// the lease is an orphan: it is released without counting the attempt, and a Claim that is
// about to return none waits for that, because none must mean that nothing was ready.
//
// # Who wakes a claimer
//
// A Claim call that found nothing waits with a bound for each partition: nothing is due before
// that time. It is woken by
//
//  1. the commit of this process that puts a message for it: with the lease, by hand-off;
//  2. any other commit of this process that makes something ready, or due at a known time: the
//     bound is lowered (claimer.touch), and a task queries when the time has come;
//  3. the timer of its queue, at the least bound: a message becomes visible, a lease ends, a
//     message without a route expires;
//  4. a hint. On PostgreSQL the process that commits sends NOTIFY, after the commit and gathered
//     over 2 ms (pgstore announcer), if the announcer finds that others should know: what is
//     ready and no call of this process asks for goes to all at once, what is still there after
//     50 ms although calls of this process ask for it as well, times that are earlier than those
//     that others were told of, and keys that were reserved to their holders alone. Every other
//     process has one connection that LISTENs, and passes it to Core.Hint, which does what 2 does.
//     A process that is alone sends nothing. On SQLite a goroutine reads PRAGMA data_version, and a
//     change is a hint without details;
//  5. the poll: every 30 s while hints arrive, otherwise after 50 ms and then at up to 1 s. It
//     covers lost notifications, lost connections and leases of processes that died. After
//     each reconnect the backend hints that anything may have changed.
//
// # Locks
//
//	poller.mu  ▷  claimer.mu  ▷  committer.mu  ▷  lifecycle.mu, storeTime.mu
//	poller.mu  ▷  watcher.mu  ▷  lifecycle.mu
//
// A lock may be taken while one to its left is held. No method of the Database is called under
// a lock, except Hinted and Alone, which read a flag, and Watch, which returns at once. The mutex
// of the announcer is held for map operations only. The opposite is allowed: decide runs
// inside a transaction and takes claimer.mu, which is safe because no holder of that lock
// waits for a transaction. Callbacks (call.then, storeTime.setBack) run under no lock.
//
// # Crashes
//
// The process dies
//
//   - before the transaction is written: nothing has changed; the caller has no answer.
//   - after that, before the caller knows: the commit is there, its outcome unknown to the
//     caller, as the contract allows. Messages that it handed off are leased to a caller that
//     is gone, and are claimed again when the lease is over. The attempt counts.
//   - after the commit, before the announcement: other processes find it by their polls.
//   - between claim and commit: as after a hand-off. The token fences the old caller: a commit
//     with it fails with ErrClaimLost once another claimer has the key or the time is over.
//   - with prefetched or orphaned leases: they end by time, like any other.
//   - in the middle of a sweep: each batch is one transaction; the rest is swept later.
//
// The connection fails: if the database can tell that nothing was written, the group is tried
// again or halved; otherwise each caller of the group gets the error, cached versions and
// bounds of what it touched are dropped, calls that wait query, and leases that it may have
// made are released.
//
// The machine is suspended, or its clock is set: due times are the database's; the estimate
// goes by the monotonic clock and is corrected by each answer, and no timer is longer than a
// minute. The database's clock is set back: all bounds are dropped.
//
// # Why it is so, and what was tried instead
//
// Verdicts in memory. A group has hundreds of commits, of which each may fail by itself; in SQL
// each would need a statement, or each rule a query that knows all of them, and both backends
// would have to agree.
//
// Groups that share no rows. At first a group took whatever was queued. Results of activities of
// one orchestration then met in two groups: the second waited for the first in the database, failed,
// and was worked out again. Leaving such calls in the queue made a fan-out on PostgreSQL go from
// 2,600 to 7,100 activities a second.
//
// Larger groups among other processes (minSharedGroup). With eight processes each group had three
// commits and cost as much as one of thirty; four processes together did 790 hellos a second.
//
// A side queue. A group that met a locked row, of a WithTx transaction that was left open, say, used
// to wait for it for 30 seconds and to fail as a whole; with two such rows all commits and renewals
// of the process stopped, and its leases were lost.
//
// Halving, and pauses between tries. A group that others interrupted was tried 50 times without a
// pause, and then failed with all its calls; now the call that is to blame fails alone.
//
// Hand-off within the commit, instead of a wake-up followed by a query: it saves a transaction and
// the writing of a row for each message. Prefetch does the same for a caller that is just being
// served, and so is not waiting. Its leases were first kept for 20 ms, which on a busy machine was
// over before the next call came, so that everybody queried for what had been released. A call
// that does not wait gets no prefetched leases made for it: it may be the last of its caller.
//
// Announcements to those that need them. At first each group was announced to all processes, with
// all partitions and records that it had changed. With eight processes that was a third of all CPU:
// the server wakes each listening connection for each notification, and hardly any of them was of
// use to anybody. Then turns went to whichever process was the first to query, and half of them
// were replayed from the log by a process that had not taken the turn before.
//
// Awaited records are polled by one query of all versions. When each was read by itself, a thousand
// callers were two thousand statements a minute in an idle process.
//
// internal/waitlist, which other stores use for calls that wait, is not used here. Its attempt
// follows an event; here a lease is made before the event, inside a transaction that may yet fail,
// and has to be taken back; due times are bounds that several subscriptions share; and an awaited
// record is passed on from the group that wrote it without being read. The list would have to know
// of all three, and what would be saved is an ordered slice of calls.
//
// # Invariants as code
//
// Cheap ones are always checked: a negative count of rows in flight, an ended call that ends
// again, or a negative count of waiting calls is a bug in this package, and panics. With the
// build tag invariants the parts are checked as a whole after each group, and cached versions
// and prefetched leases are compared with a database that can be inspected; see invariants.go.
package rows
