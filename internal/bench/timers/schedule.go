package timers

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/timer"
)

const (
	// Tenants of timers that are due at the same instant, and of those that must not wait
	// for them.
	herdTenant  = bench.Prefix + "herd"
	otherTenant = bench.Prefix + "other"

	// others is how many timers of another tenant are due while a herd is drained: spread
	// over the time that this takes at the rate herdPace.
	others   = 5
	herdPace = 40_000 // a second

	// To find out how fast timers are scheduled, at least probeBulks commits are made, and
	// one timer in probeShare is scheduled. It may take leadMargin times as long as that
	// says: a store that has much to compact becomes slower.
	probeBulks = 20
	probeShare = 10
	leadMargin = 3
)

// inFlight is how many timers are scheduled at a time, but in two commits at least.
const inFlight = 8_000

// letters is noise as text.
var letters = base64.RawURLEncoding.EncodeToString(bench.Noise)

// request returns what schedules a timer.
func (w *workload) request(mark byte, i int, due time.Time) timer.Request {
	req := timer.Request{Key: w.book.key(mark, i), DueAt: due, Tenant: bench.TenantOf(i, w.tenants)}
	switch mark {
	case markHerd:
		req.Tenant = herdTenant
	case markOther:
		req.Tenant = otherTenant
	}
	switch size := w.payload; size {
	case 0:
	case 1:
		req.Payload = []byte{'0'}
	default: // text in quotation marks
		at := int(bench.Scramble(uint64(i)) % uint64(len(letters)-size))
		req.Payload = append(append(append(make([]byte, 0, size), '"'), letters[at:at+size-2]...), '"')
	}
	return req
}

// farRequest returns what schedules a timer that is not due in the run.
func (w *workload) farRequest(i int) timer.Request {
	return w.request(markFar, i, bench.Far(w.began, i))
}

// takeFar returns the number of the first of n timers that are not due in the run.
func (w *workload) takeFar(n int) (from int) {
	from = w.far
	w.far += n
	return from
}

// schedule schedules the timers with numbers from up to but not including to, in bulk.
func (w *workload) schedule(ctx context.Context, r *bench.Run, doing string, from, to int, request func(i int) timer.Request) error {
	l := bench.Loading{Doing: doing, Unit: "timers", From: from, To: to, Batch: w.bulk, Workers: min(max(2, inFlight/w.bulk), 8)}
	return r.Batches(ctx, l, func(ctx context.Context, from, to int) error {
		requests := make([]timer.Request, 0, to-from)
		for i := from; i < to; i++ {
			requests = append(requests, request(i))
		}
		_, err := w.service.ScheduleAll(ctx, requests)
		return err
	})
}

// measureSingle has clients schedule one timer after another, none of which is due in the
// run.
func (w *workload) measureSingle(ctx context.Context, r *bench.Run) error {
	if w.duration == 0 {
		return nil
	}
	first := w.takeFar(0)
	s, err := r.Loop(ctx, bench.Loop{
		Doing: "scheduling singly", Unit: "timers", Workers: w.clients, Duration: w.duration, Warmup: true,
		Do: func(ctx context.Context, op *bench.Op) error {
			req := w.farRequest(first + int(op.I))
			op.Begin()
			if _, err := w.service.Schedule(ctx, req); err != nil {
				return fmt.Errorf("bench: schedule a timer: %w", err)
			}
			return nil
		},
	})
	if err != nil {
		return err
	}
	w.takeFar(int(s.Total))
	r.Report.Add("clients", w.clients)
	r.Report.Add("duration_s", s.Elapsed)
	r.Report.Add("scheduled_single_per_s", s.Rate())
	r.Report.Quantiles("latency", "ms", &s.Latency)
	r.CPU(s, "scheduled_single")
	return nil
}

// measureSpread has timers be due at random times.
func (w *workload) measureSpread(ctx context.Context, r *bench.Run) error {
	lead, first, err := w.leadTime(ctx, r, w.n)
	if err != nil {
		return err
	}
	ledger := w.book.expect(markTimers, w.n, func(i int) time.Time { return bench.Spread(first, w.over, i) })
	r.Report.Add("n", w.n)
	r.Report.Add("over_s", w.over)
	r.Report.Add("lead_s", lead)
	return w.fire(ctx, r, first, w.over, ledger, func() error {
		return w.schedule(ctx, r, "scheduling", 0, w.n, func(i int) timer.Request { return w.request(markTimers, i, ledger.Due(i)) })
	})
}

