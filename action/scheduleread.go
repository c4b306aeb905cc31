package action

import (
	"context"
	"time"

	"github.com/abidehq/abide/internal/cron"
	"github.com/abidehq/abide/store"
)

// GetSchedule returns a schedule, or [ErrNotFound].
func (s *Service) GetSchedule(ctx context.Context, tenant, id string) (Schedule, error) {
	return s.schedule(ctx, "get schedule", tenant, id)
}

func (s *Service) schedule(ctx context.Context, verb, tenant, id string) (Schedule, error) {
	if id == "" {
		return Schedule{}, invalid(verb, "no ID")
	}
	rec, err := s.store.Get(ctx, scheduleKey(tenant, id))
	if err != nil {
		return Schedule{}, wrap(verb, tenant+"/"+id, err)
	}
	return parseSchedule(rec)
}

// SchedulePage is one page of a list of schedules.
type SchedulePage struct {
	Schedules []Schedule

	// Next is the cursor of the next page; it is empty on the last page.
	Next string
}

// ListSchedules returns a page of the schedules of a tenant, or of all tenants if it is empty,
// ordered by their next run. Limit is the size of the page; 0 means [DefaultPage]. Cursor is the
// Next of the previous page.
func (s *Service) ListSchedules(ctx context.Context, tenant string, limit int, cursor string) (SchedulePage, error) {
	const verb = "list schedules"
	if limit == 0 {
		limit = DefaultPage
	}
	if limit < 0 || limit > MaxPage {
		return SchedulePage{}, invalid(verb, "a page of %d; 1 to %d is allowed", limit, MaxPage)
	}
	q := store.Query{Kind: kindSchedule, Limit: limit, Cursor: cursor}
	if tenant != "" {
		q.Tenant = &tenant
	}
	records, err := s.store.List(ctx, q)
	if err != nil {
		return SchedulePage{}, wrap(verb, tenant, err)
	}
	page := SchedulePage{Next: records.Next, Schedules: make([]Schedule, 0, len(records.Records))}
	for _, rec := range records.Records {
		sch, err := parseSchedule(rec)
		if err != nil {
			return SchedulePage{}, err
		}
		page.Schedules = append(page.Schedules, sch)
	}
	return page, nil
}

// Preview returns the times of the first n runs of a plan at or after from, in the zone of the
// plan. It returns fewer if the plan ends before. It needs no schedule.
func Preview(p Plan, from time.Time, n int) ([]time.Time, error) {
	const verb = "preview"
	if n < 1 || n > MaxRuns {
		return nil, invalid(verb, "%d runs; 1 to %d is allowed", n, MaxRuns)
	}
	p.setDefaults()
	times, err := p.check(verb, from)
	if err != nil {
		return nil, err
	}
	if p.From.After(from) {
		from = p.From
	}
	if p.Count > 0 {
		n = min(n, p.Count)
	}
	runs, _ := cron.Between(times, from, p.Until, n)
	return runs, nil
}
