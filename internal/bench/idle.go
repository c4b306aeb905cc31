package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide/store"
)

const (
	// A store that was just loaded may tidy up in the background. That is over when it
	// uses less than quietPercent of a core for a moment. It is not waited for longer
	// than maxSettle, nor than patientIdle times the time to idle.
	quietPercent = 2
	maxSettle    = time.Minute
	patientIdle  = 10
)

// idle waits with one claim that waits too, and reports the CPU that this takes.
func (r *run) idle(ctx context.Context) error {
	if r.opts.Idle == 0 {
		return nil
	}
	if err := settle(ctx, r.opts.Idle, r.opts.Progress); err != nil {
		return err
	}
	r.opts.Progress.Say("idling for %v", r.opts.Idle)
	var s sample
	watch := startWatch()
	for {
		rest := r.opts.Idle - time.Since(watch.start)
		if rest <= 0 {
			break
		}
		claims, err := r.store.Claim(ctx, store.ClaimRequest{
			Queue: queue, Routes: []string{idleRoute}, Max: 1, Lease: lease, Wait: rest,
		})
		if err == nil && len(claims) > 0 { // of a store that was loaded long ago
			err = r.store.Commit(ctx, finish(claims...))
		}
		if err != nil {
			return fmt.Errorf("bench: wait while idle: %w", err)
		}
	}
	watch.stop(&s)
	r.report.idle(&s)
	return nil
}

// idle reports what the process used while it had nothing to do.
func (r *Report) idle(s *sample) {
	r.number(figIdle, s.elapsed.Seconds())
	if s.hasCPU {
		r.number(figIdleCPU, millis(s.cpu))
		r.number(figIdlePercent, 100*s.cpu.Seconds()/s.elapsed.Seconds())
	}
}

// settle waits for background work to end, which is not what an idle process does.
func settle(ctx context.Context, idle time.Duration, p *Progress) error {
	moment := min(time.Second, idle)
	ticker := time.NewTicker(moment)
	defer ticker.Stop()
	longest := min(maxSettle, patientIdle*idle)
	for began := time.Now(); time.Since(began) < longest; {
		before, known := cpuUsed()
		if !known {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		after, _ := cpuUsed()
		if 100*(after-before) < quietPercent*moment {
			return nil
		}
	}
	p.Say("the store is still busy after %v: the figures of idling include that", longest)
	return nil
}
