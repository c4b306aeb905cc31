package bench_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
)

// brief is a loop that is over before its workers have begun.
type brief struct {
	nothing
	sample *bench.Sample
}

// open is an open loop with many more workers than operations.
type open struct {
	nothing
	sample *bench.Sample
}

func (o *open) Measure(ctx context.Context, r *bench.Run) (err error) {
	o.sample, err = r.Loop(ctx, bench.Loop{
		Doing: "doing", Unit: "nothings", Workers: 5000, Duration: 100 * time.Millisecond, Rate: 100,
		Do: func(context.Context, *bench.Op) error { return nil },
	})
	return err
}

// TestAnOpenLoopEnds: workers do not wait for operations that would begin after its end. The
// eleventh may begin in the last moment.
func TestAnOpenLoopEnds(t *testing.T) {
	t.Parallel()
	w := &open{}
	benchtest.Run(t, spec(w), bench.Config{URL: "memory://"}, "")
	if n := w.sample.Total; n < 10 || n > 11 || w.sample.Count != n {
		t.Errorf("%d of %d operations counted, want 10", w.sample.Count, n)
	}
}

func (b *brief) Measure(ctx context.Context, r *bench.Run) (err error) {
	b.sample, err = r.Loop(ctx, bench.Loop{
		Doing: "doing", Unit: "nothings", Workers: 4, Duration: 1,
		Do: func(context.Context, *bench.Op) error { return nil },
	})
	return err
}

func TestALoopCountsAtLeastOneOperation(t *testing.T) {
	t.Parallel()
	w := &brief{}
	benchtest.Run(t, spec(w), bench.Config{URL: "memory://"}, "")
	if w.sample.Count != 1 || w.sample.Elapsed > time.Minute || w.sample.Rate() <= 0 {
		t.Errorf("%d operations in %v, %v per second; want one", w.sample.Count, w.sample.Elapsed, w.sample.Rate())
	}
}

// flood is an open loop in which every third operation is refused, and no operation ends before all have
// begun.
type flood struct {
	nothing
	workers int
	begun   atomic.Int64
	all     chan struct{}
	sample  *bench.Sample
}

const floodOps = 30

func (o *flood) Measure(ctx context.Context, r *bench.Run) (err error) {
	o.sample, err = r.Loop(ctx, bench.Loop{
		Doing: "doing", Unit: "nothings", Workers: o.workers, N: floodOps, Rate: 10_000,
		Do: func(ctx context.Context, op *bench.Op) error {
			if o.begun.Add(1) == floodOps {
				close(o.all)
			}
			if op.I%3 == 0 {
				op.Refuse()
				return nil
			}
			op.Started()
			select {
			case <-o.all:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		},
	})
	return err
}

// TestAnOpenLoopDoesNotWait: operations begin whether or not others have ended, and those that are refused
// are counted apart.
func TestAnOpenLoopDoesNotWait(t *testing.T) {
	t.Parallel()
	o := &flood{workers: floodOps, all: make(chan struct{})}
	benchtest.Run(t, spec(o), bench.Config{URL: "memory://"}, "")
	s := o.sample
	if s.Count != 20 || s.Refused != 10 || s.Latency.Count() != 20 || s.Start.Count() != 20 || s.Late.Count() != floodOps {
		t.Errorf("%d done, %d refused; %d latencies, %d starts, %d begun", s.Count, s.Refused, s.Latency.Count(), s.Start.Count(), s.Late.Count())
	}
	if s.Loaded <= 0 || s.Loaded > s.Elapsed {
		t.Errorf("loaded for %v of %v", s.Loaded, s.Elapsed)
	}
}

// TestAnOpenLoopHasSoManyWorkers: no more operations run at a time than there are workers.
func TestAnOpenLoopHasSoManyWorkers(t *testing.T) {
	t.Parallel()
	o := &flood{workers: 2, all: make(chan struct{})}
	c := bench.Config{URL: "memory://", Patience: 50 * time.Millisecond}
	_ = benchtest.Fails(t, spec(o), c, "", "nothing has happened for 50ms")
	if n := o.begun.Load(); n != 3 { // the first is refused, two wait
		t.Errorf("%d operations have begun with 2 workers, want 3", n)
	}
}

// slowLook is a workload that looks for something that happens all the time, and takes long to
// look.
type slowLook struct {
	nothing
	looks int64
}

func (w *slowLook) Measure(ctx context.Context, r *bench.Run) error {
	return r.Await(ctx, func() string { return "it goes on" }, func() (bool, int64, error) {
		w.looks++
		return w.looks == 5, w.looks, bench.Pass(ctx, 5*time.Millisecond)
	})
}

func TestALookThatTakesLongIsNotTheEnd(t *testing.T) {
	t.Parallel()
	w := &slowLook{}
	benchtest.Run(t, spec(w), bench.Config{URL: "memory://", Patience: 200 * time.Millisecond}, "")
	if w.looks != 5 {
		t.Errorf("%d looks", w.looks)
	}
}
