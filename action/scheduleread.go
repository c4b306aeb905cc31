package action

import (
	"context"
	"iter"
	"time"

	"github.com/abidehq/abide/internal/cron"
	"github.com/abidehq/abide/internal/pages"
)

// GetSchedule returns a schedule, or [ErrNotFound].
func (s *Service) GetSchedule(ctx context.Context, tenant, id string) (Schedule, error) {
	sch, err := s.schedule(ctx, "get schedule", tenant, id)
	if err == nil && sch.Status != Ended {
		sch.Warning = s.warning(ctx, tenant, sch.Target)
	}
	return sch, err
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

// ScheduleFilter selects schedules that match all fields that are set.
type ScheduleFilter struct {
	Tenant string

	// Limit is the size of a page, at most [MaxPage]; 0 means [DefaultPage].
	Limit int

	// Cursor is the Next of the previous page; it is empty for the first page.
	Cursor string
}

// SchedulePage is one page of a list of schedules.
type SchedulePage struct {
	Schedules []Schedule

	// Next is the cursor of the next page; it is empty on the last page.
	Next string
}

// ListSchedules returns a page of the schedules that match f, ordered by their next run. It returns
// [ErrInvalid] if f has a limit that is out of range or a cursor that is not from such a list.
func (s *Service) ListSchedules(ctx context.Context, f ScheduleFilter) (SchedulePage, error) {
	const verb = "list schedules"
	q, err := pageQuery(verb, kindSchedule, f.Tenant, f.Limit, f.Cursor)
	if err != nil {
		return SchedulePage{}, err
	}
	schedules, next, err := readPage(ctx, s.store, q, verb, f.Tenant, parseSchedule)
	return SchedulePage{Schedules: schedules, Next: next}, err
}

// AllSchedules returns the schedules that match f, in the order of [Service.ListSchedules], and
// reads them page by page while the caller iterates. [ScheduleFilter.Limit] is the size of a page
// and does not bound the sequence; [ScheduleFilter.Cursor], if not empty, is where it begins.
//
// The sequence is no snapshot. A schedule that matches f and whose next run does not change is
// yielded exactly once. One that is added, runs, or is updated, paused or resumed meanwhile may be
// yielded once, twice with different states, or not at all.
//
// The sequence ends after the first error, which it yields with a zero Schedule: an error of
// [Service.ListSchedules], or that of ctx.
func (s *Service) AllSchedules(ctx context.Context, f ScheduleFilter) iter.Seq2[Schedule, error] {
	return pages.All(f.Cursor, func(cursor string) ([]Schedule, string, error) {
		f := f
		f.Cursor = cursor
		page, err := s.ListSchedules(ctx, f)
		return page.Schedules, page.Next, err
	})
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
