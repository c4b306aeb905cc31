// Package workerlink has what both ends of a worker's stream share: how events, errors and causes travel,
// and an outbox that sends what is ready together.
package workerlink

// Protocol is the version of the protocol that this release speaks.
const Protocol = 1

// MaxMessage is the largest message of a stream, in bytes. Histories are sent in parts that are far
// smaller; an input or a result is in a message with others.
const MaxMessage = 64 << 20

// MaxStarts and MaxWaits are how many starts and waits of a worker's program are under way at a time. Others wait
// in the worker.
const (
	MaxStarts = 1_000
	MaxWaits  = 9_000
)

// Window is how many bytes an end of a connection sends before the other one has read some: more than the
// turns and activities of a busy moment, or the connection stands still for a round trip.
const Window = 1 << 20
