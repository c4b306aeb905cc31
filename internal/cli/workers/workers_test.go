package workers

import (
	"testing"
	"time"
)

// TestSeen: a worker that has missed two reports is marked, and one that is merely between two is not.
func TestSeen(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]string{
		3 * time.Second:  "3s ago",
		40 * time.Second: "40s ago",
		41 * time.Second: "not seen for 41s",
		-time.Second:     "in 1s", // by a clock that is behind the store's
	} {
		if got := seen(now.Add(-age), now); got != want {
			t.Errorf("after %v: %q, want %q", age, got, want)
		}
	}
}
