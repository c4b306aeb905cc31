package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide"
)

const (
	// How long before the first of them is due instances are started: minLead, and
	// leadFactor times as long as it takes by the rate at which probes came and went.
	minLead    = time.Second
	leadFactor = 2
	probes     = 1000

	// look is how often to look whether all instances sleep: at most one part in lookShare
	// of the time goes there.
	look      = 10 * time.Millisecond
	lookShare = 50
)

// nap is the input of an instance that sleeps.
type nap struct {
	Run string    `json:"run"` // instances of an earlier run count for nothing
	I   int       `json:"i"`
	Due time.Time `json:"due"`
}

// naps are the instances of a run that sleep, by number.
type naps struct {
	orchestration *abide.Orchestration[nap, abide.None]
	run           string

	woken []atomic.Bool // who sets it writes the two below
	late  []time.Duration
	turn  []time.Duration
	count atomic.Int64 // of those that have written
}

// newNaps returns the orchestration of instances that sleep until they are due.
func (r *engineRun) newNaps() abide.Definition {
	n := &naps{run: rand.Text()}
	r.naps = n
	n.orchestration = abide.NewOrchestration(prefix+"sleep", func(ctx abide.Context, in nap) (abide.None, error) {
		r.beat()
		if err := abide.SleepUntil(ctx, in.Due); err != nil {
			return abide.None{}, err
		}
		r.beat()
		//abide:allow clock nothing that the orchestration does depends on when it is measured
		n.wake(in, time.Now(), abide.Now(ctx))
		return abide.None{}, nil
	})
	return n.orchestration
}

// expect makes room for what so many instances note. Those that are started before are
// not measured.
func (n *naps) expect(count int) {
	n.woken = make([]atomic.Bool, count)
	n.late, n.turn = make([]time.Duration, count), make([]time.Duration, count)
}

// wake notes that an instance runs again, by the clock of this machine and by that of
// the store. A turn that could not be committed comes twice: the first one counts.
func (n *naps) wake(in nap, now, turn time.Time) {
	if in.Run != n.run || in.I >= len(n.woken) {
		return
	}
	//abide:allow lock many instances note this, and none reads it
	if n.woken[in.I].Swap(true) {
		return
	}
	n.late[in.I], n.turn[in.I] = now.Sub(in.Due), turn.Sub(in.Due)
	//abide:allow lock many instances note this, and none reads it
	n.count.Add(1)
}

// early returns how many woke before they were due, by the clock of the store.
func (n *naps) early() (count int) {
	for _, late := range n.turn {
		if late < 0 {
			count++
		}
	}
	return count
}

// startNaps starts n instances, and returns when all of them sleep, or have slept.
func (r *engineRun) startNaps(ctx context.Context, n int, due func(i int) time.Time) error {
	return r.guarded(ctx, func(ctx context.Context) error {
		err := inBatches(ctx, r.opts.Progress, "instances", 0, n, func(ctx context.Context, from, to int) error {
			requests := make([]abide.StartRequest, 0, to-from)
			for i := from; i < to; i++ {
				req, err := r.naps.orchestration.Prepare(r.engine, nap{Run: r.naps.run, I: i, Due: due(i)}, abide.Tenant(tenant))
				if err != nil {
					return err
				}
				requests = append(requests, req)
			}
			_, err := r.engine.Start(ctx, requests...)
			return err
		})
		if err != nil {
			return err
		}
		return r.awaitQuiet(ctx)
	})
}

// awaitQuiet waits until nothing is to be done for any instance that sleeps: the message
// that starts or wakes one is there until its turn is committed.
func (r *engineRun) awaitQuiet(ctx context.Context) error {
	return every(ctx, look, func() (bool, error) {
		_, ready, err := r.messages(ctx)
		return ready == 0, err
	})
}

