package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide/timer"
)

const (
	// others is how many timers of another tenant are due while a herd is drained: spread
	// over the time that this takes at the rate herdPace.
	others   = 5
	herdPace = 40_000 // a second

	// To find out how fast timers are scheduled, at least probeBulks commits are made, and
	// one timer in probeShare is scheduled. It may take timersLead times as long as that
	// says: a store that has much to tidy up becomes slower.
	probeBulks = 20
	probeShare = 10
	timersLead = 3
)

// measureTimers has timers be due at random times.
func (r *timersRun) measureTimers(ctx context.Context) error {
	n := r.opts.N
	lead, first, err := r.lead(ctx, n)
	if err != nil {
		return err
	}
	due := func(i int) time.Time {
		after := scramble(uint64(i)) % uint64(max(r.opts.Over/time.Millisecond, 1))
		return first.Add(time.Duration(after) * time.Millisecond)
	}
	b := r.ledger.expect(markTimers, n, due)
	r.report.count(figTimers, int64(n))
	r.report.number(figOver, r.opts.Over.Seconds())
	r.report.number(figTimersLead, lead.Seconds())
	return r.fire(ctx, first, r.opts.Over, b, func(ctx context.Context) error {
		return r.scheduleBulk(ctx, 0, n, func(i int) timer.Request { return r.request(markTimers, i, due(i)) })
	})
}

// measureHerd has all timers of a tenant be due at the same instant, and a few of another
// tenant while they are drained.
func (r *timersRun) measureHerd(ctx context.Context) error {
	n := r.opts.Herd
	lead, first, err := r.lead(ctx, n)
	if err != nil {
		return err
	}
	herd := r.ledger.expect(markHerd, n, func(int) time.Time { return first })
	step := max(time.Duration(n)*time.Second/herdPace/(others+1), time.Millisecond).Truncate(time.Millisecond)
	due := func(i int) time.Time { return first.Add(time.Duration(i+1) * step) }
	other := r.ledger.expect(markOther, others, due)
	r.report.count(figHerd, int64(n))
	r.report.number(figTimersLead, lead.Seconds())
	err = r.fire(ctx, first, 0, herd, func(ctx context.Context) error {
		err := r.scheduleBulk(ctx, 0, others, func(i int) timer.Request { return r.request(markOther, i, due(i)) })
		if err != nil {
			return err
		}
		return r.scheduleBulk(ctx, 0, n, func(i int) timer.Request { return r.request(markHerd, i, first) })
	})
	if err != nil {
		return err
	}
	if err := r.awaitPublished(ctx, time.Until(due(others)), other); err != nil {
		return err
	}
	r.reportOthers(other, herd.last())
	return nil
}

func (r *timersRun) reportOthers(other *book, drained time.Time) {
	meanwhile := 0
	for i := range others {
		if other.due(i).Before(drained) {
			meanwhile++
		}
	}
	p, late := &r.report, other.lateness()
	p.count(figOthers, others)
	p.count(figOthersMeanwhile, int64(meanwhile))
	p.number(figOtherLateP50, millis(late.Quantile(0.50)))
	p.number(figOtherLateMax, millis(late.Max()))
}

// lead returns how long before the first of them is due n timers should be scheduled, and
// when that is.
func (r *timersRun) lead(ctx context.Context, n int) (lead time.Duration, first time.Time, err error) {
	if lead = r.opts.Lead; lead == 0 {
		r.opts.Progress.Say("finding out how fast timers are scheduled")
		count := min(max(probeBulks*r.opts.Bulk, n/probeShare), n)
		from := r.takeFar(count)
		began := time.Now()
		if err := r.scheduleBulk(ctx, from, from+count, r.farRequest); err != nil {
			return 0, time.Time{}, err
		}
		each := time.Since(began) / time.Duration(count)
		lead = minLead + timersLead*each*time.Duration(n)
	}
	stats, err := r.stats(ctx)
	return lead, stats.Now.Add(lead).Truncate(time.Millisecond), err
}

// fire schedules the timers of a book, waits until all were published, and reports how
// that went. The first is due then, and the last of them so much later.
func (r *timersRun) fire(ctx context.Context, first time.Time, over time.Duration, b *book, schedule func(context.Context) error) error {
	n := int64(len(b.late))
	scheduling, firing := &sample{count: n}, &sample{count: n}
	watch := startWatch()
	if err := schedule(ctx); err != nil {
		return err
	}
	watch.stop(scheduling)
	stats, err := r.stats(ctx)
	if err != nil {
		return err
	}
	if !stats.Now.Before(first) {
		return fmt.Errorf("bench: the first timers were due before all of them were scheduled: give a longer --lead")
	}
	watch = startWatch()
	if err := r.awaitPublished(ctx, first.Add(over).Sub(stats.Now), b); err != nil {
		return err
	}
	watch.stop(firing)
	r.reportFired(first, b, scheduling, firing)
	return nil
}

// awaitPublished waits until the last timer of a book is due, and until all of them were
// published and nothing is left to be done.
func (r *timersRun) awaitPublished(ctx context.Context, last time.Duration, b *book) error {
	n := int64(len(b.late))
	defer r.opts.Progress.Watch("publishing", "timers", n, b.count.Load)()
	if err := pass(ctx, max(last, 0)); err != nil {
		return err
	}
	seen, since := int64(-1), time.Now()
	err := every(ctx, look, func() (bool, error) {
		ready, pending, err := r.left(ctx)
		count := b.count.Load()
		if err != nil || (count == n && ready == 0) {
			return true, err
		}
		if pulse := count - int64(pending); pulse != seen {
			seen, since = pulse, time.Now()
		} else if time.Since(since) >= r.opts.Patience {
			return false, fmt.Errorf("bench: %d of %d timers were published, and nothing has happened for %v", count, n, r.opts.Patience)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	return b.check()
}

func (r *timersRun) reportFired(first time.Time, b *book, scheduling, firing *sample) {
	p := &r.report
	drain, late := b.last().Sub(first), b.lateness()
	p.number(figScheduled, scheduling.perSecond())
	p.number(figFired, float64(len(b.late))/drain.Seconds())
	p.number(figDrain, drain.Seconds())
	p.number(figLateP50, millis(late.Quantile(0.50)))
	p.number(figLateP99, millis(late.Quantile(0.99)))
	p.number(figLateMax, millis(late.Max()))
	total := &sample{}
	total.add(scheduling)
	total.add(firing)
	total.count = int64(len(b.late)) // each was scheduled and fired
	if total.hasCPU {
		p.number(figScheduledCPU, scheduling.cpuEach())
		p.number(figFiredCPU, firing.cpuEach())
		p.number(figTimerCPU, total.cpuEach())
	}
	if n, source := total.bytesEach(); n >= 1 {
		p.number(figTimerWritten, n)
		p.text(figBytesCounted, source)
	}
}
