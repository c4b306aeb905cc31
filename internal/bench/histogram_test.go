package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramQuantiles(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, spread := range []time.Duration{100, time.Microsecond, time.Millisecond, time.Second, time.Minute} {
		var h Histogram
		var exact []time.Duration
		for range 10_000 {
			d := time.Duration(rng.ExpFloat64() * float64(spread))
			h.Record(d)
			exact = append(exact, d)
		}
		slices.Sort(exact)
		for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
			want := exact[min(int(q*float64(len(exact))), len(exact)-1)]
			got := h.Quantile(q)
			if off := (got - want).Abs(); off > want/32+1 {
				t.Errorf("spread %v: quantile %v is %v, want %v", spread, q, got, want)
			}
		}
		if h.Max() != exact[len(exact)-1] {
			t.Errorf("spread %v: max is %v, want %v", spread, h.Max(), exact[len(exact)-1])
		}
	}
}

func TestHistogramBuckets(t *testing.T) {
	t.Parallel()
	last := -1
	for d := time.Duration(0); d < 1<<maxExponent; d += d/100 + 1 {
		bucket := bucketOf(d)
		if bucket < last || bucket >= buckets {
			t.Fatalf("%v is in bucket %d, after %d", int64(d), bucket, last)
		}
		if back := bucketOf(middleOf(bucket)); back != bucket {
			t.Fatalf("the middle of bucket %d is in bucket %d", bucket, back)
		}
		last = bucket
	}
	if last != buckets-1 {
		t.Errorf("the last bucket in use is %d, want %d", last, buckets-1)
	}
}

func TestHistogramExtremes(t *testing.T) {
	t.Parallel()
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Max() != 0 || h.Count() != 0 {
		t.Errorf("an empty histogram has a median of %v, a max of %v and a count of %d", h.Quantile(0.5), h.Max(), h.Count())
	}
	h.Record(-time.Second)
	if h.Quantile(1) != 0 {
		t.Errorf("a negative duration counts as %v", h.Quantile(1))
	}
	h.Record(1000 * time.Hour)
	if h.Max() != 1000*time.Hour || h.Count() != 2 {
		t.Errorf("max is %v and count %d after a very long duration", h.Max(), h.Count())
	}
}

func TestHistogramMerge(t *testing.T) {
	t.Parallel()
	var all, odd, even Histogram
	for i := range 1000 {
		d := time.Duration(i) * time.Microsecond
		all.Record(d)
		if i%2 == 0 {
			even.Record(d)
		} else {
			odd.Record(d)
		}
	}
	even.Merge(&odd)
	if even != all {
		t.Error("two halves merged differ from the whole")
	}
}

func BenchmarkHistogramRecord(b *testing.B) {
	var h Histogram
	for i := range b.N {
		h.Record(time.Duration(i))
	}
}
