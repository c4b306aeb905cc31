package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
)

func TestBucketsAreBounded(t *testing.T) {
	t.Parallel()
	clock := base.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	b := New(clock)
	b.Take("kept", 1, 1)
	for i := range 3 * MaxBuckets {
		b.Take(fmt.Sprint(i), 1, 1)
		clock.Advance(time.Microsecond)
		if b.Take("kept", 1, 1) == 0 && i < 2*MaxBuckets {
			t.Fatalf("the one in use was dropped after %d others", i)
		}
	}
	if n := b.Len(); n > MaxBuckets {
		t.Errorf("%d buckets, want %d at most", n, MaxBuckets)
	}
	if b.Take("free", 0, 1) != 0 || b.all["free"] != nil {
		t.Error("without a rate, a key is counted")
	}
}

// TestFailuresOfAnAddress: the limit holds at its edge, asking does not count, and one more is
// allowed when the answer says so.
func TestFailuresOfAnAddress(t *testing.T) {
	t.Parallel()
	clock := base.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	f := NewFailures(clock)
	for i := range MaxFailures {
		if f.Wait("192.0.2.1") != 0 || f.Add("192.0.2.1:4000") != 0 {
			t.Fatalf("refused after %d failures", i)
		}
	}
	wait := f.Wait("192.0.2.1")
	if wait <= 0 || wait > time.Second/MaxFailures || f.Add("192.0.2.1") <= 0 {
		t.Errorf("after %d failures the wait is %v", MaxFailures, wait)
	}
	if f.Wait("192.0.2.2") != 0 {
		t.Error("another address has to wait too")
	}
	clock.Advance(wait)
	if f.Wait("192.0.2.1") != 0 || f.Add("192.0.2.1") != 0 {
		t.Error("refused after the wait")
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1", "[2001:db8::1:2:3:4]:80": "2001:db8::/64", "::ffff:192.0.2.1": "192.0.2.1",
		"2001:db8::7%eth0": "2001:db8::/64", "@": "other/@",
	} {
		if got := Source(remote); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}

func TestSamplerCountsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	clock := base.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	s := NewSampler(clock)
	var lines []int
	note := func() { s.Note(func(n int) { lines = append(lines, n) }) }
	for range 5 {
		note()
	}
	clock.Advance(time.Second)
	note()
	clock.Advance(3 * time.Second)
	note()
	check.Equal(t, "lines for events", lines, []int{1, 4, 1, 1})
}
