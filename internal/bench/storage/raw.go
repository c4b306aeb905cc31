package storage

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pebblestore"
)

// rawDB is the engine below a store, without the store: it shows what the store adds.
type rawDB interface {
	// Turn writes the same keys and values as the store does for tx, the turn of an
	// instance, in one batch, and returns when they are synced: the message of the
	// turn before deleted, the entries, the record and the next message. Instances are
	// counted from 0. It is called concurrently for different instances, and in order
	// for each.
	Turn(instance int, tx *store.Tx) error

	// Close gives back what the engine holds.
	Close() error
}

// rawEngines opens, in an empty folder, the engine below the stores of a scheme. It
// has a row for each scheme whose engine can be measured on its own.
var rawEngines = map[string]func(dir string) (rawDB, error){
	"pebble": func(dir string) (rawDB, error) { return pebblestore.OpenRaw(dir) },
}

// checkRaw returns an error unless the store has an engine that can be measured.
func checkRaw(storeURL string) error {
	if scheme := bench.Scheme(storeURL); rawEngines[scheme] == nil {
		return bench.Invalid("--raw is not possible with a %s: store, which has no engine to run on its own; it is with: %s",
			scheme, strings.Join(slices.Sorted(maps.Keys(rawEngines)), ", "))
	}
	return nil
}

// rawRun is an open engine and how far its instances are.
type rawRun struct {
	*workload
	db    rawDB
	dir   string
	keys  []store.Key // by instance
	turns []int       // by instance; each belongs to one committer
}

// openRaw opens the engine in a new folder beside the store, so that both use the
// same disk.
func (w *workload) openRaw(storeURL string) (*rawRun, error) {
	u, err := url.Parse(storeURL)
	if err != nil {
		return nil, fmt.Errorf("bench: open the raw engine: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(filepath.Clean(u.Host+u.Path)), "abide-bench-raw-") // they all are scheme://path
	if err != nil {
		return nil, fmt.Errorf("bench: make a folder for the raw engine: %w", err)
	}
	db, err := rawEngines[u.Scheme](dir)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("bench: open the raw engine: %w", err)
	}
	raw := &rawRun{workload: w, db: db, dir: dir, turns: make([]int, w.state.Instances)}
	for i := range raw.turns {
		raw.keys = append(raw.keys, instanceKeys.key(w.keys, i))
	}
	return raw, nil
}

// close removes the engine and its folder.
func (raw *rawRun) close() {
	_ = raw.db.Close()
	_ = os.RemoveAll(raw.dir)
}

// commitTurns does what the store's does, without claims: the instances are divided
// among the committers.
func (raw *rawRun) commitTurns(ctx context.Context, r *bench.Run, d time.Duration, limit int64) (*bench.Sample, error) {
	builders, next := make([]*turn, raw.committers), make([]int, raw.committers)
	for i := range builders {
		builders[i], next[i] = newTurn(), i
	}
	return r.Loop(ctx, bench.Loop{
		Doing: "committing raw", Unit: "commits", Workers: raw.committers, N: limit, Duration: d, Warmup: true,
		Do: func(_ context.Context, op *bench.Op) error {
			instance := next[op.Worker]
			if next[op.Worker] += raw.committers; next[op.Worker] >= len(raw.turns) {
				next[op.Worker] = op.Worker
			}
			tx := builders[op.Worker].of(&store.Claim{
				Key:       raw.keys[instance],
				Route:     turnRoutes[instance%len(turnRoutes)],
				LogLength: raw.turns[instance] * entriesPerTurn,
			})
			op.Begin()
			if err := raw.db.Turn(instance, tx); err != nil {
				return fmt.Errorf("bench: commit a raw turn: %w", err)
			}
			raw.turns[instance]++
			return nil
		},
	})
}

// compareCommits measures the store and its engine in turns, so that whatever else
// the machine does meets both alike.
func (w *workload) compareCommits(ctx context.Context, r *bench.Run) error {
	raw, err := w.openRaw(r.URL)
	if err != nil {
		return err
	}
	defer raw.close()

	total, rawTotal, claims := &bench.Sample{}, &bench.Sample{}, &bench.Histogram{}
	var cpu, throughput []float64
	d := w.duration / time.Duration(w.rounds)
	for round := range w.rounds {
		limit := share(w.commits, round, w.rounds)
		s, c, err := w.commitTurns(ctx, r, d, limit)
		if err != nil {
			return err
		}
		rs, err := raw.commitTurns(ctx, r, d, limit)
		if err != nil {
			return err
		}
		total.Add(s)
		rawTotal.Add(rs)
		claims.Merge(c)
		cpu = append(cpu, float64(s.CPUEach())/float64(rs.CPUEach()))
		throughput = append(throughput, s.Rate()/rs.Rate())
		r.Progress.Say("round %d of %d: store %.0f commits/s, raw %.0f commits/s", round+1, w.rounds, s.Rate(), rs.Rate())
	}
	reportCommits(r, total, claims)
	w.reportRaw(r, total, rawTotal, cpu, throughput)
	return nil
}

func (w *workload) reportRaw(r *bench.Run, s, raw *bench.Sample, cpu, throughput []float64) {
	p := &r.Report
	p.Add("raw_commits", raw.Count)
	p.Add("raw_commits_per_s", raw.Rate())
	p.Quantiles("raw_latency", "ms", &raw.Latency)
	if n, _ := raw.BytesEach(); n >= 1 {
		p.Add("raw_bytes_per_commit", n)
	}
	p.Add("rounds", w.rounds)
	if raw.HasCPU {
		p.Add("raw_cpu_us_per_commit", raw.CPUEach())
		p.Add("cpu_ratio", float64(s.CPUEach())/float64(raw.CPUEach()))
		p.Add("cpu_ratio_median", bench.Median(cpu))
		p.Add("cpu_ratio_rounds", cpu)
	}
	p.Add("throughput_ratio", s.Rate()/raw.Rate())
	p.Add("throughput_ratio_median", bench.Median(throughput))
	p.Add("throughput_ratio_rounds", throughput)
}

// share returns how many of n belong to a round, so that all rounds have n.
func share(n int64, round, rounds int) int64 {
	i, k := int64(round), int64(rounds)
	return n*(i+1)/k - n*i/k
}
