package engine

import (
	"context"
	"slices"

	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/store"
)

// maxControls is how many instances are controlled at a time.
const maxControls = 16

// maxClaims bounds what is claimed at once, so that others get their share.
const maxClaims = 128

// serveTurns claims instances until the engine is closed.
func (e *Engine) serveTurns() {
	for e.claiming.Err() == nil {
		var routes []string
		var changed <-chan struct{}
		if e.builds == nil {
			n := e.served.Load()
			routes, changed = slices.Clone(n.list), n.replaced
		} else {
			routes, changed = e.builds.routes()
		}
		req := store.ClaimRequest{Queue: queueTurns, Routes: append(routes, routeEnded)}
		if e.serveUntil(changed, req, e.turning, e.turn) != nil {
			return
		}
	}
}

// serveUntil is serve until changed is closed.
func (e *Engine) serveUntil(changed <-chan struct{}, req store.ClaimRequest, slots *slots, run func(*job)) error {
	ctx, cancel := context.WithCancel(e.claiming)
	defer cancel()
	go func() {
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	}()
	return e.serve(ctx, req, slots, run)
}

// serveControl claims what was asked about instances until the engine is closed. It runs
// no code of users that could take the process down, so it is tried without end.
func (e *Engine) serveControl() {
	req := store.ClaimRequest{Queue: queueControl, Routes: []string{routeControl}}
	_ = e.serve(e.claiming, req, newSlots(e, "control", maxControls), e.control)
}

// serveActivities claims tasks until the engine is closed. The store does not count their
// deliveries: the engine fails an activity that crashed too often, so that its instance is
// told.
func (e *Engine) serveActivities() {
	for e.claiming.Err() == nil {
		n := e.served.Load()
		if len(n.tasks) == 0 { // a claim names one at least
			select {
			case <-n.replaced:
			case <-e.claiming.Done():
			}
			continue
		}
		req := store.ClaimRequest{Queue: QueueActivities, Routes: n.tasks}
		if e.serveUntil(n.replaced, req, e.acting, e.activity) != nil {
			return
		}
	}
}

// maxGateTurns is how many gates are worked on at a time.
const maxGateTurns = 32

// serveGates claims gates of limits until the engine is closed.
func (e *Engine) serveGates() {
	req := store.ClaimRequest{Queue: queueLimits, Routes: []string{routeLimits}}
	_ = e.serve(e.claiming, req, newSlots(e, "limit", maxGateTurns), e.gate)
}

// serveEntities claims entities until the engine is closed.
func (e *Engine) serveEntities() {
	for e.claiming.Err() == nil {
		n := e.served.Load()
		if len(n.objects) == 0 { // a claim names one at least
			select {
			case <-n.replaced:
			case <-e.claiming.Done():
			}
			continue
		}
		req := store.ClaimRequest{Queue: QueueEntities, Routes: n.objects, MaxMessages: MaxEntityBatch}
		if e.serveUntil(n.replaced, req, e.operating, e.entity) != nil {
			return
		}
	}
}

// serve claims, and has run work on each claim, as many at a time as there are slots. A slot is taken
// before the claim: a process leases only what it can begin at once, and leaves the rest to others.
//
// Each claim has a goroutine, but not a new one if a worker is idle. An idle worker waits on an
// unbuffered channel, so that a claim goes to a new goroutine only if no worker is there to receive it.
// There are never more workers than slots, but for code that was abandoned. When the loop ends the
// channel is closed, and the workers end with their work. It returns nil when ctx has ended.
func (e *Engine) serve(ctx context.Context, req store.ClaimRequest, slots *slots, run func(*job)) error {
	req.Lease, req.Owner, req.Tenants = e.cfg.LeaseDuration, e.owner, e.cfg.Tenants
	idle := make(chan *job) // to workers that have nothing to do
	defer close(idle)
	loop := claimloop.Loop{
		Store: slots.caps.On(e.store), Clock: e.clock, Request: req,
		Prepare: func(ctx context.Context, req *store.ClaimRequest) bool {
			req.Max = slots.take(ctx, maxClaims)
			return req.Max > 0
		},
		Claimed: func(most, n int) { slots.give(most - n) },
		Handle: func(_ context.Context, claims []store.Claim) error {
			if len(claims) > 0 {
				e.fuser.times.note(claims[0].Now, e.clock.Now())
			}
			slots.watch(claims)
			jobs := make([]job, len(claims))
			for i := range claims {
				if e.handOver(&claims[i]) {
					slots.give(1)
					continue
				}
				j := &jobs[i]
				j.Claim, j.slots = &claims[i], slots
				e.work.Add(1)
				select {
				case idle <- j:
				default:
					go e.worker(j, idle, run)
				}
			}
			return nil
		},
	}
	return loop.Run(ctx) // the outage of a store that has failed ends the engine
}

// worker works on a job, and then on those that it is given while it has nothing to
// do. Its stack has grown by then, which makes it cheaper than a new one.
func (e *Engine) worker(j *job, idle <-chan *job, run func(*job)) {
	for more := true; more; j, more = <-idle {
		e.runJob(j, run)
	}
}

// runJob runs one job. Its clean-up is deferred, because user code may end the goroutine
// (runtime.Goexit, as failing tests do).
func (e *Engine) runJob(j *job, run func(*job)) {
	defer e.work.Done()
	j.begin()
	defer j.end()
	if j.Attempt() > suspectAfter && j.Key.Queue != queueControl && j.Key.Queue != queueLimits {
		e.probe(j, run)
		return
	}
	run(j)
}
