package roster

import (
	"context"
	"encoding/json"

	"github.com/abidehq/abide/internal/pages"
	"github.com/abidehq/abide/store"
)

// schedulePage is how many schedules are read at a time: each may have a large payload.
const schedulePage = 100

// Scheduled returns the targets of active schedules, with the number of schedules of each. It
// skips schedules that cannot be decoded; the loop that runs them logs those.
func Scheduled(ctx context.Context, s store.Store) (map[string]int, error) {
	targets := map[string]int{}
	q := store.Query{Kind: KindSchedule, Statuses: []string{ActiveSchedule}, Limit: schedulePage}
	for r, err := range pages.Records(ctx, s, q) {
		if err != nil {
			return nil, err
		}
		var schedule struct {
			Target string `json:"target"`
		}
		if json.Unmarshal(r.Body, &schedule) == nil {
			targets[schedule.Target]++
		}
	}
	return targets, nil
}
