package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide/store"
)

// Spec describes a workload to the command line.
type Spec struct {
	Name, Short, Long, Example string

	// NeedsStore forbids a temporary store.
	NeedsStore bool

	// Processes allows to divide the clients among several processes.
	Processes bool

	// New returns the workload, after it has added its flags to f. Its options are set when
	// the flags are parsed.
	New func(f *pflag.FlagSet, c *Config) Workload
}

// Workload is something to measure on a store. Its methods are called in the order in which
// they stand here.
type Workload interface {
	// Name is the name in reports.
	Name() string

	// Validate returns an error that matches [ErrOptions] if an option is out of bounds.
	Validate(c *Config) error

	// Open starts what serves r.Store, and returns a function that stops it. It is called
	// again when the store is reopened. What it starts may call r.Fail.
	Open(ctx context.Context, r *Run) (stop func() error, err error)

	// Measure runs the load, and adds figures to r.Report. Wrong results are errors: the
	// figures of a store or engine that is wrong mean nothing.
	Measure(ctx context.Context, r *Run) error
}

// Loader is a workload that fills the store before it is measured.
type Loader interface {
	Workload

	// Load brings the store to what the options ask for. It is called after Open, in this
	// process or in another one.
	Load(ctx context.Context, r *Run) error

	// Verify is called after the store was reopened. It waits for a first result, if there
	// are such, calls r.MarkResult, and returns an error if what was loaded is gone.
	Verify(ctx context.Context, r *Run) error
}

// Run is a workload that is being run.
type Run struct {
	Config
	ID     string // random: the names of what this run stores begin with it
	Store  store.Store
	Report Report

	workload  Workload
	stop      func() error
	openTook  time.Duration
	rss       float64 // in MiB, when the store was loaded
	resultAt  time.Time
	profiling bool
	pulse     atomic.Int64
	fail      context.CancelCauseFunc
}

// Measure runs a workload and reports figures. The store is closed afterwards and keeps what
// was put into it.
func Measure(ctx context.Context, w Workload, c Config) (*Report, error) {
	if err := c.Validate(w); err != nil {
		return nil, err
	}
	r, ctx := NewRun(ctx, w, c)
	defer r.fail(nil)
	defer func() { _ = r.Close() }() // what was acknowledged is durable, so an error changes no figure
	defer r.stopProfile()
	for _, step := range []func(context.Context) error{r.prepare, r.measure, r.conclude} {
		if err := step(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return nil, err
		}
	}
	return &r.Report, nil
}

// Load opens and loads the store as [Measure] would, calls loaded, and keeps the store open
// until ctx ends. It is for a process that is going to be killed.
func Load(ctx context.Context, w Loader, c Config, loaded func()) error {
	if c.LoadCommand == nil {
		c.LoadCommand = Never
	}
	if err := c.Validate(w); err != nil {
		return err
	}
	r, ctx := NewRun(ctx, w, c)
	defer r.fail(nil)
	defer func() { _ = r.Close() }()
	if err := r.Open(ctx); err != nil {
		return err
	}
	if err := w.Load(ctx, r); err != nil {
		return err
	}
	loaded()
	<-ctx.Done()
	return nil
}

// NewRun returns a run that is not open yet, and a context that ends with [Run.Fail]. It is
// for tests that call the methods of a workload themselves.
func NewRun(ctx context.Context, w Workload, c Config) (*Run, context.Context) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	r := &Run{Config: c, ID: rand.Text()[:RunLength], workload: w}
	ctx, r.fail = context.WithCancelCause(ctx)
	return r, ctx
}

// Fail ends the run with an error.
func (r *Run) Fail(err error) { r.fail(err) }

// RunLength is the length of [Run.ID].
const RunLength = 8

// Key returns the name of thing i of this run.
func (r *Run) Key(i int64) string { return r.ID + "-" + strconv.FormatInt(i, 10) }

// ParseKey is the inverse of [Run.Key]. It reports false for a name of another run.
func (r *Run) ParseKey(name string) (i int64, ours bool) {
	if len(name) <= RunLength || name[:RunLength] != r.ID {
		return 0, false
	}
	i, err := strconv.ParseInt(name[RunLength+1:], 10, 64)
	return i, err == nil && i >= 0
}

// prepare opens the store and loads it, in another process if that is going to be killed.
func (r *Run) prepare(ctx context.Context) error {
	r.Report.Add("workload", r.workload.Name())
	r.Report.Add("store", Scheme(r.URL))
	r.Report.Add("gomaxprocs", runtime.GOMAXPROCS(0))
	r.Report.Add("go", runtime.Version())
	if r.Warmup > 0 {
		r.Report.Add("warmup_s", r.Warmup)
	}
	if r.Reopen == ReopenCrash {
		return loadAndCrash(ctx, r.LoadCommand, r.Progress)
	}
	if err := r.Open(ctx); err != nil {
		return err
	}
	stats, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	if len(stats.Routes) > 0 {
		r.Progress.Say("the store is not empty: its messages stay, and may change the figures")
	}
	l, ok := r.workload.(Loader)
	if !ok {
		return nil
	}
	if r.ProfileLoad {
		if err := r.profile(); err != nil {
			return err
		}
	}
	return l.Load(ctx, r)
}

