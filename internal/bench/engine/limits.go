package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
)

// limits is the workload of work under limits: what a limit costs, what work that waits costs others, and how fair it is.
type limits struct {
	clients  int
	duration time.Duration
	shared   int
	pile     int64
	flood    int64
	tenants  int

	plain, under, keyed flow
	heap                *abide.Orchestration[heap, int]
	task                *abide.Orchestration[int, int]
	released            chan struct{} // what is in the pile goes on
	ran                 atomic.Int64  // activities of the pile that have begun
	urgent              atomic.Int64  // how many of them had before the urgent one
	engine              *abide.Engine
}

// heap is the input of an instance with activities behind one key.
type heap struct {
	N      int  `json:"n"`
	Urgent bool `json:"urgent"`
}

// heapWidth is how many activities of the pile an instance has, and pileKey their key.
const (
	heapWidth = 1_000
	pileKey   = "pile"
)

// maxPile is the largest number of activities that wait, and maxTakes is how long one of the flood takes.
const (
	maxPile  = 10_000_000
	takes    = 5 * time.Millisecond
	ofTenant = 10 // tasks of each tenant beside the flood
)

func limiting() bench.Spec {
	return bench.Spec{
		Name:  "limits",
		Short: "Measure what limits cost, and that work which waits delays no other",
		Long: `Measure what limits cost, and that work which waits delays no other.

First hellos are run without limits, and with a limit that all share (--shared). Then activities of
other keys of a limit are run before and after activities have been scheduled behind one key of it,
which one activity holds (--pile): the memory and both rates are reported. An urgent one is
scheduled last, the key is released, and it is reported how many began before it. Then each tenant
has a few tasks, alone and beside one tenant with many (--flood): how even the others' times are
(Jain's index, 1 is even), and how long a task of theirs takes.`,
		Example: `  abide bench limits
  abide bench limits --pile 1000000 --shared 0 --flood 0 --json
  abide bench limits --store postgres://localhost/abide`,
		New: func(f *pflag.FlagSet, _ *bench.Config) bench.Workload {
			w := &limits{}
			f.IntVar(&w.clients, "clients", 64, "clients that start an orchestration, wait for its result, and start the next")
			f.DurationVar(&w.duration, "duration", 5*time.Second, "how long each rate is measured")
			f.IntVar(&w.shared, "shared", 64, "the limit that all hellos share; 0 leaves this part out")
			f.Int64Var(&w.pile, "pile", 10_000, "activities behind one key; 0 leaves this part out")
			f.Int64Var(&w.flood, "flood", 1_000, "tasks of one tenant at once; 0 leaves this part out")
			f.IntVar(&w.tenants, "tenants", 100, "tenants with tasks, for --flood")
			return w
		},
	}
}

// Name implements [bench.Workload].
func (w *limits) Name() string { return "limits" }

// Validate implements [bench.Workload].
func (w *limits) Validate(*bench.Config) error {
	return cmp.Or(
		bench.Within("clients", w.clients, 1, bench.MaxClients),
		bench.Within("duration", w.duration, time.Millisecond, time.Hour),
		bench.Within("shared", w.shared, 0, maxLimit),
		bench.Within("pile", w.pile, 0, maxPile),
		bench.Within("flood", w.flood, 0, maxPile),
		bench.Within("tenants", w.tenants, 2, maxRate),
	)
}

