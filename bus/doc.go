// Package bus defines events, as envelopes, and the interface through which they are published.
//
// An [Envelope] is a self-contained event. Its ID is stored before the envelope is first
// published, so that an envelope that is published again after an unknown outcome has the same
// ID: a broker with deduplication drops it, and so can any receiver.
//
// An [EventBus] publishes envelopes to one destination, a sink: [Local] to subscribers in this
// process, and the packages below this one to webhooks, NATS JetStream and Redis Streams. The
// suite that each of them passes is [github.com/abidehq/abide/bus/bustest].
package bus
