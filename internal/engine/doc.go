// Package engine takes turns: it claims an instance, gives what reached it to the
// executor, and commits what the code decided, all in one.
//
// # Queues
//
// There are two. The key of the queue "turns" is an instance, its log is the
// instance's history, and its messages are what reaches the instance: its start,
// completions, timers that are due, events. The key of the queue "activities" is one
// activity that an instance asked for; it has one message, the task, and no log.
//
// # Routes
//
// An instance's route is its orchestration and version, so that a process claims only
// what it has registered. Two routes are special. Every engine serves "control":
// whoever suspends, resumes or terminates an instance, or wants it deleted, puts a
// message with this route, and the turn that handles it gives the instance its own
// route back; so it works although nobody serves the orchestration any more. Nobody
// serves "parked": the messages of a suspended or stalled instance wait there.
//
// # What is committed
//
// Only who holds an instance's lease writes its log and its record, so a turn needs
// no version of the record: the token fences all of it. Its events, the messages that
// they cause and the end of the claim are one commit. A turn that loses its claim
// forgets what it has done, and the messages are delivered to somebody else.
package engine
