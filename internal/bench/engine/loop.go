package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"

	_ "github.com/abidehq/abide/remote" // for --worker
)

const tenant = bench.Name

// Bounds of options.
const (
	maxLength = 10_000 // each takes a few events of a history, whose length is limited
	maxWidth  = 10_000
	maxRate   = 1_000_000

	maxTenants = 1_000_000
	maxLimit   = 10_000
)

// openSeconds is how long an orchestration may take before an open loop runs out of clients.
const openSeconds = 3

// Specs describes the workloads.
func Specs() []bench.Spec {
	specs := []bench.Spec{hello(), sequence(), fanout(), sleeping(), events(), idle(), limiting()}
	for i := range specs {
		specs[i].Long += `

One engine serves the orchestrations, and its clients are in the same process. Without
--store the embedded store is measured, in a folder of the working directory that is
removed afterwards. A store that is given keeps the instances, of the tenant
abide-bench unless --tenant names another; what it holds besides is not touched. The
embedded store writes a little less for the default tenant than for others.`
	}
	return specs
}

// loop is a workload of clients that run one orchestration after another.
type loop struct {
	name     string
	n        int64
	duration time.Duration
	clients  int
	rate     int // of an open loop, or 0
	tenant   string
	tenants  int // if more than one, their names begin with tenant
	length   int // of activities, steps or events of an orchestration
	width    int // of a fan-out
	steps    bool
	limit    int  // of activities at the same time, or 0
	keys     int  // of the limit
	apart    bool // activities are run by an engine of their own
	flags    *pflag.FlagSet

	worker string // URL of a server, for which the code is run

	build  func(r *bench.Run) flow
	flow   flow
	engine *abide.Engine
	turns  *replays // if apart
}

// flow is what an engine serves for a workload, and what a client does with it.
type flow struct {
	register   []abide.Definition // orchestrations
	activities []abide.Definition

	// once runs one orchestration, from its start to its result.
	once func(ctx context.Context, c caller, op *bench.Op) error

	// each is how many activities, steps or events an orchestration has, and unit their name.
	each int
	unit string

	raises *bench.Histogram // of calls that raise an event
}

var _ bench.Workload = (*loop)(nil)

// newLoop adds the flags that all loops have. One that is not for many clients has one.
func newLoop(f *pflag.FlagSet, c *bench.Config, name string, many bool) *loop {
	l := &loop{name: name, clients: 1, flags: f}
	f.Int64Var(&l.n, "n", 0, "end after so many orchestrations")
	f.DurationVar(&l.duration, "duration", 10*time.Second, "how long to measure; without end if --n is given")
	f.StringVar(&l.tenant, "tenant", tenant, "tenant of the instances")
	f.IntVar(&l.tenants, "tenants", 1, "spread the instances over so many tenants, whose names are that of --tenant with a number")
	f.StringVar(&l.worker, "worker", "", "run the code as a worker of the server at this URL, such as abide://127.0.0.1:7172, and start instances there; --store is not used, and the CPU is that of the worker")
	c.WarmupFlag(f)
	if many {
		f.IntVar(&l.clients, "clients", 64, "clients that start an orchestration, wait for its result, and start the next; with --rate, up to 10,000 if not given")
		f.IntVar(&l.rate, "rate", 0, "start so many a second, whether or not others have ended, as far as there are clients; latencies count from when they should have begun, and starts that the engine refuses are counted")
	}
	return l
}

// Name implements [bench.Workload].
func (l *loop) Name() string { return l.name }

// Validate implements [bench.Workload].
func (l *loop) Validate(c *bench.Config) error {
	if l.worker != "" {
		if l.apart {
			return bench.Invalid("--worker and --apart do not go together")
		}
		c.URL = "memory://" // nothing is kept here
	}
	if l.n > 0 && !l.flags.Changed("duration") {
		l.duration = 0
	}
	if l.rate > 0 && !l.flags.Changed("clients") {
		l.clients = min(max(l.clients, openSeconds*l.rate), bench.MaxClients)
	}
	err := cmp.Or(
		bench.NotNegative("n", l.n),
		bench.NotNegative("duration", l.duration),
		bench.Within("clients", l.clients, 1, bench.MaxClients),
		bench.Within("tenants", l.tenants, 1, maxTenants),
		bench.Within("rate", l.rate, 0, maxRate),
		bench.Within("limit", l.limit, 0, maxLimit),
	)
	if l.flags.Lookup("keys") != nil {
		err = cmp.Or(err, bench.Within("keys", l.keys, 1, maxTenants))
	}
	if l.flags.Lookup("length") != nil {
		err = cmp.Or(err, bench.Within("length", l.length, 1, maxLength))
	}
	if l.flags.Lookup("width") != nil {
		err = cmp.Or(err, bench.Within("width", l.width, 1, maxWidth))
	}
	if err == nil && l.n == 0 && l.duration == 0 {
		err = bench.Invalid("neither --n nor --duration ends the measurement")
	}
	return err
}

// Open implements [bench.Workload].
func (l *loop) Open(ctx context.Context, r *bench.Run) (stop func() error, err error) {
	l.flow = l.build(r)
	config := abide.Config{Register: append(slices.Clone(l.flow.register), l.flow.activities...), Logger: r.Logger}
	stopApart := func() error { return nil }
	if l.apart {
		l.turns = newReplays()
		config.Register, config.MeterProvider = l.flow.register, l.turns.provider()
		if stopApart, err = l.openApart(ctx, r); err != nil {
			return nil, err
		}
	}
	if l.worker != "" {
		config.Store = l.worker
		l.engine, err = abide.Open(ctx, config)
	} else {
		l.engine, err = abide.New(r.Store, config)
	}
	if err != nil {
		return nil, errors.Join(err, stopApart())
	}
	return func() error { return errors.Join(l.engine.Close(), stopApart()) }, nil
}