// Open implements [bench.Workload].
func (w *limits) Open(_ context.Context, r *bench.Run) (stop func() error, err error) {
	w.released = make(chan struct{})
	all, each := &loop{limit: w.shared, keys: 1}, &loop{limit: 1, keys: maxTenants}
	w.plain, w.under, w.keyed = helloFlow(r, "", nil), helloFlow(r, "-shared", all.under), helloFlow(r, "-keyed", each.under)
	piled := abide.NewLimit(bench.Prefix+"limit-by-key", abide.Concurrency(1), abide.PerKey())
	wait := abide.NewActivity(bench.Prefix+"wait", func(ctx context.Context, urgent bool) (int, error) {
		r.Beat()
		before := w.ran.Add(1) - 1
		if urgent {
			w.urgent.Store(before)
		}
		select {
		case <-w.released:
		case <-ctx.Done():
		}
		return 1, ctx.Err()
	})
	w.heap = abide.NewOrchestration(bench.Prefix+"heap", func(ctx abide.Context, in heap) (int, error) {
		waits := make([]*abide.Future[int], in.N)
		for i := range waits {
			waits[i] = wait.Go(ctx, in.Urgent, abide.UnderKey(piled, pileKey))
		}
		done, err := abide.All(ctx, waits...)
		return len(done), err
	})
	work := abide.NewActivity(bench.Prefix+"work", func(ctx context.Context, i int) (int, error) {
		r.Beat()
		return i, bench.Pass(ctx, takes)
	})
	w.task = abide.NewOrchestration(bench.Prefix+"task", func(ctx abide.Context, i int) (int, error) { return work.Call(ctx, i) })
	register := []abide.Definition{w.heap, wait, w.task, work}
	for _, f := range []flow{w.plain, w.under, w.keyed} {
		register = append(append(register, f.register...), f.activities...)
	}
	if w.engine, err = abide.New(r.Store, abide.Config{Register: register, Logger: r.Logger}); err != nil {
		return nil, err
	}
	return w.engine.Close, nil
}

