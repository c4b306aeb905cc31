package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/abidehq/abide/store"
)

// serveRun is a run of the workload of a server.
type serveRun struct {
	opts   *ServeOptions
	name   string // instances and timers of an earlier run have another one
	house  *house
	client *http.Client
	report Report

	openTook time.Duration
}

// RunServe measures a server on a store, with clients in the same process that talk to it
// over HTTP, and reports what it found. The store is closed afterwards and keeps what is in
// it.
func RunServe(ctx context.Context, o ServeOptions) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := &serveRun{opts: &o, name: rand.Text()[:runLength]}
	defer r.close()
	if err := r.open(ctx, fail); err != nil {
		return nil, err
	}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	return &r.report, nil
}

// run measures. If a part of the server cannot go on, that is why nothing else can.
func (r *serveRun) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{r.measure, r.conclude} {
		if err := step(ctx); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return err
		}
	}
	return nil
}

// open opens the store and serves it.
func (r *serveRun) open(ctx context.Context, fail func(error)) (err error) {
	p := &r.report
	p.text(figWorkload, string(WorkloadServe))
	p.text(figStore, schemeOf(r.opts.Store))
	p.count(figGOMAXPROCS, int64(runtime.GOMAXPROCS(0)))
	p.text(figGo, runtime.Version())
	began := time.Now()
	if r.house, err = openHouse(ctx, r.opts, fail); err != nil {
		return err
	}
	r.openTook = time.Since(began)
	r.client = &http.Client{Transport: newTransport(r.opts.Clients), Timeout: max(r.opts.Patience, defaultPatience)}
	return sayIfUsed(ctx, r.house.store, r.opts.Progress)
}

// close closes the server and its store, if they are there. What was acknowledged is
// durable, so an error changes no figure.
func (r *serveRun) close() {
	if r.house == nil {
		return
	}
	r.client.CloseIdleConnections()
	_ = r.house.close()
}

// measure runs the workload.
func (r *serveRun) measure(ctx context.Context) error {
	stop, err := startProfile(r.opts.CPUProfile)
	if err != nil {
		return err
	}
	defer stop()
	for _, step := range []func(context.Context) error{r.measureStarts, r.measureReads, r.idle, r.measureStreams} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// idle does nothing for a while, and reports the CPU that this takes.
func (r *serveRun) idle(ctx context.Context) error {
	if r.opts.Idle == 0 {
		return nil
	}
	if err := settle(ctx, r.opts.Idle, r.opts.Progress); err != nil {
		return err
	}
	r.opts.Progress.Say("idling for %v", r.opts.Idle)
	s := &sample{}
	watch := startWatch()
	if err := pass(ctx, r.opts.Idle); err != nil {
		return err
	}
	watch.stop(s)
	r.report.idle(s)
	return nil
}

// conclude reports what the process and the store take in the end.
func (r *serveRun) conclude(ctx context.Context) error {
	p := &r.report
	if now, peak := memory(); now > 0 {
		p.number(figRSS, now)
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

func (r *serveRun) stats(ctx context.Context) (store.Stats, error) {
	stats, err := r.house.store.Stats(ctx)
	if err != nil {
		return store.Stats{}, fmt.Errorf("bench: look at the store: %w", err)
	}
	return stats, nil
}

// id returns the name of an instance or of a timer of this run.
func (r *serveRun) id(i int) string { return r.name + "-" + strconv.Itoa(i) }
