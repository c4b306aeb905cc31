package bench

import (
	"math/bits"
	"time"
)

// Histogram counts durations in buckets whose width grows with the duration, so that
// any quantile is known to about one part in 64. Recording is a few instructions and
// never allocates. It is not safe for concurrent use: each goroutine has its own, and
// they are merged at the end.
type Histogram struct {
	counts [buckets]uint64
	total  uint64
	max    time.Duration
}

const (
	// subBits is the number of bits below the leading one that choose a bucket.
	subBits = 5
	sub     = 1 << subBits

	// maxExponent bounds what is told apart: 2^40 ns are 18 minutes.
	maxExponent = 40
	buckets     = (maxExponent - subBits + 1) * sub
)

// Record counts a duration. A negative one counts as zero.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.counts[bucketOf(d)]++
	h.total++
	h.max = max(h.max, d)
}

// Merge adds what another histogram counted.
func (h *Histogram) Merge(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}

// Count returns how many durations were recorded.
func (h *Histogram) Count() uint64 { return h.total }

// Max returns the longest duration, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Quantile returns the duration that a fraction q of all do not exceed: 0.5 for the
// median. It is zero if nothing was recorded.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := min(uint64(q*float64(h.total)), h.total-1)
	var seen uint64
	for i, n := range h.counts {
		seen += n
		if seen > rank {
			return min(middleOf(i), h.max)
		}
	}
	return h.max
}

// bucketOf returns the bucket of d. Up to 2*sub each nanosecond has its own; above,
// each power of two is divided into sub of them.
func bucketOf(d time.Duration) int {
	n := uint64(d)
	if n < sub {
		return int(n)
	}
	exponent := bits.Len64(n) - 1
	if exponent >= maxExponent {
		return buckets - 1
	}
	shift := exponent - subBits
	return (shift+1)*sub + int(n>>shift) - sub
}

// middleOf returns the duration in the middle of a bucket.
func middleOf(bucket int) time.Duration {
	if bucket < sub {
		return time.Duration(bucket)
	}
	shift := bucket/sub - 1
	low := uint64(bucket%sub+sub) << shift
	return time.Duration(low + (uint64(1)<<shift)/2)
}
