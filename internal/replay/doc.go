// Package replay executes orchestrations written in Go. It is pure: no I/O, no clock, no
// goroutine that runs by itself, no store. Events go in, events come out.
//
// An [Execution] is code and how far it has come. It is brought there by replaying its history,
// and taken further turn by turn. In a turn the events that reached the instance are given to
// the code one after another, in the order of history: each resolves a future, and the code runs
// until all of it waits again. What the code does meanwhile (schedule an activity, create a
// timer, end) are events too.
//
// # Coroutines
//
// The code runs in coroutines made with [iter.Pull], one at a time, in an order that depends on
// nothing but the events: those that can run are in a first-in first-out list, and the one that
// resolves a future appends its waiters in the order in which they began to wait. A coroutine
// that waits costs a stack and nothing else. Goroutines with channels would do as well, but each
// switch would go through the scheduler, and only a rendezvous at each switch would keep two of
// them from running at once.
//
//	          wake                  resume
//	waiting ───────▶ runnable ──────────────▶ current ──▶ ended
//	   ▲                                        │
//	   └────────────────────────────────────────┘
//	            wait: a future, or the next turn
//
// # States of an execution
//
// New (started is false), then between turns or within one, then ended, failed or closed. Within
// a turn it is in one of two modes. While it replays (replayed is true), each event that the code
// emits is compared with the next of expected, and nothing is produced. While it is live,
// emitted events are appended to produced. ContinueTurn begins in the first mode and changes to the
// second within the turn, where history breaks off.
//
// # Invariants
//
//  1. lastID is the ID of the last event that was received or emitted, and the IDs have no gap.
//     An incoming event with another ID is [ErrHistory].
//  2. The same code and the same events give the same sequence of emitted events. All that could
//     break it is derived from events: the time is that of the last TurnStarted, random numbers
//     come from the seed of the start, maps are walked in the order of creation (made, number),
//     and of several futures the one that history resolved first wins a select (order).
//  3. futures holds exactly those activities, timers and children that are neither resolved nor
//     cancelled. It equals the ledger that the engine derives from history without running code;
//     the build tag invariants checks that after each turn.
//  4. At most one coroutine is current, and only code on its stack may call into the execution.
//     A call from elsewhere panics with errOutside, or is found by mustNotBeInStep.
//  5. After an error the execution is of no use: err is kept, every later call returns it, and
//     all coroutines are stopped. The code must not go on from a state that history does not have.
//
// # Nondeterminism
//
// While a turn is replayed, everything that the code does is compared with what history says that
// it did: the kind, the name, the target and the event that it refers to. Inputs, times and texts
// are not compared, since a change of those is harmless: history has the old ones, and they count.
// A difference is a [Mismatch], which names both sides and the line of the code. The code is then
// stopped inside the call that differs and does not get to the next statement, so it cannot act
// on results that belong to something else.
//
// # Stopping code
//
// Code that is stopped in the middle must unwind, so that its deferred functions run, and must not
// be able to go on. A panic can be recovered by the code; so the stack is unwound with
// [runtime.Goexit]. Goexit within an iter.Pull coroutine also ends the goroutine that resumed it,
// so a coroutine that is to be stopped while it runs is suspended first (leave), and unwound from a
// goroutine of its own (stopAll). Deferred functions that call the execution find it ended and are
// unwound in turn.
//
// # Crashes
//
// Nothing here survives the process, and nothing needs to: an execution is a function of its
// history. A turn whose events were not committed is forgotten by dropping the execution, never by
// undoing it. The one effect that a turn has outside is that of its steps, which run again: see
// [Context.Step].
package replay
