package soak

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/timer"
)

// slack is how much longer than its retention an instance may be kept under load.
const slack = time.Minute

// check returns an error unless all that was accepted has completed, and is kept or was
// deleted.
func (w *workload) check(ctx context.Context, r *bench.Run) error {
	l := &w.load
	if lost := l.accepted.Load() - l.completed.Load(); lost != 0 {
		return fmt.Errorf("bench: %d of %d operations are not completed", lost, l.accepted.Load())
	}
	if n := l.again.Load(); n > 0 {
		return fmt.Errorf("bench: %d timers or actions came twice, or although they were cancelled", n)
	}
	if err := w.checkInstances(ctx, r); err != nil {
		return err
	}
	// The outcome of the last action, and the receipt of the last timer, are durable a moment
	// after the target or the subscriber was called.
	left := 0
	return r.Await(ctx, func() string { return fmt.Sprintf("%d timers and actions are not ended", left) }, func() (bool, int64, error) {
		armed, err := w.timers.List(ctx, timer.Filter{Tenant: w.tenant, Statuses: []timer.Status{timer.Armed}})
		if err != nil {
			return false, 0, err
		}
		waiting, err := w.actions.List(ctx, action.Filter{Tenant: w.tenant, Statuses: []action.Status{action.Pending, action.Running, action.Failed}})
		left = len(armed.Timers) + len(waiting.Actions)
		return left == 0, int64(left), err
	})
}

// checkInstances counts the instances that are kept. Each that was started is kept, was
// deleted, or has expired; those that expire meanwhile may be either.
func (w *workload) checkInstances(ctx context.Context, r *bench.Run) error {
	stats, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	kept, oldest := int64(0), stats.Now
	for info, err := range w.engine.All(ctx, abide.Filter{Tenant: &w.tenant, Limit: listPage}) {
		if err != nil {
			return fmt.Errorf("bench: list instances: %w", err)
		}
		if info.Status != abide.Completed {
			return fmt.Errorf("bench: instance %v is %v, and its result was returned", info.Ref, info.Status)
		}
		if info.EndedAt.Before(oldest) {
			oldest = info.EndedAt
		}
		kept++
	}
	started, deleted, expired := w.load.started.Load(), w.load.deleted.Load(), w.engine.Counts().Expired
	r.Report.Add("accepted", w.load.accepted.Load())
	r.Report.Add("refused", w.load.refused.Load())
	r.Report.Add("instances", started)
	r.Report.Add("instances_deleted", deleted)
	r.Report.Add("instances_expired", expired)
	r.Report.Add("instances_kept", kept)
	if missing := started - deleted - expired - kept; missing > 0 {
		return fmt.Errorf("bench: %d of %d instances are lost: %d were deleted, %d have expired, %d are kept", missing, started, deleted, expired, kept)
	}
	if age := stats.Now.Sub(oldest); age > w.retention+slack {
		return fmt.Errorf("bench: an instance is kept %v after its end, and retention is %v", age.Round(time.Second), w.retention)
	}
	return nil
}

// listPage is how many instances are listed at a time.
const listPage = 1000
