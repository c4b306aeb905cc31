// Package outbox takes envelopes from a store to their sinks.
//
// Whoever has something to tell puts the message of [Put] into the commit that makes
// it true. A [Relay] claims such messages, publishes their envelopes and finishes
// them, in this order: a process that dies in between publishes the same envelopes
// again, with the same IDs, and none is lost. What a sink does not accept is tried
// again, later each time, and in the end goes to quarantine, from where it can be
// redriven.
package outbox
