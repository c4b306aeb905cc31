package base

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of comparing clocks. The waits are measured by the machine's clock: they bound how
// long a caller is held up by a slow answer.
const (
	// compareEvery is how often clocks are compared.
	compareEvery = time.Minute

	// firstWait is how long a caller waits for the first comparison, and laterWait for a
	// later one, of which it knows the result of the one before.
	firstWait = 5 * time.Second
	laterWait = 20 * time.Millisecond

	// askLimit is when a comparison is given up.
	askLimit = time.Minute
)

// Remote tells the time of another clock, which can be asked but not for each glance: it
// is that of a local clock, corrected by how much the two were seen to differ.
//
// One comparison is in flight at a time, in a goroutine of its own: a clock that answers
// late holds up a caller by no more than firstWait or laterWait.
type Remote struct {
	local Clock
	log   *slog.Logger
	ask   func(ctx context.Context) (time.Time, error)

	known atomic.Pointer[comparison] // nil if never

	mu       sync.Mutex
	inFlight chan struct{} // closed when the comparison has ended; nil if there is none
}

type comparison struct {
	at time.Time // by the local clock
	by time.Duration
}

// NewRemote returns the time of the clock that ask asks.
func NewRemote(local Clock, log *slog.Logger, ask func(ctx context.Context) (time.Time, error)) *Remote {
	return &Remote{local: local, log: log, ask: ask}
}

// Now returns the time. It asks the first time, and once a minute after that. Until the
// first answer is there it returns the local time, after a bounded wait.
func (r *Remote) Now(ctx context.Context) time.Time {
	known := r.known.Load()
	switch {
	case known == nil:
		// A comparison that another caller began may fail because of that caller: then this
		// one begins its own.
		for first := false; !first && r.known.Load() == nil; {
			var done <-chan struct{}
			done, first = r.begin(ctx)
			await(ctx, done, firstWait)
			first = first || ctx.Err() != nil
		}
	case r.local.Now().Sub(known.at).Abs() >= compareEvery:
		if done, first := r.begin(ctx); first {
			await(ctx, done, laterWait)
		}
	}
	now := r.local.Now()
	if known = r.known.Load(); known != nil {
		now = now.Add(known.by)
	}
	return now.UTC()
}

// begin starts a comparison unless one is in flight, and returns a channel that is closed
// when it has ended, and whether this call has started it.
func (r *Remote) begin(ctx context.Context) (done <-chan struct{}, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inFlight != nil {
		return r.inFlight, false
	}
	ended := make(chan struct{})
	r.inFlight = ended
	go func() {
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.inFlight = nil
			close(ended)
		}()
		r.compare(ctx)
	}()
	return ended, true
}

// await returns when done is closed, ctx has ended or the machine's clock has moved by d.
func await(ctx context.Context, done <-chan struct{}, d time.Duration) {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-late.C:
	}
}

// compare asks how late it is. A difference that is no more than asking took counts as
// none. It does not end with the caller, as others use the answer.
func (r *Remote) compare(caller context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), askLimit)
	defer cancel()
	before := r.local.Now()
	there, err := r.ask(ctx)
	if err != nil {
		if caller.Err() == nil {
			r.log.Warn("store time unavailable", "error", err)
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
