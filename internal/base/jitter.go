package base

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"time"
)

// jitterPart is the part of a delay that jitter may take from it: a fifth.
const jitterPart = 5

// Jitter returns d less up to a fifth of it, so that what failed at the same instant is not
// retried at the same instant. The result is a hash of what is retried and the number of the
// attempt: the same arguments give the same delay, in every process and after a restart. It
// is never longer than d, and never zero unless d is.
func Jitter(d time.Duration, what string, attempt int) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(what)) // it never fails
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(attempt)))
	// FNV spreads its last bytes over the low bits only; the finalizer of SplitMix64 over all.
	z := h.Sum64()
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	less, _ := bits.Mul64(z^z>>31, uint64(max(d, 0)/jitterPart)+1)
	return d - time.Duration(less)
}
