package bench

import "math/rand/v2"

// Sizes of what a turn commits. They are those of the measurements that the design
// rests on.
const (
	EntriesPerTurn = 3
	EntryBytes     = 200
	RecordBytes    = 200
	MessageBytes   = 100
)

// noise is what all bodies are cut from. It does not compress, and is large enough
// for a block of the engine not to hold the same piece twice.
var noise = func() []byte {
	b := make([]byte, 1<<18)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return b
}()

// payload returns size bytes, others for another n. Nobody may change them.
func payload(n uint64, size int) []byte {
	at := int(scramble(n) % uint64(len(noise)-size))
	return noise[at : at+size : at+size]
}
