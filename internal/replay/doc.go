// Package replay executes orchestrations written in Go. It is pure: no I/O, no clock,
// no goroutine that runs by itself, no store. Events go in, events come out.
//
// An [Execution] is code and how far it has come. It is brought there by replaying
// its history, and taken further turn by turn. In a turn the events that reached the
// instance are given to the code one after another, in the order of history: each
// resolves a future, and the code runs until all of it waits again. What the code
// does meanwhile (schedule an activity, create a timer, end) are events too.
//
// While a turn is replayed, everything that the code does is compared with what
// history says that it did. A difference is a [Mismatch]: the code is not the code
// that made this history, and must not go on.
//
// The code runs in coroutines, one at a time, in an order that depends on nothing
// but the events. A coroutine that waits costs a stack and nothing else.
package replay
