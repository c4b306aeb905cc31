// Package bench measures a store as the engine uses it, and an engine, timers, actions and
// a server as programs use them.
//
// # Stores
//
// [Run] opens a store, loads it, and runs one of two workloads:
//
//   - commit: claimers claim instances, and committers commit a turn for each:
//     finish the claim, append three entries, put the record, put the message that
//     makes the next turn. Throughput covers claim and commit; the latency is that
//     of Commit alone.
//   - claim: one message at a time is put and claimed, in a queue that may hold
//     millions of messages which are not visible yet.
//
// Everything lives in a queue, a tenant and a kind of records of its own, under
// names that follow from their number. So a store that was loaded once can be
// measured many times, and loading it again is harmless.
//
// With [Options.OpenRaw] the same turns also run on the engine below the store, in
// turns with it, which says what the store adds. The machine may be noisy, so the
// ratios say more than the absolute figures.
//
// # Engines
//
// [RunEngine] opens a store, serves an orchestration on it, and has clients in the same
// process run it, through nothing but package abide: hello, sequence, fanout, events and
// idle are loops in which each client waits for a result before it starts the next
// orchestration; sleep starts instances first, and measures them when they are due, or
// while they are not. Results are checked, instances that wake early are an error, and so
// is a run in which nothing happens any more.
//
// # Timers
//
// [RunTimers] opens a store and schedules tenant timers on it, through nothing but package
// timer: in bulk, and singly by clients in the same process. They are published to a
// subscriber in the process, which measures how late each is. A timer that fires early, is
// published twice, or is not published is an error.
//
// # Actions
//
// [RunActions] opens a store and measures package action on it: ticks that find nothing
// due, actions that are due for a target in the same process which does nothing, and
// webhooks that senders in the same process send over HTTP to package hook. An action that
// is run twice, or not at all, is an error.
//
// # Server
//
// [RunServe] opens a store and serves it as the verb serve does, with page and audit log, on
// a port of this machine. Clients in the same process start instances, ask for pages and
// lists while the store is full, and follow what changes, all of it over HTTP. An answer that
// says that something went wrong, one without what must be in it, an instance whose start was
// answered and that has no result, and a change that does not reach a stream are errors.
package bench
