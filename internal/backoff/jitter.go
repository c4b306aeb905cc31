package backoff

import (
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"time"
)

// jitterPart is the part of a delay that jitter may take from it: a fifth.
const jitterPart = 5

// Jitter returns d less up to a fifth of it, so that operations that failed at the same
// instant are not retried at the same instant. The result is a hash of the operation's name
// and the number of the attempt: the same arguments give the same delay, in every process and
// after a restart. It is never longer than d, and never zero unless d is.
func Jitter(d time.Duration, name string, attempt int) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(attempt)))
	// FNV spreads its last bytes over the low bits only; the finalizer of SplitMix64 over all.
	z := h.Sum64()
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	less, _ := bits.Mul64(z^z>>31, uint64(max(d, 0)/jitterPart)+1)
	return d - time.Duration(less)
}

// Exponential is the delay between the attempts of a durable operation: an activity, an
// action, an envelope. It depends on nothing but its arguments, since the process that
// computes the next delay may be another one, or may replay a history.
type Exponential struct {
	// First is the delay after the first attempt. Each further delay is Factor times the one
	// before, and at most Max. A Factor below 1 counts as 1.
	First  time.Duration
	Max    time.Duration
	Factor float64
}

// Delay returns the delay after an attempt, 1 being the first, less [Jitter].
func (e Exponential) Delay(name string, attempt int) time.Duration {
	return Jitter(e.Longest(attempt), name, attempt)
}

// Longest returns the delay after an attempt without jitter.
func (e Exponential) Longest(attempt int) time.Duration {
	d := float64(e.First)
	for i := 1; i < attempt && d < float64(e.Max); i++ {
		d *= max(e.Factor, 1)
	}
	if d >= float64(e.Max) {
		return e.Max
	}
	return time.Duration(d)
}