// messages returns how many messages there are for instances that sleep, and how many
// of them are visible.
func (r *engineRun) messages(ctx context.Context) (pending, ready int, err error) {
	stats, err := r.stats(ctx)
	for _, row := range stats.Routes {
		if row.Route == r.naps.orchestration.Name() {
			pending, ready = pending+row.Pending, ready+row.Ready
		}
	}
	return pending, ready, err
}

// lead returns how long before the first of them is due n instances should be started.
func (r *engineRun) lead(ctx context.Context) (time.Duration, error) {
	if r.opts.Lead > 0 {
		return r.opts.Lead, nil
	}
	count := min(probes, int(r.opts.N))
	r.opts.Progress.Say("finding out how fast instances are started")
	began := time.Now()
	if err := r.startNaps(ctx, count, func(int) time.Time { return began }); err != nil {
		return 0, err
	}
	each := time.Since(began) / time.Duration(count)
	return minLead + leadFactor*each*time.Duration(r.opts.N), nil
}

// measureSleep starts instances, and measures how late they wake.
func (r *engineRun) measureSleep(ctx context.Context) error {
	lead, err := r.lead(ctx)
	if err != nil {
		return err
	}
	before, err := r.stats(ctx)
	if err != nil {
		return err
	}
	first := before.Now.Add(lead).Truncate(time.Millisecond)
	due := func(i int) time.Time {
		// Scrambled, because timers are not set in the order in which they are due.
		after := scramble(uint64(i)) % uint64(max(r.opts.Over/time.Millisecond, 1))
		return first.Add(time.Duration(after) * time.Millisecond)
	}
	n, s := int(r.opts.N), &sample{count: r.opts.N}
	r.naps.expect(n)
	watch := startWatch()
	if err := r.startNaps(ctx, n, due); err != nil {
		return err
	}
	loadTook := time.Since(watch.start)
	after, err := r.stats(ctx)
	if err != nil {
		return err
	}
	if !after.Now.Before(first) {
		return fmt.Errorf("bench: the first instances were due before all of them slept, although they were started up to %v earlier: give a longer --lead", lead)
	}
	r.rss, _ = memory()
	if err := r.awaitWoken(ctx, n, first.Add(r.opts.Over).Sub(after.Now)); err != nil {
		return err
	}
	watch.stop(s)
	if early := r.naps.early(); early > 0 {
		return fmt.Errorf("bench: %d of %d instances woke before they were due, by the clock of the store", early, n)
	}
	r.report.count(figN, int64(n))
	r.report.number(figOver, r.opts.Over.Seconds())
	r.report.number(figLead, lead.Seconds())
	r.report.number(figLoadRate, float64(n)/loadTook.Seconds())
	r.reportLateness()
	return r.reportEach(ctx, s, before.Bytes)
}

// awaitWoken waits until the last instance is due, and until n have woken.
func (r *engineRun) awaitWoken(ctx context.Context, n int, last time.Duration) error {
	defer r.opts.Progress.Watch("waking", "instances", int64(n), r.naps.count.Load)()
	if err := pass(ctx, max(last, 0)); err != nil {
		return err
	}
	return r.guarded(ctx, func(ctx context.Context) error {
		err := every(ctx, look, func() (bool, error) { return r.naps.count.Load() == int64(n), nil })
		if err != nil {
			return err
		}
		return r.awaitQuiet(ctx)
	})
}

func (r *engineRun) reportLateness() {
	var late, turn Histogram
	for i := range r.naps.late {
		late.Record(r.naps.late[i])
		turn.Record(r.naps.turn[i])
	}
	p := &r.report
	p.number(figLateP50, millis(late.Quantile(0.50)))
	p.number(figLateP99, millis(late.Quantile(0.99)))
	p.number(figLateMax, millis(late.Max()))
	p.number(figTurnLateP50, millis(turn.Quantile(0.50)))
	p.number(figTurnLateP99, millis(turn.Quantile(0.99)))
	p.number(figTurnLateMax, millis(turn.Max()))
}
