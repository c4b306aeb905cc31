// Package bus is how Abide tells the world: the envelope, and the port through
// which envelopes leave.
//
// An [Envelope] is a self-contained event. Its ID is made once and stored before
// the envelope is published for the first time, so that an envelope which is
// published again, because nobody knows whether the first time succeeded, has the
// same ID: a broker with deduplication drops it, and so can any receiver.
//
// An [EventBus] takes envelopes to one place, a sink: [Local] to subscribers in this
// process, and the packages below this one to webhooks, NATS JetStream and Redis
// Streams. The suite that each of them passes is
// [github.com/abidehq/abide/bus/bustest].
package bus