// Open opens the store, and starts what serves it. A URL that is malformed is an invalid
// option; an unfinished copy is refused.
func (r *Run) Open(ctx context.Context) error {
	began := time.Now()
	s, err := store.Open(ctx, r.URL)
	if errors.Is(err, store.ErrInvalid) {
		return Invalid("open the store: %w", err)
	}
	if err != nil {
		return fmt.Errorf("bench: open the store: %w", err)
	}
	if err := store.Whole(ctx, s); err != nil {
		return errors.Join(fmt.Errorf("bench: open the store: %w", err), s.Close())
	}
	r.Store = s
	if r.stop, err = r.workload.Open(ctx, r); err != nil {
		r.stop, r.Store = nil, nil
		return errors.Join(fmt.Errorf("bench: open: %w", err), s.Close())
	}
	r.openTook = time.Since(began)
	return nil
}

// Close stops what serves the store, and closes it.
func (r *Run) Close() error {
	if r.Store == nil {
		return nil
	}
	err := errors.Join(r.stop(), r.Store.Close())
	r.Store, r.stop = nil, nil
	if err != nil {
		return fmt.Errorf("bench: close the store: %w", err)
	}
	return nil
}

// measure reopens the store if that is asked for, and runs the workload, under the profiler.
func (r *Run) measure(ctx context.Context) error {
	if err := r.profile(); err != nil {
		return err
	}
	defer r.stopProfile()
	if r.Reopen != ReopenNever {
		if err := r.reopen(ctx); err != nil {
			return err
		}
	}
	return r.workload.Measure(ctx, r)
}

// profile starts the profile of the CPU, if there is to be one and it has not begun.
func (r *Run) profile() error {
	if r.CPUProfile == nil || r.profiling {
		return nil
	}
	if err := pprof.StartCPUProfile(r.CPUProfile); err != nil {
		return fmt.Errorf("bench: profile the CPU: %w", err)
	}
	r.profiling = true
	return nil
}

// stopProfile ends the profile of the CPU, if there is one.
func (r *Run) stopProfile() {
	if r.profiling {
		pprof.StopCPUProfile()
	}
	r.profiling = false
}

// reopen closes the store, unless the process that had it was killed, and opens it again.
func (r *Run) reopen(ctx context.Context) error {
	if err := r.Close(); err != nil {
		return err
	}
	debug.FreeOSMemory() // so that the store before is not counted again
	began := time.Now()
	if err := r.Open(ctx); err != nil {
		return err
	}
	if err := r.workload.(Loader).Verify(ctx, r); err != nil {
		return err
	}
	r.Report.Add("reopen", string(r.Reopen))
	if !r.resultAt.IsZero() {
		r.Report.Add("open_to_result_s", r.resultAt.Sub(began))
	}
	if now, _ := memory(); now > 0 {
		r.Report.Add("rss_reopened_mib", now)
	}
	return nil
}

// Lost is the error of [Loader.Verify].
func Lost(there, want int, what string) error {
	return fmt.Errorf("bench: the store was opened again, and has lost what was acknowledged: %d of %d %s", there, want, what)
}

// MarkResult notes when there was a first result after the store was opened again.
func (r *Run) MarkResult(at time.Time) { r.resultAt = at }

// MarkMemory notes the memory that is reported: that of now instead of that at the end.
func (r *Run) MarkMemory() { r.rss, _ = memory() }

// conclude reports what the process and the store take in the end.
func (r *Run) conclude(ctx context.Context) error {
	now, peak := memory()
	if r.rss == 0 {
		r.rss = now
	}
	if r.rss > 0 {
		r.Report.Add("rss_mib", r.rss)
		r.Report.Add("rss_peak_mib", peak)
	}
	stats, err := r.Stats(ctx)
	if err != nil {
		return err
	}
	if stats.Bytes > 0 {
		r.Report.Add("store_mib", float64(stats.Bytes)/mib)
	}
	r.Report.Add("open_s", r.openTook)
	if r.MemProfile == nil {
		return nil
	}
	runtime.GC() // memory in use is known as of the last collection
	if err := pprof.Lookup("allocs").WriteTo(r.MemProfile, 0); err != nil {
		return fmt.Errorf("bench: profile the memory: %w", err)
	}
	return nil
}

// Stats returns the statistics of the store.
func (r *Run) Stats(ctx context.Context) (store.Stats, error) {
	stats, err := r.Store.Stats(ctx)
	if err != nil {
		return store.Stats{}, fmt.Errorf("bench: read statistics of the store: %w", err)
	}
	return stats, nil
}

// Messages counts the messages of some routes: all, and those that are visible.
func (r *Run) Messages(ctx context.Context, match func(queue, route string) bool) (pending, ready int, err error) {
	stats, err := r.Stats(ctx)
	for _, row := range stats.Routes {
		if match(row.Queue, row.Route) {
			pending, ready = pending+row.Pending, ready+row.Ready
		}
	}
	return pending, ready, err
}
