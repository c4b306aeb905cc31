package bench

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// measureCommits runs the commit workload: the store alone, or in turns with its
// engine.
func (r *run) measureCommits(ctx context.Context) error {
	if r.opts.OpenRaw != nil {
		return r.compareCommits(ctx)
	}
	var done atomic.Int64
	stop := r.opts.Progress.Watch("committing", "commits", r.opts.Commits, done.Load)
	s, err := r.commitTurns(ctx, r.opts.Duration, r.opts.Commits, &done)
	stop()
	if err != nil {
		return err
	}
	r.reportCommits(s)
	return nil
}

func (r *run) reportCommits(s *sample) {
	p := &r.report
	p.count(figCommits, s.count)
	p.number(figDuration, s.elapsed.Seconds())
	p.number(figThroughput, s.perSecond())
	if s.hasCPU {
		p.number(figCPU, s.cpuEach())
	}
	p.number(figLatencyP50, millis(s.latency.Quantile(0.50)))
	p.number(figLatencyP99, millis(s.latency.Quantile(0.99)))
	p.number(figLatencyMax, millis(s.latency.Max()))
	if n, source := s.bytesEach(); n >= 1 {
		p.number(figBytes, n)
		p.text(figBytesCounted, source)
	}
	p.count(figClaims, int64(s.claims.Count()))
	r.reportClaims(s)
}

// compareCommits measures the store and its engine in turns, so that whatever else
// the machine does meets both alike.
func (r *run) compareCommits(ctx context.Context) error {
	raw, err := r.openRaw()
	if err != nil {
		return err
	}
	defer raw.close()

	var done, rawDone atomic.Int64
	total, rawTotal := &sample{}, &sample{}
	var cpu, throughput []float64
	d := r.opts.Duration / time.Duration(r.opts.Rounds)
	for round := range r.opts.Rounds {
		limit := share(r.opts.Commits, round, r.opts.Rounds)

		stop := r.opts.Progress.Watch("committing", "commits", r.opts.Commits, done.Load)
		s, err := r.commitTurns(ctx, d, limit, &done)
		stop()
		if err != nil {
			return err
		}
		stop = r.opts.Progress.Watch("committing raw", "commits", r.opts.Commits, rawDone.Load)
		rs, err := raw.commitTurns(ctx, d, limit, &rawDone)
		stop()
		if err != nil {
			return err
		}
		total.add(s)
		rawTotal.add(rs)
		cpu = append(cpu, s.cpuEach()/rs.cpuEach())
		throughput = append(throughput, s.perSecond()/rs.perSecond())
		r.opts.Progress.Say("round %d of %d: store %s commits/s, raw %s commits/s", round+1, r.opts.Rounds,
			grouped(int64(s.perSecond())), grouped(int64(rs.perSecond())))
	}
	r.reportCommits(total)
	r.reportRaw(total, rawTotal, cpu, throughput)
	return nil
}

func (r *run) reportRaw(s, raw *sample, cpu, throughput []float64) {
	p := &r.report
	p.count(figRawCommits, raw.count)
	p.number(figRawThroughput, raw.perSecond())
	if raw.hasCPU {
		p.number(figRawCPU, raw.cpuEach())
	}
	p.number(figRawP50, millis(raw.latency.Quantile(0.50)))
	p.number(figRawP99, millis(raw.latency.Quantile(0.99)))
	p.number(figRawMax, millis(raw.latency.Max()))
	if n, _ := raw.bytesEach(); n >= 1 {
		p.number(figRawBytes, n)
	}
	p.count(figRounds, int64(r.opts.Rounds))
	if raw.hasCPU {
		p.number(figCPURatio, s.cpuEach()/raw.cpuEach())
		p.number(figCPUMedian, median(cpu))
		p.numbers(figCPURounds, cpu)
	}
	p.number(figThroughputRatio, s.perSecond()/raw.perSecond())
	p.number(figThroughputMedian, median(throughput))
	p.numbers(figThroughputRounds, throughput)
}

// share returns how many of n belong to a round, so that all rounds have n.
func share(n int64, round, rounds int) int64 {
	r, k := int64(round), int64(rounds)
	return n*(r+1)/k - n*r/k
}

// median returns the middle of at least one number.
func median(numbers []float64) float64 {
	sorted := slices.Sorted(slices.Values(numbers))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
