// Package engine takes turns: it claims an instance, gives the messages that reached it to the
// executor, and commits what the code decided, all in one transaction.
//
// # Queues
//
// There are four. The key of the queue "turns" is an instance, its log is the instance's
// history, and its messages are what reaches the instance: its start, completions, timers that
// are due, events. The key of the queue "activities" is one activity that an instance asked
// for; it has one message, the task, and no log. The key of the queue "control" is an instance
// too: its messages are requests that need no code, such as to suspend, resume or terminate the
// instance. The key of the queue "entities" is an entity: see entity.go.
//
// # Routes
//
// An instance's route is its orchestration and version, so that a process claims only what it
// has registered. No engine serves the route ".parked": the messages of a suspended or stalled
// instance wait there. Every engine serves ".ended", the route of an instance that has ended:
// messages that still reach it are acknowledged, and when its retention is over it is deleted.
// Every engine serves the queue "control" too. Both work although no process serves the
// orchestration any more.
//
// # The turn
//
// A turn (the type turn) is one claim of an instance and the transaction that is made of it:
//
//		claim ─▶ decode ─▶ find ─▶ load ─▶ take ─▶ flush ─▶ decide ─▶ commit ─▶ committed
//		           │         │       │       │        │         │         │
//		           │         │       │       │        └ stalled │         ├ conflict: rebase, or release
//		           │         │       │       └ stale: dropped   │         ├ claim lost: forget
//		           │         │       └ undecodable: stalled     │         └ invalid: stalled
//		           │         └ no record: quarantine            └ limits: stalled
//		           └ undecodable: quarantine
//
//	  - decode parses the messages (body.go).
//	  - find gets the instance: from the cache, from the message that starts it, or from its
//	    record (find.go).
//	  - load reads the history into the ledger, unless the instance comes from the cache. The
//	    code itself is replayed only when it has something to do (execute).
//	  - take turns each message into incoming events, and drops those that history has already or
//	    that are meant for another execution (take.go).
//	  - flush runs the code with the incoming events behind one TurnStarted, whose time is that of
//	    the store. The code returns the events that it produced.
//	  - decide adds to the transaction what each of these events causes: a task, a timer, a child,
//	    an end (decide.go).
//	  - commit makes all of it durable, or nothing (commit.go).
//
// A turn may flush more than once: before an event that is dropped unless the code awaits it,
// the code must have seen all that came before. A turn whose code yields, because its steps are
// to become durable or because the transaction is full, commits what there is and puts a wake
// message; the rest of its messages is kept for the next turn.
//
// A turn that this process causes itself, by a start, the outcome of an activity or an event, needs no
// claim if the instance is in its cache: it is fused with its cause into one commit (fuse.go).
//
// # Invariants
//
//  1. One commit. The events of a turn, the messages that they cause, the instance's record and
//     the end of the claim are one transaction. There is no state in between.
//  2. A commit that writes the record of an instance appends to its log as well, at the length that it
//     has read. So of a turn and a control request that race, one meets a conflict. The one
//     exception is an instance whose history ends within a turn (Info.partial, a fork): there the
//     version of the record decides.
//  3. By 2, an instance in the cache is valid if and only if its log has the tag and the length
//     that it had when it was put there. No other check is needed, and none is made.
//  4. The events of an execution have the IDs 1, 2, 3, … without a gap: entry i of the execution
//     has the ID i+1. An executor that returns another ID stalls the instance.
//  5. Every message names the run (the seed) of the execution that it is for. A message of
//     another run is dropped: it is late, or it belongs to an instance that was deleted and
//     started again under the same ID.
//  6. Every message that a turn puts has an ID that is derived from the run and the event that
//     caused it. A transaction that is repeated puts nothing twice.
//  7. An instance is in one of three places: in the cache, in the hands of one turn, or nowhere
//     in this process. Taking it out of the cache and putting it back is how it moves.
//  8. turn.owner and Task.owner are set once. The one that sets it settles the claim:
//     the goroutine that runs the code, the watchdog, or a timeout. The others come too late.
//  9. The messages of an instance stay in order. A claim of an instance is never released with a
//     delay, since messages that arrive meanwhile would overtake; to wait, the engine holds the
//     claim (pauseHolding). Tasks have no order, and are released with a delay.
//
// With the build tag invariants each committed turn is checked further: see invariants_on.go.
//
// # The cached instance
//
// The cache keeps the code of instances that wait, so that a turn need not replay the history.
// It is an optimisation: an engine with a CacheSize of 1 gives the same results, later. A cached instance
// is thrown away
//
//   - when a claim finds its log longer, or with another tag: another process took a turn, or the
//     instance was deleted and started again;
//   - when a turn of it fails for any reason, since its code has gone on and the store has not;
//   - when a control request changes its log, in this process;
//   - when a turn was rebased: the code has other event IDs than its history;
//   - when the execution ends, or the instance stalls;
//   - when it is the least recently used one and there are more than CacheSize;
//   - when the engine is closed.
//
// Throwing it away runs the deferred functions of its code, which may block, so it is done in a
// goroutine that nobody waits for but Close (closers). The next turn of an instance may be
// claimed while the last one still returns from its commit. It waits until the instance is back
// (cache.expectReturn and cache.returned) instead of replaying the history, which costs more than the wait.
//
// # Activities
//
// An activity task is a claim on the queue "activities" (the type Task). Its states are those of
// the message: scheduled, leased, finished, or scheduled again with a delay and a higher attempt.
// The engine finishes it with one of three transactions: the result or the final failure goes to
// the instance; or the task is put again for a retry; or, undecodable, it goes to quarantine. The
// instance is told of a timeout from schedule to close by a message of its own, put when the
// activity is scheduled: that works although no process runs the activity.
//
// # Leases
//
// internal/lease renews all leases of the process. If one is lost, or cannot be renewed for so
// long that another process may have it soon, the keeper calls turn.lost or Task.lost: the
// context ends with ErrLost, and code that does not return within returnWithin is abandoned. The
// commit of a turn uses no context of the turn: the store decides whether the claim is live, and
// only the store.
//
//	claimed ──keep──▶ kept ──drop──▶ finished by a commit, or released
//	                   │ ▲
//	      renewal fails│ │renewed
//	                   ▼ │
//	                 doubtful ──a twelfth before its end──▶ given up: lost is called
//	                   │
//	                   └──the store says so──▶ lost
//
// # Crashes
//
//   - Between claim and commit: nothing of the turn is durable. The lease expires (on the
//     embedded store, a restart forgets all leases) and the messages are claimed again, with a
//     higher attempt count. Steps of the turn that had run are run again; activities had not been
//     scheduled yet. After TurnAttempts deliveries the instance stalls as poison.
//   - During the commit: it is applied or not, and the process is not there to care. Both cases
//     are states that the store can have anyway.
//   - Commit returns an error and the outcome is unknown: the engine forgets the instance and
//     releases the claim. If the commit was applied, the release finds no claim, and the next turn
//     is loaded from the longer log. If it was not, the messages come again. The engine never
//     guesses which.
//   - Between the commit and the answer to a caller of Start or Raise: the caller tries again with
//     the same instance or event ID, and meets what it has done.
//   - Between the return of an activity's function and its commit: the activity runs again. That
//     is what at least once means. While the process lives, Task.commit insists, because the
//     effect is there and its result is worth some patience.
//   - Between two commits of a fork that is copied in parts: the new instance stays suspended and
//     partial, and is to be terminated.
//   - The process is alive but cut off from the store: see Leases. Its work is interrupted before
//     another process can begin it, as far as its code listens to its context.
//
// # Locks
//
// No lock is held while the code of users runs. No lock but three is held while the store is
// called: Task.mu while a heartbeat is saved, so that heartbeats are saved in order;
// tenantQuota.mu while the instances of a tenant are counted, so that they are counted once; and
// that of the gauges while they are observed. None of them is taken by the keeper, the watchdog or
// the claim loops.
//
// Lock order, outermost first. A lock that is not listed with another is never held with it.
//
//	job.mu            → slots.mu
//	tenantQuota.mu    → quotas.mu
//
// The keeper, the cache, the watchdog and the feed call nobody while they hold their locks:
// callbacks run after it is released, or in a goroutine of their own. So a callback may call back
// into them.
//
// # Alternatives
//
//   - A queue of timers beside the queue of messages, with a dispatcher: two truths about what is
//     due, and a window between them. A timer is a message that is not visible yet.
//   - The version of the record as the condition of a turn's commit, and the log without one: a
//     cached instance then needs a read of the record before each turn. With invariant 2 the claim
//     brings along all that is needed to trust the cache.
//   - A turn for each message: a fan-in of a thousand activities takes a thousand commits. A turn
//     takes all messages that are visible.
//   - Releasing a claim with a delay after a store error: see invariant 9.
//   - One goroutine for each instance that waits: memory grows with what is merely pending. A
//     coroutine in the cache costs a stack, and the cache is bounded.
package engine
