// Package action runs actions: once at a time, on a schedule, or when a webhook arrives.
//
// An [Action] is the unit of work. It is pending until a tick finds it due, running while its
// [Target] runs it, and then completed or failed. A [Service] ticks at a fixed rate; each tick
// claims the due actions in the order of their due times, marks them running, and hands them to
// a pool of workers.
//
// An action is a record, and a message that is not visible before the action is due. The
// message stays, under a lease, while the action runs, and is consumed in the commit
// that notes the outcome. So nothing runs twice at the same time, whatever dies:
//
//   - A process that dies leaves actions that say running and whose messages are claimed
//     again, at once on the embedded store and when the lease ends on others. They are
//     failed, "recovered from restart", or run again if they were declared idempotent.
//   - An action that is cancelled loses its message, and the process that runs it learns that
//     from the lost lease.
//
// A [Schedule] creates actions at the times of its plan. It too is a record with one message,
// which becomes visible when the next run is due.
package action
