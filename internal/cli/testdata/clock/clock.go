// Package clock has an orchestration that reads the wall clock.
package clock

import (
	"time"

	"github.com/abidehq/abide"
)

// Late reads the wall clock, which is another time when it is replayed.
var Late = abide.NewOrchestration("late", func(abide.Context, abide.None) (time.Time, error) {
	return time.Now(), nil
})
