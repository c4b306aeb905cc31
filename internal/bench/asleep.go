package bench

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// nightfall is when the first of the instances wakes that sleep for longer than a run
// takes, counted from their start.
const nightfall = 24 * time.Hour

// measureAsleep starts instances that sleep for longer than the run takes, and measures
// what they cost meanwhile, and how long it takes to open a store that is full of them.
func (r *engineRun) measureAsleep(ctx context.Context) error {
	r.report.count(figN, r.opts.N)
	if r.opts.Reopen == ReopenCrash {
		if err := loadAndCrash(ctx, r.opts.LoadCommand, r.opts.Progress); err != nil {
			return err
		}
		if err := r.reopen(ctx); err != nil {
			return err
		}
		return r.idle(ctx)
	}
	before, err := r.stats(ctx)
	if err != nil {
		return err
	}
	s := &sample{count: r.opts.N}
	watch := startWatch()
	if err := r.fallAsleep(ctx); err != nil {
		return err
	}
	watch.stop(s)
	r.rss, _ = memory()
	r.report.number(figLoadRate, s.perSecond())
	if err := r.reportEach(ctx, s, before.Bytes); err != nil {
		return err
	}
	if err := r.idle(ctx); err != nil || r.opts.Reopen == ReopenNever {
		return err
	}
	if err := r.close(); err != nil {
		return err
	}
	debug.FreeOSMemory() // so that the engine before is not counted again
	return r.reopen(ctx)
}

// LoadEngine opens the store and starts instances that sleep, as [RunEngine] would, calls
// loaded, and keeps the engine open until ctx ends. It is for a process that is going to
// be killed.
func LoadEngine(ctx context.Context, o EngineOptions, loaded func()) error {
	o.Reopen = ReopenNever // that is for the process which measures
	r, err := newEngineRun(&o)
	if err != nil {
		return err
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	defer func() { _ = r.close() }()
	if err := r.fallAsleep(ctx); err != nil {
		return err
	}
	loaded()
	<-ctx.Done()
	return nil
}

// fallAsleep starts instances that sleep for longer than a run takes.
func (r *engineRun) fallAsleep(ctx context.Context) error {
	stats, err := r.stats(ctx)
	if err != nil {
		return err
	}
	first := stats.Now.Add(nightfall).Truncate(time.Millisecond)
	return r.startNaps(ctx, int(r.opts.N), func(i int) time.Time {
		after := scramble(uint64(i)) % uint64(dueSpread/time.Millisecond)
		return first.Add(time.Duration(after) * time.Millisecond)
	})
}

// reopen opens the store in which instances sleep, and runs a hello beside them.
func (r *engineRun) reopen(ctx context.Context) error {
	began := time.Now()
	if err := r.open(ctx); err != nil {
		return err
	}
	err := r.guarded(ctx, func(ctx context.Context) error { return r.flow.once(ctx, &sample{}) })
	if err != nil {
		return err
	}
	took := time.Since(began)
	pending, ready, err := r.messages(ctx)
	if err != nil {
		return err
	}
	if asleep := int64(pending - ready); asleep < r.opts.N {
		return fmt.Errorf("bench: the store was opened again, and has lost what was acknowledged: %d of %d instances sleep", asleep, r.opts.N)
	}
	r.report.text(figReopen, string(r.opts.Reopen))
	r.report.number(figOpenResult, took.Seconds())
	if now, _ := memory(); now > 0 {
		r.report.number(figRSSReopened, now)
	}
	return nil
}

// idle does nothing for a while, and reports the CPU that this takes.
func (r *engineRun) idle(ctx context.Context) error {
	if r.opts.Idle == 0 {
		return nil
	}
	if err := settle(ctx, r.opts.Idle, r.opts.Progress); err != nil {
		return err
	}
	r.opts.Progress.Say("idling for %v", r.opts.Idle)
	s := &sample{}
	watch := startWatch()
	if err := pass(ctx, r.opts.Idle); err != nil {
		return err
	}
	watch.stop(s)
	r.report.idle(s)
	return nil
}
