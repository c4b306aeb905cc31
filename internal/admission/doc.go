// Package admission bounds how many commits of clients a process has in flight, so that a process
// under more load than it can bear accepts what it can finish and refuses the rest early.
//
// Only what comes from outside is admitted: starts and events. Turns, outcomes of activities,
// children and control requests are not: they finish work that was accepted, and to delay them
// would make room for nothing.
//
// # Limit
//
// A [Limiter] admits a call at once while fewer calls than its limit are in flight. The limit is
// [MaxLimit] at first. It is lowered to seven tenths of what was in flight, not more often than every 250 ms, when
// the process is behind, and grows again, by about a thirtieth in 50 ms, after half a second without such
// a signal. It is never below 1, nor below [StaleLimit] because of a backlog, and one more for each [Pass]
// that calls take on average. Where calls are quick, as few as that may be thousands in a second; if the
// process is behind with them too, they are admitted at intervals that grow up to Pass. So calls flow at a
// rate of about 50 a second at least, however large the backlog is.
//
// A call that is not admitted at once waits, first in first out. It is refused with [ErrBusy] after
// [MaxWait], or at once if [MaxWaiting] calls wait. So a call takes at most MaxWait longer than the
// commit itself, and the memory of waiting calls is bounded. While calls have been waiting for longer than
// MaxWait without a break, each waits for [StandingWait] only: a burst is smoothed by waiting, a load that
// lasts is not.
//
// # Signals
//
// The process is behind if
//
//   - most messages that it claims had been visible for more than [Stale], and the slots of their loop
//     were held by the engine rather than by the code of users: see [Queue]. Activities that wait
//     because all slots run long ones are a queue that users have asked for, and refuse nothing;
//   - an admitted call took longer than [Slow], and [SlowEach] for each thing that it commits;
//   - the store says so: see store.Pressured. It is asked every 250 ms while calls are admitted.
//
// Bulk calls have a limiter of their own, which no [Queue] lowers: a bulk load is a backlog on purpose.
//
// # Alternatives
//
// A limit of a rate needs to know the capacity, which differs by machine, store and orchestration. A
// limit of the backlog (messages that are pending) refuses bulk loads, which are a backlog on purpose.
// The number of calls in flight needs neither: at a limit of n, no more than n divided by the latency
// of a commit are accepted in a second, and the signals find the n at which the backlog stops growing.
package admission
