// Package sim is a seeded simulation of a whole installation, and holds nothing but tests.
//
// A world is one store, several processes that share it (each with an engine, a timer
// service with its outbox, and an action service), and clients of all of them, in a
// testing/synctest bubble. The bubble provides the virtual clock. It does not order
// goroutines, so the world does: each call to the store waits at a gate until the scheduler
// grants it, and the scheduler grants one call at a time.
//
// # Scheduling
//
// A step of the scheduler waits until every goroutine of the bubble is blocked, sorts the
// waiting calls by their labels (process, method, key), picks one with the seeded generator,
// and decides its fate:
//
//   - it happens, and its caller learns the result
//   - it fails before it happens
//   - it happens, and its caller gets an error (the outcome is unknown)
//   - it is held for some virtual seconds; a caller that gives up meanwhile has a call under
//     way that may still happen, or never does
//
// A Claim or Await that finds nothing does not wait in the store. It stays at the gate and is
// tried again when something that it may return has changed: the scheduler keeps a counter
// of changes per queue, and the times at which messages become visible and leases end. When
// no call can be granted, virtual time passes.
//
// Between two steps exactly one call has returned, so that nearly all order is the
// scheduler's. What remains concurrent are goroutines that one event wakes together; each
// runs until its next call. A world runs on one processor, and calls with equal labels are
// ordered by their stacks, by what their goroutines called before, and by the age of these.
// So a seed repeats its run: of 300 worlds that ran twice, 299 granted the same calls at the
// same times. What is left are selects with several ready cases and the order of maps.
//
// # Faults and invariants
//
// A run has a program of random calls by clients, under faults of the store, held calls,
// killed and frozen processes, sinks and activities that fail, and a store's clock that
// jumps. Then the faults stop, time passes, and everything must have come to its end. The
// ledger records what activities, targets and sinks saw, and compares it with what clients
// were told. The invariants are those of the README: nothing lost, nothing twice, nothing
// early, order kept, limits kept, everything ends.
//
// TestBreaksAreFound breaks the store on purpose, once for each invariant, and requires that
// the checks notice: the checks themselves are tested.
package sim
