// Package catalog keeps what programs say of their orchestrations and activities: names, and the
// schemas of inputs, results and events.
//
// A process publishes the signatures of what it serves when it starts ([Catalog.Publish]), and those of
// events when its code first waits for them ([Catalog.Learn]): an event is not registered. A signature
// belongs to a build of the program, and the store keeps those of the last builds. A caller that starts an
// instance or raises an event has it checked before it is durable, in a process without the types.
//
// A name that is in no signature was never served on this store. A signature stays when the last
// process that serves it has gone: who serves what now is in the roster.
package catalog
