package bench

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Loop is an operation that workers repeat.
type Loop struct {
	// Doing and Unit name it in the progress: "starting", "instances".
	Doing, Unit string

	Workers int

	// N ends the loop after so many operations, and Duration after a while, whichever comes
	// first. Zero is without end. At least one operation counts, however short the duration.
	N        int64
	Duration time.Duration

	// Rate, if not zero, makes the loop an open one: operations begin at this rate per
	// second, as far as there are workers, and their latency counts from when they should
	// have begun. None begins after the duration. Workers are then those that run at most.
	// Otherwise a worker begins the next operation when the one before returns.
	Rate int

	// Warmup has the loop run for the time of [Config.Warmup] before operations count.
	Warmup bool

	// Do is the operation. Its first error ends the loop.
	Do func(ctx context.Context, op *Op) error

	// Stuck returns the error of a loop in which nothing happens any more; see [Run.Guard].
	Stuck func(ctx context.Context) error
}

// Op is one run of an operation.
type Op struct {
	Worker int
	I      int64 // counts all operations of the loop, those of the warm-up included

	began   time.Time
	called  time.Time // when it began indeed
	started time.Duration
	refused bool
}

// Begin restarts the clock of the operation: what came before was its preparation.
func (o *Op) Begin() { o.began = time.Now() }

// Elapsed returns the time since the operation began, or should have begun in an open loop.
func (o *Op) Elapsed() time.Duration { return time.Since(o.began) }

// Started says that what the operation is about was accepted: the time until then is counted apart,
// from when the operation began indeed.
func (o *Op) Started() { o.started = max(time.Since(o.called), 1) }

// Refuse says that the operation was refused, because there was too much to do: it is counted apart,
// and its latency is not.
func (o *Op) Refuse() { o.refused = true }

// Loop runs a loop. Sample.Total counts the operations of the warm-up too.
func (r *Run) Loop(ctx context.Context, l Loop) (*Sample, error) {
	run := &loopRun{Loop: l, r: r, start: time.Now()}
	begin := func() { run.watch.CompareAndSwap(nil, startWatch()) }
	if l.Warmup && r.Warmup > 0 {
		defer time.AfterFunc(r.Warmup, begin).Stop()
	} else {
		begin()
	}
	defer r.Progress.Watch(l.Doing, l.Unit, l.N, run.done.Load)()
	err := r.Guard(ctx, l.Stuck, func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		if l.Rate > 0 {
			g.Go(func() error { return run.pace(ctx, g) })
			return g.Wait()
		}
		for worker := range l.Workers {
			g.Go(func() error { return run.work(ctx, worker) })
		}
		return g.Wait()
	})
	if err != nil {
		return nil, err
	}
	begin() // of a warm-up that nothing followed
	s := &run.sample
	run.watch.Load().stop(s)
	s.Count, s.Total, s.Refused = run.done.Load(), run.next.Load(), run.refused.Load()
	s.Loaded = min(time.Duration(run.last.Load()), s.Elapsed)
	return s, nil
}

// loopRun is a loop that runs.
type loopRun struct {
	Loop
	r      *Run
	start  time.Time
	sample Sample

	next, taken, done, refused atomic.Int64
	watch                      atomic.Pointer[stopwatch] // nil during the warm-up
	last                       atomic.Int64              // when an operation last began, since the watch was started
}

// more reports whether there is another operation, and whether it counts.
func (l *loopRun) more() (yes, counts bool) {
	w := l.watch.Load()
	if w == nil {
		return true, false
	}
	n := l.taken.Add(1)
	return (l.Duration == 0 || n == 1 || time.Since(w.start) < l.Duration) && (l.N == 0 || n <= l.N), true
}

// work runs one operation after another.
func (l *loopRun) work(ctx context.Context, worker int) error {
	for {
		yes, counts := l.more()
		if !yes {
			return nil
		}
		if err := l.do(ctx, &Op{Worker: worker, I: l.next.Add(1) - 1, began: time.Now()}, counts); err != nil {
			return err
		}
	}
}

// paced is an operation whose time has come.
type paced struct {
	op     *Op
	counts bool
}

