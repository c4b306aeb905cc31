package backoff

import (
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// TestJitterKeepsItsBounds: never longer than the delay, never shorter by more than a fifth,
// and never zero.
func TestJitterKeepsItsBounds(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{1, 4, 5, 6, time.Microsecond, time.Millisecond, time.Second, 24 * time.Hour, 1<<63 - 1} {
		for i := range 2_000 {
			got := Jitter(d, fmt.Sprint("task-", i), i%7)
			if got > d || got < d-d/5 || got <= 0 {
				t.Fatalf("Jitter(%v) is %v", d, got)
			}
		}
	}
	for _, d := range []time.Duration{0, -time.Second} {
		if got := Jitter(d, "task", 1); got != d {
			t.Errorf("Jitter(%v) is %v", d, got)
		}
	}
}

// TestJitterIsTheSameForTheSame: in every process, for ever.
func TestJitterIsTheSameForTheSame(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]time.Duration{"": 3145486545256, "a": 3569856134238, "acme/order-7": 3090080012189} {
		if got := Jitter(time.Hour, what, 3); got != want {
			t.Errorf("Jitter of %q is %d, want %d", what, got, want)
		}
	}
}

// TestJitterSpreads: what differs in its name or in its attempt is spread over the fifth.
func TestJitterSpreads(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(i int) time.Duration{
		"names":    func(i int) time.Duration { return Jitter(time.Second, fmt.Sprint("acme/task-", i), 1) },
		"attempts": func(i int) time.Duration { return Jitter(time.Second, "acme/task", i) },
	} {
		var tenths [10]int
		for i := range 1_000 {
			tenths[min((time.Second-draw(i))/(20*time.Millisecond), 9)]++
		}
		for i, n := range tenths {
			if n < 60 || n > 140 {
				t.Errorf("%s: %d of 1000 are in tenth %d, want about 100: %v", name, n, i, tenths)
				break
			}
		}
	}
}

// TestPausesOfProcessesDiffer: a thousand processes that lose a server within a millisecond
// do not come back within one.
func TestPausesOfProcessesDiffer(t *testing.T) {
	t.Parallel()
	m := base.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	var first, last time.Duration
	for i := range 1_000 {
		p := Pause{Clock: m, Min: time.Second, Max: time.Second}
		d := p.Next()
		if i == 0 {
			first, last = d, d
		}
		first, last = min(first, d), max(last, d)
		m.Advance(time.Microsecond)
	}
	if spread := last - first; spread < 190*time.Millisecond {
		t.Errorf("they are spread over %v, want about 200ms", spread)
	}
}
