// Package history defines the events of an execution: their kinds, their JSON form for people
// and their wire format on disk. The history of an execution is the only input of replay.
//
// A history is a sequence of turns. A turn begins with [TurnStarted], whose time is the
// orchestration's clock for the duration of the turn; then come the events that
// reached the instance since the previous turn (completions, timers, raised events),
// in the order in which the code sees them; then the events that the code recorded. Event
// IDs count from 1 without gaps, so the position of an event in the log follows from its ID.
//
// abide.Client.History returns a history, and abide.NewReplayer replays one.
//
// # The wire format
//
// An event is one entry of the instance's log: a format version as its first byte,
// then protobuf wire encoding as history.proto lays out. Fields that a reader does
// not know are skipped, so that an older program can read what a newer one has
// written; a kind that it does not know is an error, because it cannot replay it.
package history