// pace begins operations at the rate of the loop. A worker is added when all others are busy, so that there
// are as many as operations are under way, up to Workers.
func (l *loopRun) pace(ctx context.Context, g *errgroup.Group) error {
	ops := make(chan paced)
	defer close(ops)
	for workers := 0; ; {
		yes, counts := l.more()
		if !yes {
			return nil
		}
		op := &Op{I: l.next.Add(1) - 1}
		op.began = l.start.Add(time.Duration(op.I) * time.Second / time.Duration(l.Rate))
		if w := l.watch.Load(); w != nil && l.Duration > 0 && op.began.Sub(w.start) >= l.Duration {
			l.next.Add(-1)
			return nil
		}
		if left := time.Until(op.began); left > 0 {
			if err := Pass(ctx, left); err != nil {
				return err
			}
		}
		select {
		case ops <- paced{op, counts}:
			continue
		default:
		}
		if workers < l.Workers {
			worker := workers
			workers++
			g.Go(func() error { return l.follow(ctx, worker, ops) })
		}
		select {
		case ops <- paced{op, counts}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// follow runs the operations that are due.
func (l *loopRun) follow(ctx context.Context, worker int, ops <-chan paced) error {
	for p := range ops {
		p.op.Worker = worker
		if err := l.do(ctx, p.op, p.counts); err != nil {
			return err
		}
	}
	return nil
}

// do runs one operation.
func (l *loopRun) do(ctx context.Context, op *Op, counts bool) error {
	op.called = time.Now()
	if w := l.watch.Load(); w != nil {
		l.last.Store(int64(op.called.Sub(w.start)))
	}
	late := op.called.Sub(op.began)
	if err := l.Do(ctx, op); err != nil {
		return err
	}
	l.r.Beat()
	switch {
	case !counts:
	case op.refused:
		l.refused.Add(1)
		l.sample.Late.Record(late)
	default:
		l.sample.Latency.Record(time.Since(op.began))
		l.sample.Late.Record(late)
		if op.started > 0 {
			l.sample.Start.Record(op.started)
		}
		l.done.Add(1)
	}
	return nil
}

// Loading is a load that [Run.Batches] makes: numbers From up to but not including To.
type Loading struct {
	Doing, Unit string // name it in the progress
	From, To    int
	Batch       int // numbers in a call; 1000 if zero
	Workers     int // concurrent calls; 8 if zero
}

// Batches calls load for numbers from up to but not including to, a batch at a time.
func (r *Run) Batches(ctx context.Context, l Loading, load func(ctx context.Context, from, to int) error) error {
	if l.Batch == 0 {
		l.Batch = 1000
	}
	if l.Workers == 0 {
		l.Workers = 8
	}
	var done atomic.Int64
	stop := r.Progress.Watch(l.Doing, l.Unit, int64(l.To-l.From), done.Load)
	began := time.Now()
	g, loading := errgroup.WithContext(ctx)
	g.SetLimit(l.Workers)
	for from := l.From; from < l.To && loading.Err() == nil; from += l.Batch {
		g.Go(func() error {
			to := min(from+l.Batch, l.To)
			if err := load(loading, from, to); err != nil {
				return fmt.Errorf("bench: %s %s: %w", l.Doing, l.Unit, err)
			}
			done.Add(int64(to - from))
			r.Beat()
			return nil
		})
	}
	err := g.Wait()
	stop()
	if err := cmp.Or(err, context.Cause(ctx)); err != nil {
		return err
	}
	if l.Batch > 1 { // not of what is measured
		took := time.Since(began).Seconds()
		r.Progress.Say("%s: %s %s in %.1f s, %s/s", l.Doing, grouped(done.Load()), l.Unit, took, grouped(int64(float64(done.Load())/took)))
	}
	return nil
}

// Beat says that something has happened.
func (r *Run) Beat() {
	//abide:allow lock orchestrations say that they are alive, and none asks whether others are
	r.pulse.Add(1)
}

// Guard runs f, and cancels its context when [Run.Beat] was not called for the time of
// [Config.Patience]. The error is that of stuck, if it is not nil.
func (r *Run) Guard(ctx context.Context, stuck func(context.Context) error, f func(ctx context.Context) error) error {
	guarded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	g := errgroup.Group{}
	g.Go(func() error {
		ticker := time.NewTicker(max(r.Patience/10, time.Millisecond))
		defer ticker.Stop()
		last, lastAt := r.pulse.Load(), time.Now()
		for {
			select {
			case <-over:
				return nil
			case now := <-ticker.C:
				if n := r.pulse.Load(); n != last {
					last, lastAt = n, now
				} else if now.Sub(lastAt) >= r.Patience {
					err := fmt.Errorf("bench: nothing has happened for %v", r.Patience)
					if stuck != nil {
						err = stuck(ctx)
					}
					cancel(err)
					return err
				}
			}
		}
	})
	g.Go(func() error {
		defer close(over)
		err := f(guarded)
		if cause := context.Cause(guarded); cause != nil {
			return cause
		}
		return err
	})
	return g.Wait()
}

const (
	// poll is how often [Run.Await] looks: at most one part in pollShare of the time goes
	// there, so that looking does not slow down what is looked at.
	poll      = 5 * time.Millisecond
	pollShare = 50
)

// Await calls look until it reports true. A pulse that changes means that something has
// happened; when it does not for too long, the error has the text of what.
func (r *Run) Await(ctx context.Context, what func() string, look func() (done bool, pulse int64, err error)) error {
	stuck := func(context.Context) error {
		return fmt.Errorf("bench: %s, and nothing has happened for %v", what(), r.Patience)
	}
	return r.Guard(ctx, stuck, func(ctx context.Context) error {
		for last := int64(-1); ; {
			began := time.Now()
			done, pulse, err := look()
			if done || err != nil {
				return err
			}
			if pulse != last {
				last = pulse
				r.Beat()
			}
			// A look that takes long on a busy machine must not make the pause look like the end.
			pause := min(pollShare*time.Since(began), r.Patience/4)
			if err := Pass(ctx, max(poll, pause)); err != nil {
				return err
			}
		}
	})
}

// Pass waits until the time has passed.
func Pass(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
