// Package engine takes turns: it claims an instance, gives what reached it to the
// executor, and commits what the code decided, all in one.
//
// # Queues
//
// There are three. The key of the queue "turns" is an instance, its log is the
// instance's history, and its messages are what reaches the instance: its start,
// completions, timers that are due, events. The key of the queue "activities" is one
// activity that an instance asked for; it has one message, the task, and no log. The key
// of the queue "control" is an instance too: its messages are what is asked about the
// instance and needs no code, such as to suspend, resume or terminate it.
//
// # Routes
//
// An instance's route is its orchestration and version, so that a process claims only
// what it has registered. Nobody serves the route ".parked": the messages of a suspended
// or stalled instance wait there. Every engine serves ".ended", which an instance has that
// has ended: what still reaches it is acknowledged, and when its time is up it is deleted.
// Every engine serves the queue "control" too. Both work although nobody serves the
// orchestration any more.
//
// # What is committed
//
// The events of a turn, the messages that they cause, the instance's record and the end
// of the claim are one commit. Whoever writes the record appends to the log as well, at
// the length that it knows: so of a turn and of what is asked meanwhile, one has a
// conflict and is tried again, and what an engine has in its cache is true if the log is
// as long as it was. A turn that loses its claim forgets what it has done, and the
// messages are delivered to somebody else.
package engine
