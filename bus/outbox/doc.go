// Package outbox publishes envelopes from a store to their sinks: the transactional outbox
// pattern.
//
// A producer adds the message of [Put] to the commit of the change that an event reports. A
// [Relay] claims such messages, publishes their envelopes and finishes them, in this order:
// after a crash in between, the same envelopes are published again with the same IDs, and none
// is lost. An envelope that a sink does not accept is retried with backoff, and finally put into
// quarantine, from where it can be redriven.
package outbox
