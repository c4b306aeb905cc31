// Package engine measures orchestrations from end to end, through nothing but package abide.
//
// hello, sequence, fanout, events and idle are closed loops: each client starts an
// orchestration, waits for its result, checks it, and starts the next one. latency_… is from
// the call that starts one to its result, start_… that of the call alone, raise_… that of calls that
// raise an event.
//
// With --rate they are open loops: orchestrations are started at that rate whether or not others have
// ended, as far as there are clients (begun_late_max_ms is how late a start was for want of one), and
// latency_… is from when they should have been started. accepted_per_s and refused_per_s are starts
// while the load lasts, and recovery_s is how long it took after that until all that was accepted had
// completed. An accepted one that does not complete with the right result is an error.
//
// sleep starts instances first, and measures how late they wake (lateness_… by the clock of
// this machine when their code runs, turn_lateness_… by that of the store when their message
// is claimed), or what they cost while they sleep. An instance that wakes early is an error.
package engine
