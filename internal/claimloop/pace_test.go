package claimloop

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
)

func TestPaceWaitsAfterABatchThatIsNotSmall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		took int
		full bool
		idle time.Duration // before the next batch
		want time.Duration // that it waits
	}{
		{"nothing", 0, false, 0, 0},
		{"a small batch", smallBatch, false, 0, 0},
		{"more than that", smallBatch + 1, false, 0, 5 * time.Second},
		{"more, some time ago", smallBatch + 1, false, 3 * time.Second, 2 * time.Second},
		{"a full batch", smallBatch + 1, true, 0, 0},
		{"more, long ago", smallBatch + 1, false, time.Minute, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := pace{clock: base.System{}, every: 5 * time.Second}
				p.took(100, false)
				p.took(tt.took, tt.full) // only the last one counts
				_ = base.Sleep(t.Context(), base.System{}, tt.idle)
				began := time.Now()
				p.wait(t.Context())
				if waited := time.Since(began); waited != tt.want {
					t.Errorf("it waited for %v, want %v", waited, tt.want)
				}
			})
		})
	}
}

func TestPaceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pace{clock: base.System{}, every: time.Hour}
		p.took(100, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		p.wait(ctx)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("it waited for %v, want a second", waited)
		}
	})
}
