package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/timer"
)

const (
	// serveTenants is how many tenants the instances and timers belong to that are loaded.
	serveTenants = 10

	// year is how long instances sleep at least that are loaded.
	year = 365 * 24 * time.Hour
)

// tenantOf returns whose an instance or a timer is that is loaded.
func tenantOf(i int) string { return tenant + "-" + strconv.Itoa(i%serveTenants) }

// load brings the store to what the options ask for.
func (r *serveRun) load(ctx context.Context) error {
	instances, err := r.loadPart(ctx, "instances", r.opts.Instances, figAsleepRate, r.asleep, r.loadInstances)
	if err != nil {
		return err
	}
	if err := r.awaitQuiet(ctx); err != nil {
		return err
	}
	timers, err := r.loadPart(ctx, "timers", r.opts.Timers, figArmedRate, r.armed, r.loadTimers)
	if err != nil {
		return err
	}
	r.report.count(figAsleep, int64(instances))
	r.report.count(figArmed, int64(timers))
	return nil
}

// loadPart loads what is missing, and returns how much there is then.
func (r *serveRun) loadPart(ctx context.Context, what string, want int, rate figure, count func(context.Context) (int, error),
	load func(ctx context.Context, from, to int) error,
) (int, error) {
	there, err := count(ctx)
	if err != nil {
		return 0, err
	}
	if there >= want {
		if want > 0 {
			r.opts.Progress.Say("using the store as it is: %s %s", grouped(int64(there)), what)
		}
		return there, nil
	}
	began := time.Now()
	if err := inBatches(ctx, r.opts.Progress, what, there, want, load); err != nil {
		return 0, err
	}
	r.report.number(rate, float64(want-there)/time.Since(began).Seconds())
	return want, nil
}

func (r *serveRun) loadInstances(ctx context.Context, from, to int) error {
	until := time.Now().Add(year).Truncate(time.Millisecond)
	requests := make([]abide.StartRequest, 0, to-from)
	for i := from; i < to; i++ {
		after := scramble(uint64(i)) % uint64(dueSpread/time.Millisecond)
		req, err := asleep.Prepare(r.house.engine, until.Add(time.Duration(after)*time.Millisecond), abide.Tenant(tenantOf(i)), abide.ID(r.id(i)))
		if err != nil {
			return err
		}
		requests = append(requests, req)
	}
	_, err := r.house.engine.Start(ctx, requests...)
	return err
}

func (r *serveRun) loadTimers(ctx context.Context, from, to int) error {
	first := time.Now().Add(nightfall).Truncate(time.Millisecond)
	requests := make([]timer.Request, 0, to-from)
	for i := from; i < to; i++ {
		// Scrambled, because timers are not set in the order in which they are due.
		after := scramble(uint64(i)) % uint64(dueSpread/time.Millisecond)
		requests = append(requests, timer.Request{Tenant: tenantOf(i), Key: r.id(i), DueAt: first.Add(time.Duration(after) * time.Millisecond)})
	}
	_, err := r.house.timers.ScheduleAll(ctx, requests)
	return err
}

// asleep returns how many instances there are that sleep, or are about to.
func (r *serveRun) asleep(ctx context.Context) (int, error) {
	pending, _, err := r.messages(ctx)
	return pending, err
}

// messages returns how many messages there are for instances that sleep, one for each, and
// how many of them are visible.
func (r *serveRun) messages(ctx context.Context) (pending, ready int, err error) {
	stats, err := r.stats(ctx)
	for _, row := range stats.Routes {
		if row.Route == asleep.Name() {
			pending, ready = pending+row.Pending, ready+row.Ready
		}
	}
	return pending, ready, err
}

// armed returns how many timers are armed.
func (r *serveRun) armed(ctx context.Context) (n int, err error) {
	stats, err := r.stats(ctx)
	for _, row := range stats.Routes {
		if row.Queue == timersQueue {
			n += row.Pending
		}
	}
	return n, err
}

// awaitQuiet waits until all instances that are to sleep do.
func (r *serveRun) awaitQuiet(ctx context.Context) error {
	seen, since := -1, time.Now()
	return every(ctx, look, func() (bool, error) {
		_, ready, err := r.messages(ctx)
		switch {
		case err != nil || ready == 0:
			return true, err
		case ready != seen:
			seen, since = ready, time.Now()
		case time.Since(since) >= r.opts.Patience:
			return false, fmt.Errorf("bench: %d instances are to fall asleep, and nothing has happened for %v", ready, r.opts.Patience)
		}
		return false, nil
	})
}
