// Package store is the ground floor of Abide: the contract between the engine
// and the places where its state lives.
//
// A store keeps three things, and changes them together in one commit:
//
//   - What will happen is a [Message] with a time. It waits in a queue, under a
//     [Key], and nobody sees it before it is visible.
//   - What has happened is an entry in the log of a key.
//   - What is true now is a [Record], with a version.
//
// Everything else is made of these. A timer is a message that is not visible
// yet, a task is a message for a worker, an event to publish is a message for
// the bus, and a quarantined message is a record.
//
// # Keys
//
// A [Key] is a name within a tenant within a queue. It has pending messages, a
// log, a route and at most one lease; all four come into being when they are
// first used, and the key is gone when a commit, or a message that goes to
// quarantine, leaves it with neither messages nor a log.
//
// A key's route says who can serve it: an orchestration and its version, an
// activity, a sink. It is the [Message.Route] of the message most recently put
// to the key with one, or the [Append.Route] of the latest append; it counts from that commit on (even if that message is
// not visible yet), and it stays until the key is gone. A key without a route
// cannot be claimed: its messages wait for one, each for its [Message.TTL], and
// then go to quarantine. A message with [Message.IfRouted] does not wait: it is
// dropped by the commit that would put it to a key without a route. A sender uses
// it for a receiver that may be gone, such as the parent of an instance.
//
// # Order
//
// A message is visible from the latest of three times: its VisibleAt, that of the
// commit that put it, and that of the commit that gave its key the route which it
// has; in whole milliseconds, VisibleAt rounded up. Messages of a key are
// delivered in the order of these times; messages with the same time, in the
// order in which they were put. Re-timing a message, or releasing it with a
// delay, changes its time and nothing else. Between keys of one tenant and one
// route, the key with the oldest visible message comes first. Tenants take
// turns: however many keys of one tenant are ready, a ready key of another is
// among the next few that are claimed.
//
// # Time
//
// The only clock is the store's. Callers learn it from [Claim.Now]; nothing depends on the
// clock of a caller.
//
// The time of a store does not run backwards when its clock is set back by up to
// [MaxClockLead]: it runs at half speed, or stands still, until the clock has caught
// up. If the clock is set back by more, it was wrong before. A store whose clock is that of a
// server follows it back. A store whose clock is that of the process runs at half speed
// while it is open, and has the time of the clock when it is opened again: a latest time that
// was stored counts only if it is ahead of the clock by no more than MaxClockLead. In no case
// does the time stand still for longer: leases end, and messages become visible. What was put
// while the clock was ahead keeps the times that it was given.
//
// When the clock is set ahead, messages become visible and leases end that much earlier.
//
// # Delivery
//
// A message is delivered at least once: until a commit consumes or deletes it,
// or it goes to quarantine. Each delivery counts as an attempt when the message
// is claimed, before anybody sees it, so that an attempt that kills its process
// counts too.
//
// # Durability
//
// When [Store.Commit] returns nil, the commit is on disk, unless the backend was
// opened with an option that says otherwise. Claim and Await show only what is
// durable: the messages that a claim delivers, and the commits that consumed what
// came before them or made the log as long as it is. Get, List, Count, ReadLog,
// Pending and Stats never wait for a writer's sync and may show a commit that is
// about to be acknowledged.
//
// # Writing a backend
//
// Implement [Store], call [Tx.ValidateWithin] and [ClaimRequest.Validate] first, build
// quarantine records with [Quarantine], register a URL scheme with [Register],
// and run [github.com/abidehq/abide/store/storetest] until it passes: each case
// is named by the rule that it proves. Memory must not grow with what is merely
// pending, and the cost of a claim must not either. A store that several processes or
// databases share may keep some promises within a bounded time: docs/backends.md says
// which, and what the backends of this module do.
package store
