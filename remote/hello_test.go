package remote_test

import (
	"testing"
	"time"

	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/remote"
)

// TestHelloKeepsWhatIsConfigured: durations whose sign means something keep it, also those that are shorter than
// the unit in which they travel, as -1 is.
func TestHelloKeepsWhatIsConfigured(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d          time.Duration
		ms, micros int64
	}{
		{0, 0, 0}, {-1, -1, -1}, {1, 1, 1}, {-time.Second, -1000, -1_000_000}, {time.Second, 1000, 1_000_000}, {1500 * time.Nanosecond, 1, 1},
	} {
		h := remote.HelloOf(&remote.Program{LeaseDuration: c.d, Retention: c.d, StepCommitInterval: c.d, DeadlockTimeout: c.d})
		check.Equal(t, "lease", h.GetLeaseMs(), c.ms)
		check.Equal(t, "retention", h.GetRetentionMs(), c.ms)
		check.Equal(t, "commits of steps", h.GetStepCommitUs(), c.micros)
		check.Equal(t, "deadlock", h.GetDeadlockMs(), c.ms)
	}
}
