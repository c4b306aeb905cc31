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
	// have begun. None begins after the duration. Otherwise a worker begins the next operation
	// when the one before returns.
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

	began time.Time
}

// Begin restarts the clock of the operation: what came before was its preparation.
func (o *Op) Begin() { o.began = time.Now() }

// Elapsed returns the time since the operation began, or should have begun in an open loop.
func (o *Op) Elapsed() time.Duration { return time.Since(o.began) }

// Loop runs a loop. Sample.Total counts the operations of the warm-up too.
func (r *Run) Loop(ctx context.Context, l Loop) (*Sample, error) {
	s := &Sample{}
	var next, taken, done atomic.Int64
	var watch atomic.Pointer[stopwatch] // nil during the warm-up
	start := time.Now()
	begin := func() { watch.CompareAndSwap(nil, startWatch()) }
	if l.Warmup && r.Warmup > 0 {
		defer time.AfterFunc(r.Warmup, begin).Stop()
	} else {
		begin()
	}
	more := func() (yes, counts bool) {
		w := watch.Load()
		if w == nil {
			return true, false
		}
		n := taken.Add(1)
		return (l.Duration == 0 || n == 1 || time.Since(w.start) < l.Duration) && (l.N == 0 || n <= l.N), true
	}
	work := func(ctx context.Context, worker int) error {
		for {
			yes, counts := more()
			if !yes {
				return nil
			}
			op := &Op{Worker: worker, I: next.Add(1) - 1, began: time.Now()}
			if l.Rate > 0 {
				op.began = start.Add(time.Duration(op.I) * time.Second / time.Duration(l.Rate))
				if w := watch.Load(); w != nil && l.Duration > 0 && op.began.Sub(w.start) >= l.Duration {
					next.Add(-1) // and so are all with a higher number
					return nil
				}
				if err := Pass(ctx, time.Until(op.began)); err != nil {
					return err
				}
			}
			if err := l.Do(ctx, op); err != nil {
				return err
			}
			if counts {
				s.Latency.Record(time.Since(op.began))
				done.Add(1)
			}
			r.Beat()
		}
	}
	defer r.Progress.Watch(l.Doing, l.Unit, l.N, done.Load)()
	err := r.Guard(ctx, l.Stuck, func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		for worker := range l.Workers {
			g.Go(func() error { return work(ctx, worker) })
		}
		return g.Wait()
	})
	if err != nil {
		return nil, err
	}
	begin() // of a warm-up that nothing followed
	watch.Load().stop(s)
	s.Count, s.Total = done.Load(), next.Load()
	return s, nil
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
	if l.Workers == 8 { // not of what is measured
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
			if err := Pass(ctx, max(poll, pollShare*time.Since(began))); err != nil {
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