// Measure implements [bench.Workload].
func (w *limits) Measure(ctx context.Context, r *bench.Run) error {
	r.Report.Add("clients", w.clients)
	for _, part := range []struct {
		size    int64
		measure func(ctx context.Context, r *bench.Run) error
	}{{int64(w.shared), w.measureShared}, {w.flood, w.measureFlood}, {w.pile, w.measurePile}} {
		if part.size == 0 {
			continue
		}
		if err := part.measure(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// rate runs a flow for a while.
func (w *limits) rate(ctx context.Context, r *bench.Run, what string, f *flow) (*bench.Sample, error) {
	return r.Loop(ctx, bench.Loop{
		Doing: "running " + what, Unit: "orchestrations", Workers: w.clients, Duration: w.duration,
		Do:    func(ctx context.Context, op *bench.Op) error { return f.once(ctx, caller{w.engine, tenant}, op) },
		Stuck: func(ctx context.Context) error { return stuck(ctx, w.engine, tenant, r.Patience) },
	})
}

// measureShared compares hellos without a limit and under one, twice in turn.
func (w *limits) measureShared(ctx context.Context, r *bench.Run) error {
	var without, with bench.Sample
	for range 2 {
		for _, part := range []struct {
			flow *flow
			to   *bench.Sample
		}{{&w.plain, &without}, {&w.under, &with}} {
			s, err := w.rate(ctx, r, "hellos", part.flow)
			if err != nil {
				return err
			}
			part.to.Add(s)
		}
	}
	p := &r.Report
	p.Add("shared", w.shared)
	p.Add("without_per_s", without.Rate())
	p.Add("shared_per_s", with.Rate())
	p.Add("shared_ratio", with.Rate()/without.Rate())
	p.Quantiles("without", "ms", &without.Latency)
	p.Quantiles("shared", "ms", &with.Latency)
	r.CPU(&without, "hello")
	r.CPU(&with, "shared")
	return nil
}

// measurePile compares work of other keys before and behind a pile, and has something urgent overtake it.
func (w *limits) measurePile(ctx context.Context, r *bench.Run) error {
	before, err := w.rate(ctx, r, "work of many keys", &w.keyed)
	if err != nil {
		return err
	}
	memory := bench.Memory()
	r.MarkMemory()
	if err := w.pileUp(ctx, r); err != nil {
		return err
	}
	piled := bench.Memory()
	after, err := w.rate(ctx, r, "work of many keys beside the pile", &w.keyed)
	if err != nil {
		return err
	}
	urgent, err := w.heap.Start(ctx, w.engine, heap{N: 1, Urgent: true}, abide.Tenant(tenant), abide.Priority(100))
	if err != nil {
		return err
	}
	if err := w.awaitPile(ctx, r, w.pile); err != nil { // one has the key
		return err
	}
	began := w.ran.Load()
	close(w.released)
	if err := result(ctx, urgent, 1); err != nil {
		return err
	}
	p := &r.Report
	p.Add("pile", w.pile)
	p.Add("other_keys_before_per_s", before.Rate())
	p.Add("other_keys_beside_per_s", after.Rate())
	p.Add("other_keys_ratio", after.Rate()/before.Rate())
	p.Quantiles("before", "ms", &before.Latency)
	p.Quantiles("beside", "ms", &after.Latency)
	p.Add("memory_before_mib", memory)
	p.Add("memory_beside_mib", piled)
	p.Add("before_urgent", w.urgent.Load()-began)
	return nil
}

// pileUp schedules activities behind one key, of which one runs and holds it.
func (w *limits) pileUp(ctx context.Context, r *bench.Run) error {
	err := r.Batches(ctx, bench.Loading{Doing: "piling up", Unit: "activities", To: int(w.pile)}, func(ctx context.Context, from, to int) error {
		for ; from < to; from += heapWidth {
			if err := patiently(ctx, func() error {
				_, err := w.heap.Start(ctx, w.engine, heap{N: min(heapWidth, to-from)}, abide.Tenant(tenant))
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.awaitPile(ctx, r, w.pile-1)
}

// awaitPile waits until so many activities wait for the key.
func (w *limits) awaitPile(ctx context.Context, r *bench.Run, waiting int64) error {
	var n atomic.Int64
	return r.Await(ctx, func() string { return fmt.Sprintf("%d activities wait for the key", n.Load()) }, func() (bool, int64, error) {
		info, err := w.engine.Limit(ctx, tenant, bench.Prefix+"limit-by-key")
		for i := range info.Keys {
			if info.Keys[i].Key == pileKey {
				n.Store(int64(info.Keys[i].Waiting))
			}
		}
		return n.Load() >= waiting, n.Load(), err
	})
}

// measureFlood compares how long a few tasks of each tenant take, alone and beside the many of one tenant.
func (w *limits) measureFlood(ctx context.Context, r *bench.Run) error {
	_, alone, err := w.tasks(ctx, r, 0)
	if err != nil {
		return err
	}
	took, beside, err := w.tasks(ctx, r, w.flood)
	if err != nil {
		return err
	}
	p := &r.Report
	p.Add("flood", w.flood)
	p.Add("tenants", w.tenants)
	p.Add("jain", jain(took))
	p.Quantiles("task_alone", "ms", alone)
	p.Quantiles("task_beside", "ms", beside)
	p.Add("task_p99_ratio", float64(beside.Quantile(0.99))/float64(max(alone.Quantile(0.99), 1)))
	return nil
}

// tasks starts the tasks of one tenant and then some of each other tenant, and returns how long those of each
// other tenant took together, and each by itself.
func (w *limits) tasks(ctx context.Context, r *bench.Run, flood int64) (took []time.Duration, each *bench.Histogram, err error) {
	name := func(i int) string {
		return tenant + "-" + r.ID + "-" + strconv.FormatInt(flood, 10) + "-" + strconv.Itoa(i)
	}
	start := func(name string, n int64) (all []*abide.Instance[int], err error) {
		for i := range n {
			err := patiently(ctx, func() error {
				one, err := w.task.Start(ctx, w.engine, int(i), abide.Tenant(name))
				all = append(all, one)
				return err
			})
			if err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	flooded, err := start(name(0), flood)
	if err != nil {
		return nil, nil, err
	}
	took, each = make([]time.Duration, w.tenants-1), &bench.Histogram{}
	errs := make([]error, len(took))
	var tenants sync.WaitGroup
	for i := range took {
		tenants.Go(func() {
			began := time.Now()
			all, err := start(name(i+1), ofTenant)
			for k := 0; k < len(all) && err == nil; k++ {
				if err = result(ctx, all[k], k); err == nil {
					each.Record(time.Since(began))
				}
			}
			took[i], errs[i] = time.Since(began), err
		})
	}
	tenants.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return nil, nil, errs[i]
	}
	for i, one := range flooded {
		if err := result(ctx, one, i); err != nil {
			return nil, nil, err
		}
	}
	return took, each, nil
}

// jain returns Jain's index of durations: 1 if all are the same, 1/n if one has it all.
func jain(all []time.Duration) float64 {
	var sum, squares float64
	for _, d := range all {
		sum += d.Seconds()
		squares += d.Seconds() * d.Seconds()
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(all)) * squares)
}
