// Package engine measures orchestrations from end to end, through nothing but package abide.
//
// hello, sequence, fanout, events and idle are closed loops: each client starts an
// orchestration, waits for its result, checks it, and starts the next one. latency_… is from
// the call that starts one to its result, raise_… that of calls that raise an event.
//
// sleep starts instances first, and measures how late they wake (lateness_… by the clock of
// this machine when their code runs, turn_lateness_… by that of the store when their message
// is claimed), or what they cost while they sleep. An instance that wakes early is an error.
package engine
