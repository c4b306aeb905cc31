// Package timer keeps appointments for many tenants: what was scheduled with
// [Service.Schedule] becomes the event DueTimeReached on the bus when its time has
// come.
//
// A timer is a record, named by its tenant and key, and a message that is not visible
// before the timer is due. Both change in one commit:
//
//   - Scheduling puts the record, armed, and the message.
//   - Moving, snoozing and cancelling replace or delete the message. Whoever was
//     about to fire the timer then loses the claim, and publishes nothing.
//   - Firing consumes the message, marks the record fired, and puts the envelope into
//     the outbox, with an ID that is made once. The relay of the outbox takes it to
//     the sinks, as often as it takes.
//
// So no timer is lost, none fires early, and each arming of a timer makes one envelope
// at most. A crash may have an envelope published twice, with the same ID. The only
// clock is the store's.
//
// A program calls [Service.Run] in as many processes as it likes, or in none but one;
// all other methods work without it.
package timer
