package base

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// compareEvery is how often clocks are compared.
const compareEvery = time.Minute

// Remote tells the time of another clock, which can be asked but not for each glance: it
// is that of a local clock, corrected by how much the two were seen to differ.
type Remote struct {
	local Clock
	log   *slog.Logger
	ask   func(ctx context.Context) (time.Time, error)

	known atomic.Pointer[comparison] // nil if never
	busy  chan struct{}              // has an item while a comparison is under way
}

type comparison struct {
	at time.Time // by the local clock
	by time.Duration
}

// NewRemote returns the time of the clock that ask asks.
func NewRemote(local Clock, log *slog.Logger, ask func(ctx context.Context) (time.Time, error)) *Remote {
	return &Remote{local: local, log: log, ask: ask, busy: make(chan struct{}, 1)}
}

// Now returns the time. It asks the first time, and once a minute after that. The first
// callers wait for the answer, each as long as its context allows; later ones do not.
func (r *Remote) Now(ctx context.Context) time.Time {
	known := r.known.Load()
	switch {
	case known == nil:
		select {
		case r.busy <- struct{}{}:
			if r.known.Load() == nil {
				r.compare(ctx)
			}
			<-r.busy
		case <-ctx.Done():
		}
	case r.local.Now().Sub(known.at).Abs() >= compareEvery:
		select {
		case r.busy <- struct{}{}:
			r.compare(ctx)
			<-r.busy
		default:
		}
	}
	now := r.local.Now()
	if known = r.known.Load(); known != nil {
		now = now.Add(known.by)
	}
	return now.UTC()
}

// compare asks how late it is. A difference that is no more than asking took counts as
// none.
func (r *Remote) compare(ctx context.Context) {
	before := r.local.Now()
	there, err := r.ask(ctx)
	if err != nil {
		if ctx.Err() == nil {
			r.log.Warn("cannot ask for the store's time", "error", err)
		}
		return
	}
	after := r.local.Now()
	took := after.Sub(before)
	by := there.Sub(before.Add(took / 2))
	if by.Abs() <= took+time.Millisecond {
		by = 0
	}
	r.known.Store(&comparison{after, by})
}
