package bench

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/abidehq/abide/bus/outbox"
)

// timersQueue is where the messages of armed timers wait.
const timersQueue = "timers"

// armed returns how many timers are armed.
func (r *timersRun) armed(ctx context.Context) (int, error) {
	stats, err := r.stats(ctx)
	n := 0
	for _, row := range stats.Routes {
		if row.Queue == timersQueue {
			n += row.Pending
		}
	}
	return n, err
}

// pending has the store hold timers that are not due in the run, opens it again if that
// is asked for, and reports what they cost.
func (r *timersRun) pending(ctx context.Context) error {
	if r.opts.Reopen == ReopenCrash {
		if err := loadAndCrash(ctx, r.opts.LoadCommand, r.opts.Progress); err != nil {
			return err
		}
		if err := r.reopen(ctx); err != nil {
			return err
		}
		r.rss, _ = memory()
		return r.reportPending(ctx)
	}
	if r.opts.Pending == 0 {
		return nil
	}
	if err := r.loadPending(ctx); err != nil {
		return err
	}
	r.rss, _ = memory()
	if r.opts.Reopen == ReopenNever {
		return r.reportPending(ctx)
	}
	if err := r.close(); err != nil {
		return err
	}
	debug.FreeOSMemory() // so that the store before is not counted again
	if err := r.reopen(ctx); err != nil {
		return err
	}
	return r.reportPending(ctx)
}

// loadPending schedules as many timers as are missing.
func (r *timersRun) loadPending(ctx context.Context) error {
	there, err := r.armed(ctx)
	if err != nil {
		return err
	}
	missing := r.opts.Pending - there
	if missing <= 0 {
		r.opts.Progress.Say("using the store as it is: %s pending timers", grouped(int64(there)))
		return nil
	}
	from := r.takeFar(missing)
	began := time.Now()
	if err := r.scheduleBulk(ctx, from, from+missing, r.farRequest); err != nil {
		return err
	}
	took := time.Since(began)
	rate := float64(missing) / took.Seconds()
	r.opts.Progress.Say("scheduled %s timers in %.1f s, %s/s", grouped(int64(missing)), took.Seconds(), grouped(int64(rate)))
	r.report.count(figLoaded, int64(missing))
	r.report.number(figLoadRate, rate)
	return nil
}

// LoadTimers opens the store and schedules what is to be pending, as [RunTimers] would,
// calls loaded, and keeps the store open until ctx ends. It is for a process that is
// going to be killed.
func LoadTimers(ctx context.Context, o TimersOptions, loaded func()) error {
	o.Reopen = ReopenNever // that is for the process which measures
	if err := o.Validate(); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := newTimersRun(&o, fail)
	if err := r.open(ctx); err != nil {
		return err
	}
	defer func() { _ = r.close() }()
	if err := r.loadPending(ctx); err != nil {
		return err
	}
	loaded()
	<-ctx.Done()
	return nil
}

// reopen opens the store in which timers are pending, and has a new one published beside
// them.
func (r *timersRun) reopen(ctx context.Context) error {
	began := time.Now()
	if err := r.open(ctx); err != nil {
		return err
	}
	b := r.ledger.expect(markFirst, 1, func(int) time.Time { return began })
	if _, err := r.service.Schedule(ctx, r.request(markFirst, 0, began)); err != nil {
		return fmt.Errorf("bench: schedule a first timer: %w", err)
	}
	if err := r.awaitPublished(ctx, 0, b); err != nil {
		return err
	}
	took := b.late[0]
	armed, err := r.armed(ctx)
	if err != nil {
		return err
	}
	if armed < r.opts.Pending {
		return fmt.Errorf("bench: the store was opened again, and has lost what was acknowledged: %d of %d timers are pending", armed, r.opts.Pending)
	}
	r.report.text(figReopen, string(r.opts.Reopen))
	r.report.number(figOpenPublished, took.Seconds())
	if now, _ := memory(); now > 0 {
		r.report.number(figRSSReopened, now)
	}
	return nil
}

// reportPending reports what the store holds.
func (r *timersRun) reportPending(ctx context.Context) error {
	armed, err := r.armed(ctx)
	if err != nil {
		return err
	}
	stats, err := r.stats(ctx)
	if err != nil {
		return err
	}
	r.report.count(figTimersPending, int64(armed))
	if stats.Bytes > 0 && armed > 0 {
		r.report.number(figTimerDisk, float64(stats.Bytes)/float64(armed))
	}
	return nil
}

// left returns how many timers are to be fired or published now, and how many messages
// there are in all for that.
func (r *timersRun) left(ctx context.Context) (ready, pending int, err error) {
	stats, err := r.stats(ctx)
	for _, row := range stats.Routes {
		if row.Queue == timersQueue || (row.Queue == outbox.Queue && row.Route == localSink) {
			ready, pending = ready+row.Ready, pending+row.Pending
		}
	}
	return ready, pending, err
}
