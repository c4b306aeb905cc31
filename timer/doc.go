// Package timer is a durable timer service for many tenants: a timer that was scheduled with
// [Service.Schedule] publishes the event DueTimeReached on the bus when it is due.
//
// A timer is a record, named by its tenant and key, and a message that is not visible
// before the timer is due. Both change in one commit:
//
//   - Scheduling puts the record, armed, and the message.
//   - Moving, snoozing and cancelling replace or delete the message. A process that was about
//     to fire the timer loses its claim, and publishes nothing.
//   - Firing consumes the message, marks the record fired, and puts the envelope into the
//     outbox, with an ID that never changes. The relay of the outbox publishes it to the
//     sinks, and retries until it is accepted.
//
// So no timer is lost, none fires early, and each arming of a timer produces at most one
// envelope. After a crash an envelope may be published twice, with the same ID. All due times
// are those of the store's clock.
//
// [Service.Run] may run in any number of processes on the same store. All other methods work
// without it.
package timer
