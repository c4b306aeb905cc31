// Package workerhost is the server's end of a session with a worker: it has an engine run the orchestrations
// and activities of the worker.
//
// A connected worker is an engine whose code runs elsewhere. Each session has an engine of its own, with the
// names, the slots and the cache of the worker, so that everything an engine keeps to holds for a worker as
// well: nothing is claimed that no slot is free for, a turn goes where the instance is cached, what is
// closed is drained first, and one worker is no concern of another. The session is the executor of that
// engine ([engine.Executor]), and what calls its activities.
//
// What a worker sends is checked before it is believed: see [Session.Run]. A worker that breaks the
// protocol loses its session, and what it ran is run again.
package workerhost
