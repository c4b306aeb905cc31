package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/store"
)

// actionsRun is a run of the workload of actions.
type actionsRun struct {
	opts    *ActionsOptions
	name    string // actions of an earlier run count for nothing
	store   store.Store
	service *action.Service
	report  Report

	tally    atomic.Pointer[tally] // of what is measured now
	openTook time.Duration
	rss      float64 // in MiB, while nothing happens but that actions are pending
}

// Names that the actions of a run have.
const (
	actionsTarget = tenant // that of another one is never run here
	actionsQueue  = "actions"
)

// tally counts the runs of actions, by number.
type tally struct {
	runs  []atomic.Int32
	count atomic.Int64
}

// RunActions measures actions on a store, with a target in the same process that does
// nothing, and reports what it found. The store is closed afterwards and keeps its actions.
func RunActions(ctx context.Context, o ActionsOptions) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	r := &actionsRun{opts: &o, name: rand.Text()[:runLength]}
	defer r.close()
	for _, step := range []func(context.Context) error{r.open, r.pending, r.measure, r.conclude} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return &r.report, nil
}

// open opens the store, and makes a service that does not tick yet.
func (r *actionsRun) open(ctx context.Context) error {
	p := &r.report
	p.text(figWorkload, string(WorkloadActions))
	p.text(figStore, schemeOf(r.opts.Store))
	p.count(figGOMAXPROCS, int64(runtime.GOMAXPROCS(0)))
	p.text(figGo, runtime.Version())
	p.count(figSlots, int64(r.opts.Slots))
	began := time.Now()
	s, err := openStore(ctx, r.opts.Store)
	if err != nil {
		return err
	}
	r.store, r.openTook = s, time.Since(began)
	if r.service, err = r.newService(); err != nil {
		return err
	}
	return sayIfUsed(ctx, r.store, r.opts.Progress)
}

// newService makes a service, which can be run once.
func (r *actionsRun) newService() (*action.Service, error) {
	s, err := action.New(action.Config{
		Store: r.store, Slots: r.opts.Slots, DrainTimeout: r.opts.Patience, Logger: r.opts.Logger,
		Targets: map[string]action.Definition{actionsTarget: {Target: action.Func(r.act)}},
	})
	if err != nil {
		return nil, fmt.Errorf("bench: make a service: %w", err)
	}
	return s, nil
}

// act is the target.
func (r *actionsRun) act(_ context.Context, run action.Run) (action.Outcome, error) {
	name := run.Action.ID
	if run.Action.Trigger.Kind == action.Webhook {
		name = run.Action.Trigger.Header[deliveryHeader]
	}
	i, ours := r.parse(name)
	if ours && len(run.Body) != run.Action.Trigger.Size {
		return action.Outcome{}, fmt.Errorf("bench: a body has %d bytes, %d were sent", len(run.Body), run.Action.Trigger.Size)
	}
	if t := r.tally.Load(); ours && t != nil && i < len(t.runs) {
		t.runs[i].Add(1)
		t.count.Add(1)
	}
	return action.Outcome{}, nil
}

// id returns the name of an action, or of a delivery.
func (r *actionsRun) id(i int) string { return r.name + "-" + strconv.Itoa(i) }

// parse is the inverse of id. It reports false for one of another run.
func (r *actionsRun) parse(id string) (i int, ours bool) {
	if len(id) <= runLength || id[:runLength] != r.name {
		return 0, false
	}
	i, err := strconv.Atoi(id[runLength+1:])
	return i, err == nil && i >= 0
}

// close closes the store, if it is there. What was acknowledged is durable, so an error
// changes no figure.
func (r *actionsRun) close() {
	if r.store != nil {
		_ = r.store.Close()
	}
}

// measure runs the workload.
func (r *actionsRun) measure(ctx context.Context) error {
	stop, err := startProfile(r.opts.CPUProfile)
	if err != nil {
		return err
	}
	defer stop()
	for _, step := range []func(context.Context) error{r.measureTicks, r.measureDispatch, r.measureHooks} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// conclude reports what the process and the store take in the end.
func (r *actionsRun) conclude(ctx context.Context) error {
	p := &r.report
	now, peak := memory()
	if r.rss == 0 {
		r.rss = now
	}
	if r.rss > 0 {
		p.number(figRSS, r.rss)
		p.number(figRSSPeak, peak)
	}
	stats, err := r.stats(ctx)
	if err != nil {
		return err
	}
	if stats.Bytes > 0 {
		p.number(figDisk, float64(stats.Bytes)/mib)
	}
	p.number(figOpen, r.openTook.Seconds())
	return writeMemProfile(r.opts.MemProfile)
}

func (r *actionsRun) stats(ctx context.Context) (store.Stats, error) {
	stats, err := r.store.Stats(ctx)
	if err != nil {
		return store.Stats{}, fmt.Errorf("bench: look at the store: %w", err)
	}
	return stats, nil
}

// waiting returns how many actions of ours are pending or running, and how many of these
// are due.
func (r *actionsRun) waiting(ctx context.Context) (pending, due int, err error) {
	stats, err := r.stats(ctx)
	for _, row := range stats.Routes {
		if row.Queue == actionsQueue && row.Route == actionsTarget {
			pending, due = pending+row.Pending, due+row.Ready
		}
	}
	return pending, due, err
}
