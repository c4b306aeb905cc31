// Package history is what an execution has been through, event by event: the only
// source of truth for replay.
//
// A history is made of turns. A turn begins with [TurnStarted], whose time is the
// orchestration's clock for as long as the turn lasts; then come the events that
// reached the instance since the turn before (completions, timers, raised events),
// in the order in which the code sees them; then what the code did about it. Event
// IDs count from 1 without gaps, so an event's place in the log follows from its ID.
//
// # The wire format
//
// An event is one entry of the instance's log: a format version as its first byte,
// then protobuf wire encoding as history.proto lays out. Fields that a reader does
// not know are skipped, so that an older program can read what a newer one has
// written; a kind that it does not know is an error, because it cannot replay it.
package history
