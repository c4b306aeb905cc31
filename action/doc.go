// Package action does things when their time has come: once, again and again, or because a
// webhook arrived.
//
// An [Action] is the unit of work. It is pending until a tick finds it due, running while
// its [Target] works on it, and then completed or failed. A [Service] ticks at a rate; each
// tick claims everything that is due in the order of time, marks it running, and hands it
// to a pool, which works on it while the loop goes on.
//
// An action is a record, and a message that is not visible before the action is due. The
// message stays, under a lease, while the action runs, and is consumed in the commit
// that notes the outcome. So nothing runs twice at the same time, whatever dies:
//
//   - A process that dies leaves actions that say running and whose messages are claimed
//     again, at once on the embedded store and when the lease ends on others. They are
//     failed, "recovered from restart", or run again if they were declared idempotent.
//   - An action that is cancelled loses its message, and whoever runs it learns that from
//     the lost lease.
//
// A [Schedule] makes actions again and again. It is a record with one message too, which
// is visible when its next run is due.
package action
