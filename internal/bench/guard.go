package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide"
)

// guarded runs f, and ends it with an error when nothing happens any more: what was lost
// is a failure and not a wait without end.
func (r *engineRun) guarded(ctx context.Context, f func(ctx context.Context) error) error {
	c := newCrew(ctx)
	over := make(chan struct{})
	c.do(func(ctx context.Context) error {
		defer close(over)
		return f(ctx)
	})
	c.do(func(ctx context.Context) error { return r.guard(ctx, over) })
	return c.wait()
}

// beat says that something has happened.
func (r *engineRun) beat() {
	//abide:allow lock orchestrations say that they are alive, and none asks whether others are
	r.pulse.Add(1)
}

// guard watches the pulse until it is over.
func (r *engineRun) guard(ctx context.Context, over <-chan struct{}) error {
	ticker := time.NewTicker(max(r.opts.Patience/10, time.Millisecond))
	defer ticker.Stop()
	last, lastAt := r.pulse.Load(), time.Now()
	for {
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-ticker.C:
			if n := r.pulse.Load(); n != last {
				last, lastAt = n, now
			} else if now.Sub(lastAt) >= r.opts.Patience {
				return r.stuck(ctx)
			}
		}
	}
}

// stuck returns the error of a run in which nothing happens any more, with a reason if
// there is one.
func (r *engineRun) stuck(ctx context.Context) error {
	ours := tenant
	page, err := r.engine.List(ctx, abide.Filter{Tenant: &ours, Statuses: []abide.Status{abide.Stalled}, Descending: true, Limit: 1})
	if err == nil && len(page.Instances) > 0 {
		i := page.Instances[0]
		return fmt.Errorf("bench: instance %v of %s has stalled: %s", i.Ref, i.Orchestration, i.Reason)
	}
	return fmt.Errorf("bench: instances wait, and nothing has happened for %v", r.opts.Patience)
}

// every calls f again and again until it reports true. The pause is a short one, and
// longer if f takes long, so that looking does not slow down what is looked at.
func every(ctx context.Context, pause time.Duration, f func() (bool, error)) error {
	for {
		began := time.Now()
		done, err := f()
		if done || err != nil {
			return err
		}
		if err := pass(ctx, max(pause, lookShare*time.Since(began))); err != nil {
			return err
		}
	}
}

// pass waits until the time has passed.
func pass(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
