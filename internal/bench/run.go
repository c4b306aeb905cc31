package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/abidehq/abide/store"
)

// run is a run of the benchmark.
type run struct {
	opts   *Options
	store  store.Store
	state  state
	report Report

	openTook time.Duration
	loaded   int64 // messages that are not visible yet, put by this process
	loadTook time.Duration
}

// Run measures a store and reports what it found. The store is closed afterwards and
// stays as it is.
func Run(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &run{opts: &o}
	defer r.close()
	for _, step := range []func(context.Context) error{r.prepare, r.describe, r.idle, r.measure, r.conclude} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return &r.report, nil
}

// prepare opens the store, loads it and, if that is asked for, opens it again.
func (r *run) prepare(ctx context.Context) error {
	if r.opts.Reopen == ReopenCrash {
		if err := loadAndCrash(ctx, r.opts.LoadCommand, r.opts.Progress); err != nil {
			return err
		}
		if err := r.open(ctx); err != nil {
			return err
		}
		return r.checkLoaded(ctx)
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	if err := r.load(ctx); err != nil {
		return err
	}
	if r.opts.Reopen == ReopenNever {
		return nil
	}
	closed := r.store
	r.store = nil
	if err := closed.Close(); err != nil {
		return fmt.Errorf("bench: close the loaded store: %w", err)
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	return r.checkLoaded(ctx)
}

func (r *run) open(ctx context.Context) error {
	began := time.Now()
	s, err := openStore(ctx, r.opts.Store)
	if err != nil {
		return err
	}
	r.store, r.openTook = s, time.Since(began)
	return nil
}

// openStore opens a store, unless it is an unfinished copy. A URL that makes no sense is a
// mistake in the options.
func openStore(ctx context.Context, url string) (store.Store, error) {
	s, err := store.Open(ctx, url)
	if errors.Is(err, store.ErrInvalid) {
		return nil, invalid("open the store: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("bench: open the store: %w", err)
	}
	if err := store.Whole(ctx, s); err != nil {
		return nil, errors.Join(fmt.Errorf("bench: open the store: %w", err), s.Close())
	}
	return s, nil
}

// close gives the store back. What was acknowledged is durable, so an error changes
// no figure.
func (r *run) close() {
	if r.store != nil {
		_ = r.store.Close()
	}
}

// checkLoaded makes sure that a store which was opened again is the one that was
// loaded: figures of an empty store would be too good.
func (r *run) checkLoaded(ctx context.Context) error {
	st, found, err := readState(ctx, r.store)
	if err != nil {
		return err
	}
	short := st.Pending < r.opts.Pending || (r.opts.Workload == WorkloadCommit && st.Instances < r.opts.Instances)
	if !found || short {
		return fmt.Errorf("bench: the store was loaded and opened again, and has lost what was acknowledged: it holds %d instances and %d pending messages",
			st.Instances, st.Pending)
	}
	r.state = st
	return nil
}

// describe reports the circumstances.
func (r *run) describe(ctx context.Context) error {
	pending, err := r.pending(ctx)
	if err != nil {
		return err
	}
	p := &r.report
	p.text(figStore, schemeOf(r.opts.Store))
	p.text(figWorkload, string(r.opts.Workload))
	p.text(figKeys, string(r.opts.Keys))
	if r.opts.Workload == WorkloadCommit {
		p.count(figCommitters, int64(r.opts.Committers))
		p.count(figClaimers, int64(r.opts.Claimers))
		p.count(figInstances, int64(r.state.Instances))
	}
	p.count(figPending, pending)
	p.count(figGOMAXPROCS, int64(runtime.GOMAXPROCS(0)))
	p.text(figGo, runtime.Version())
	if r.loaded > 0 {
		p.count(figLoaded, r.loaded)
		p.number(figLoadRate, float64(r.loaded)/r.loadTook.Seconds())
	}
	p.number(figOpen, r.openTook.Seconds())
	if r.opts.Reopen != ReopenNever {
		p.text(figReopen, string(r.opts.Reopen))
	}
	return nil
}

// pending returns how many messages wait besides those of the instances, each of
// which has one.
func (r *run) pending(ctx context.Context) (int64, error) {
	stats, err := r.store.Stats(ctx)
	if err != nil {
		return 0, fmt.Errorf("bench: count pending messages: %w", err)
	}
	n := -r.state.Instances
	for _, row := range stats.Routes {
		if row.Queue == queue {
			n += row.Pending
		}
	}
	return int64(max(n, 0)), nil
}

// measure runs the workload.
func (r *run) measure(ctx context.Context) error {
	stop, err := startProfile(r.opts.CPUProfile)
	if err != nil {
		return err
	}
	defer stop()
	if r.opts.Workload == WorkloadClaim {
		return r.measureClaims(ctx)
	}
	return r.measureCommits(ctx)
}

// conclude reports what the process and the store take in the end.
func (r *run) conclude(ctx context.Context) error {
	if now, peak := memory(); now > 0 {
		r.report.number(figRSS, now)
		r.report.number(figRSSPeak, peak)
	}
	stats, err := r.store.Stats(ctx)
	if err != nil {
		return fmt.Errorf("bench: ask for the store's size: %w", err)
	}
	if stats.Bytes > 0 {
		r.report.number(figDisk, float64(stats.Bytes)/mib)
	}
	return writeMemProfile(r.opts.MemProfile)
}
