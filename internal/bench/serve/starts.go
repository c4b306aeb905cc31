package serve

import (
	"context"
	"fmt"
	"slices"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
)

// measureStarts has clients start instances over HTTP, each the next one when the one before
// was answered. They run meanwhile. In the end, each that was answered must have its result.
func (w *workload) measureStarts(ctx context.Context) error {
	if w.duration == 0 {
		return nil
	}
	started := make([][]string, w.clients)
	before := w.server.engine.Counts().Ended
	s, err := w.run.Loop(ctx, bench.Loop{
		Doing: "starting", Unit: "instances", Workers: w.clients, Duration: w.duration, Warmup: true,
		Do: func(ctx context.Context, op *bench.Op) error {
			id, err := w.start(ctx, "")
			started[op.Worker] = append(started[op.Worker], id)
			return err
		},
	})
	if err != nil {
		return err
	}
	completed := w.server.engine.Counts().Ended - before
	p := &w.run.Report
	p.Add("clients", w.clients)
	p.Add("duration_s", s.Elapsed)
	p.Add("starts", s.Count)
	p.Add("starts_per_s", s.Rate())
	p.Add("completed_per_s", float64(completed)/s.Elapsed.Seconds())
	p.Quantiles("latency", "ms", &s.Latency)
	if err := w.run.Cost(ctx, s, "start", -1); err != nil {
		return err
	}
	return w.checkStarted(ctx, slices.Concat(started...), before)
}

// checkStarted waits until all instances that were started have ended, and checks that each
// has its result.
func (w *workload) checkStarted(ctx context.Context, ids []string, before int64) error {
	total := int64(len(ids))
	counts := w.server.engine.Counts
	err := w.run.Await(ctx, func() string {
		return fmt.Sprintf("%d of %d instances have ended and %d have stalled", counts().Ended-before, total, counts().Stalled)
	}, func() (bool, int64, error) {
		ended := counts().Ended - before
		return ended >= total, ended, nil
	})
	if err != nil {
		return err
	}
	l := bench.Loading{Doing: "checking", Unit: "instances", To: len(ids), Batch: 1, Workers: w.clients}
	return w.run.Batches(ctx, l, func(ctx context.Context, i, _ int) error { return w.checkResult(ctx, ids[i]) })
}

// checkResult returns an error unless a hello has completed with what it must say.
func (w *workload) checkResult(ctx context.Context, id string) error {
	info, err := w.server.engine.Get(ctx, abide.Ref{Tenant: tenant, ID: id})
	if err != nil {
		return fmt.Errorf("bench: get an instance whose start was answered: %w", err)
	}
	result, err := abide.ResultOf[string](info)
	if err != nil {
		return fmt.Errorf("bench: get the result of instance %v: %w", info.Ref, err)
	}
	if result != helloResult {
		return fmt.Errorf("bench: the result of instance %v is %q, want %q", info.Ref, result, helloResult)
	}
	return nil
}
