// Package durabletask is a backend for the Durable Task SDKs: the gRPC service TaskHubSidecarService, on the
// engine of a server.
//
// A task hub is a tenant. A worker is a stream of work items, for which the service has an [engine.Engine] of its
// own: the worker is its executor. What the SDK is told of an instance's history is made from the events of the
// engine, and what it answers becomes such events, with the numbers that the SDK has given to them kept beside
// (history.Foreign). So an instance whose code is in another language has the same history, leases, limits and
// page as any other.
//
// Workers do not have to say what they serve. The names that clients and workers of a task hub have used are in a
// record of the store, and an engine without filters claims all of them: see hub.
package durabletask
