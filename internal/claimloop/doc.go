// Package claimloop is the loop below the engine, timers, actions, the outbox and operations:
// it claims keys of a queue, has them handled, and claims again.
//
// # States
//
// One goroutine runs a [Loop]. It is in one of four states:
//
//	        capacity            claims
//	prepare ────────▶ claiming ────────▶ handling
//	   ▲                 │  │                │ nil
//	   │   nothing ready │  │ error          ├──────────▶ prepare
//	   └─────────────────┘  ▼                │ error
//	   ▲                 backing off ◀───────┘
//	   └─────────────────────┘
//
// While nothing is ready the goroutine is inside [store.Store.Claim], which waits for a commit
// or a due time: an idle loop makes one call in ten minutes.
//
// # Ownership of a claim
//
// A claim belongs to the loop for the time between the return of Claim and the call of Handle,
// and to Handle after that. Handle ends it in one of three ways: a commit finishes it,
// [Release] gives it back, or its lease expires. The loop never drops a claim: if ctx ends
// while the store answers, the claims that it returns are handled all the same, since giving
// them back would cost a call, and losing them a lease.
//
// # Errors
//
// An error of Claim or Handle means that the store is in trouble. The loop backs off, from
// 50 ms to 5 s, and tries again; it logs nothing, as internal/outage logs the outage once. Two
// errors end the loop, [store.ErrClosed] and [store.ErrFailed]: the store will not serve
// again. A conflict or a lost claim is not trouble: Handle deals with it and returns nil, or
// one contended key would slow down all others.
//
// Code of users is called through [Catch], inside Handle. A panic of the loop's own callers is
// a bug and takes the process down, with its claims uncommitted.
//
// # Stopping
//
// When ctx ends the loop claims no more and returns nil. What was claimed before may take a
// while longer: its context is that of [Drain], which ends later than ctx by the drain
// timeout. Whatever is not finished then is released, and its attempt does not count.
//
// # Crashes
//
// The loop holds no state that is not in the store. A process that dies while claiming, or
// between Claim and the commit of Handle, leaves leases behind. They expire, their messages
// are claimed again with a higher attempt count, and Handle must be able to run twice. A
// commit whose answer is lost is repeated by internal/lease.Insist; if the first one was
// applied the second one meets [store.ErrClaimLost].
//
// # Alternatives
//
// Claiming by a ticker costs a query for each tick of each idle process, and half a tick of
// latency. One loop for all queues of a process makes a slow handler delay the others. A
// channel between claiming and handling, with claims ahead of free capacity, holds leases on
// work that nobody does: other processes could do it. So a loop claims only what it has
// capacity for, and Prepare waits until there is some.
package claimloop
