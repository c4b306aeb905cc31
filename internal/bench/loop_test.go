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
