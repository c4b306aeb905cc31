package bench_test

import (
	"context"
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