// measureHerd has all timers of a tenant be due at the same instant, and a few of another
// tenant while they are drained.
func (w *workload) measureHerd(ctx context.Context, r *bench.Run) error {
	lead, first, err := w.leadTime(ctx, r, w.herd)
	if err != nil {
		return err
	}
	herd := w.book.expect(markHerd, w.herd, func(int) time.Time { return first })
	step := max(time.Duration(w.herd)*time.Second/herdPace/(others+1), time.Millisecond).Truncate(time.Millisecond)
	other := w.book.expect(markOther, others, func(i int) time.Time { return first.Add(time.Duration(i+1) * step) })
	r.Report.Add("herd", w.herd)
	r.Report.Add("lead_s", lead)
	err = w.fire(ctx, r, first, 0, herd, func() error {
		err := w.schedule(ctx, r, "scheduling", 0, others, func(i int) timer.Request { return w.request(markOther, i, other.Due(i)) })
		if err != nil {
			return err
		}
		return w.schedule(ctx, r, "scheduling", 0, w.herd, func(i int) timer.Request { return w.request(markHerd, i, first) })
	})
	if err != nil {
		return err
	}
	if err := w.awaitPublished(ctx, r, time.Until(other.Due(others)), other); err != nil {
		return err
	}
	meanwhile, drained := 0, herd.Last()
	for i := range others {
		if other.Due(i).Before(drained) {
			meanwhile++
		}
	}
	late, _ := other.Lateness()
	r.Report.Add("others", others)
	r.Report.Add("others_meanwhile", meanwhile)
	r.Report.Quantiles("other_lateness", "ms", late)
	return nil
}

// leadTime returns how long before the first of them is due n timers should be scheduled,
// and when that is.
func (w *workload) leadTime(ctx context.Context, r *bench.Run, n int) (lead time.Duration, first time.Time, err error) {
	if lead = w.lead; lead == 0 {
		r.Progress.Say("finding out how fast timers are scheduled")
		count := min(max(probeBulks*w.bulk, n/probeShare), n)
		from := w.takeFar(count)
		began := time.Now()
		if err := w.schedule(ctx, r, "scheduling", from, from+count, w.farRequest); err != nil {
			return 0, time.Time{}, err
		}
		lead = bench.Lead(time.Since(began), count, n, leadMargin)
	}
	stats, err := r.Stats(ctx)
	return lead, stats.Now.Add(lead).Truncate(time.Millisecond), err
}

// fire schedules the timers of a ledger, waits until all were published, and reports how
// that went. The first is due then, and the last of them so much later.
func (w *workload) fire(ctx context.Context, r *bench.Run, first time.Time, over time.Duration, l *bench.Ledger, schedule func() error) error {
	n := int64(l.Len())
	scheduling, err := bench.Timed(n, schedule)
	if err != nil {
		return err
	}
	stats, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	if !stats.Now.Before(first) {
		return fmt.Errorf("bench: the first timers were due before all of them were scheduled: give a longer --lead")
	}
	firing, err := bench.Timed(n, func() error { return w.awaitPublished(ctx, r, first.Add(over).Sub(stats.Now), l) })
	if err != nil {
		return err
	}
	drain := l.Last().Sub(first)
	late, _ := l.Lateness()
	r.Report.Add("scheduled_per_s", scheduling.Rate())
	r.Report.Add("fired_per_s", float64(n)/drain.Seconds())
	r.Report.Add("drain_s", drain)
	r.Report.Quantiles("lateness", "ms", late)
	r.CPU(scheduling, "scheduled")
	r.CPU(firing, "fired")
	total := &bench.Sample{}
	total.Add(scheduling)
	total.Add(firing)
	total.Count = n // each was scheduled and fired
	return r.Cost(ctx, total, "timer", -1)
}

// awaitPublished waits until the last timer of a ledger is due, and until all of them were
// published and nothing is left to be done.
func (w *workload) awaitPublished(ctx context.Context, r *bench.Run, last time.Duration, l *bench.Ledger) error {
	n := int64(l.Len())
	defer r.Progress.Watch("publishing", "timers", n, l.Count)()
	if err := bench.Pass(ctx, max(last, 0)); err != nil {
		return err
	}
	err := r.Await(ctx, func() string { return fmt.Sprintf("%d of %d timers were published", l.Count(), n) }, func() (bool, int64, error) {
		pending, ready, err := r.Messages(ctx, func(q, route string) bool { return q == queue || (q == outbox.Queue && route == sink) })
		return l.Count() == n && ready == 0, l.Count() - int64(pending), err
	})
	if err != nil {
		return err
	}
	if again := l.Again(); again > 0 {
		return fmt.Errorf("bench: %d timers were published, and %d times one that was published before", n, again)
	}
	return l.Check("timers")
}
