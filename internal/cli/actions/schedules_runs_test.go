package actions

import (
	"testing"
	"time"

	"github.com/abidehq/abide/action"
)

// The runs of a schedule are counted from when it was added, and those that were made do
// not come again.
func TestPreviewOfASchedule(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 11, 15, 9, 7, 0, 0, time.UTC)
	for _, tt := range []struct {
		name        string
		count, runs int
		status      action.ScheduleStatus
		want        int
	}{
		{"without end", 0, 7, action.Active, 4},
		{"some are left", 5, 3, action.Active, 2},
		{"none is left", 5, 5, action.Active, 0},
		{"it has ended", 0, 5, action.Ended, 0},
	} {
		s := &action.Schedule{
			Plan:   action.Plan{Tenant: "t", ID: "s", Slug: "x", Target: "none", Every: time.Hour, Count: tt.count},
			Status: tt.status, Runs: tt.runs, CreatedAt: created,
		}
		runs, err := previewSchedule(s, created.Add(90*time.Minute), 4)
		if err != nil || len(runs) != tt.want {
			t.Errorf("%s: %v, %v; want %d", tt.name, runs, err, tt.want)
		}
		if len(runs) > 0 && !runs[0].Equal(created.Add(2*time.Hour)) {
			t.Errorf("%s: the first is at %v", tt.name, runs[0])
		}
	}
}