// Measure implements [bench.Workload].
func (l *loop) Measure(ctx context.Context, r *bench.Run) error {
	before, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	s, err := r.Loop(ctx, bench.Loop{
		Doing: "running " + l.name, Unit: "orchestrations", Workers: l.clients, N: l.n, Duration: l.duration, Rate: l.rate, Warmup: true,
		Do: func(ctx context.Context, op *bench.Op) error {
			return l.flow.once(ctx, caller{l.engine, l.tenantOf(op)}, op)
		},
		Stuck: func(ctx context.Context) error { return stuck(ctx, l.engine, l.tenantOf(&bench.Op{}), r.Patience) },
	})
	if err != nil {
		return err
	}
	p := &r.Report
	p.Add("n", s.Count)
	p.Add("clients", l.clients)
	if l.tenants > 1 {
		p.Add("tenants", l.tenants)
	}
	if l.rate > 0 {
		p.Add("rate", l.rate)
	}
	p.Add("refused", s.Refused)
	if l.flags.Lookup("length") != nil {
		p.Add("length", l.length)
	}
	if l.flags.Lookup("width") != nil {
		p.Add("width", l.width)
	}
	p.Add("duration_s", s.Elapsed)
	p.Add("orchestrations_per_s", s.Rate())
	if l.flow.each > 0 {
		p.Add(l.flow.unit+"_per_s", s.Rate()*float64(l.flow.each))
	}
	p.Quantiles("latency", "ms", &s.Latency)
	p.Quantiles("start", "ms", &s.Start)
	if l.rate > 0 {
		l.reportLoad(p, s)
	}
	if l.turns != nil {
		if err := l.turns.report(ctx, p); err != nil {
			return err
		}
	}
	if l.flow.raises != nil {
		p.Quantiles("raise", "ms", l.flow.raises)
	}
	return r.Cost(ctx, s, "orchestration", before.Bytes)
}

// tenantOf returns the tenant of an operation.
func (l *loop) tenantOf(op *bench.Op) string {
	if l.tenants == 1 {
		return l.tenant
	}
	return l.tenant + "-" + strconv.FormatInt(op.I%int64(l.tenants), 10)
}

// reportLoad adds what only an open loop has: what was accepted and refused while the load lasted, how late
// starts were for want of clients, and how long it took after the load until all that was accepted had
// completed.
func (l *loop) reportLoad(p *bench.Report, s *bench.Sample) {
	if loaded := s.Loaded.Seconds(); loaded > 0 {
		p.Add("accepted_per_s", float64(s.Count)/loaded)
		p.Add("refused_per_s", float64(s.Refused)/loaded)
	}
	p.Add("begun_late_max_ms", s.Late.Max())
	p.Add("recovery_s", s.Elapsed-s.Loaded)
}

// stuck returns the error of a run in which nothing happens any more, with a reason if
// there is one.
func stuck(ctx context.Context, c *abide.Engine, ours string, patience time.Duration) error {
	page, err := c.List(ctx, abide.Filter{Tenant: &ours, Statuses: []abide.Status{abide.Stalled}, Descending: true, Limit: 1})
	if err == nil && len(page.Instances) > 0 {
		i := page.Instances[0]
		return fmt.Errorf("bench: instance %v of %s has stalled: %s", i.Ref, i.Orchestration, i.Reason)
	}
	return fmt.Errorf("bench: instances wait, and nothing has happened for %v", patience)
}

// caller is who starts the orchestrations, and their tenant.
type caller struct {
	abide.Caller
	tenant string
}

// complete runs an orchestration from its start to its result.
func complete[In any, Out comparable](ctx context.Context, c caller, op *bench.Op, o *abide.Orchestration[In, Out], in In, want Out) error {
	i, err := start(ctx, c, op, o, in)
	if i == nil {
		return err
	}
	return result(ctx, i, want)
}

// start starts an orchestration. It returns no instance if the engine has refused it.
func start[In, Out any](ctx context.Context, c caller, op *bench.Op, o *abide.Orchestration[In, Out], in In) (*abide.Instance[Out], error) {
	i, err := o.Start(ctx, c, in, abide.Tenant(c.tenant))
	if errors.Is(err, abide.ErrBusy) {
		op.Refuse()
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bench: start an orchestration: %w", err)
	}
	op.Started()
	return i, nil
}

// patiently calls f until the engine does not refuse it.
func patiently(ctx context.Context, f func() error) error {
	for {
		err := f()
		if !errors.Is(err, abide.ErrBusy) {
			return err
		}
		if err := bench.Pass(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// result waits for the result of an instance, and checks it.
func result[Out comparable](ctx context.Context, i *abide.Instance[Out], want Out) error {
	got, err := i.Result(ctx)
	if err != nil {
		return fmt.Errorf("bench: wait for a result: %w", err)
	}
	if got != want {
		return fmt.Errorf("bench: the result of instance %v is %v, want %v", i.Ref(), got, want)
	}
	return nil
}

// errOrder is the failure of an instance that received an event out of order.
var errOrder = errors.New("events are out of order")
