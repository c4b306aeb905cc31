package engine

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// longPoll is how long a claim waits at most. A commit or a due time ends the wait.
const longPoll = 10 * time.Minute

// maxControls is how many instances are controlled at a time.
const maxControls = 16

// maxClaims bounds what is claimed at once, so that others get their share.
const maxClaims = 128

// serveTurns claims instances until the engine is closed.
func (e *Engine) serveTurns() {
	routes := append(slices.Clone(e.cfg.Routes), routeEnded)
	e.serve(store.ClaimRequest{Queue: queueTurns, Routes: routes}, e.cfg.MaxTurns, e.turn)
}

// serveControl claims what was asked about instances until the engine is closed. It runs
// no code of users that could take the process down, so it is tried without end.
func (e *Engine) serveControl() {
	req := store.ClaimRequest{Queue: queueControl, Routes: []string{routeControl}}
	e.serve(req, maxControls, e.control)
}

// serveActivities claims tasks until the engine is closed. The store does not count their
// deliveries: the engine fails an activity that crashed too often, so that its instance is
// told.
func (e *Engine) serveActivities() {
	routes := slices.Sorted(maps.Keys(e.cfg.Activities))
	req := store.ClaimRequest{Queue: QueueActivities, Routes: routes}
	e.serve(req, e.cfg.MaxActivities, e.activity)
}

// serve claims, and has run work on each claim, at most limit at a time.
func (e *Engine) serve(req store.ClaimRequest, limit int, run func(*store.Claim)) {
	req.Lease, req.Wait = e.cfg.Lease, longPoll
	slots := make(chan struct{}, limit) // one in it for each that is under way
	ready := make(chan *store.Claim)    // to those that have nothing to do
	defer close(ready)
	pause := base.Pause{Clock: e.clock, Least: minPause, Most: maxPause}
	for {
		select {
		case slots <- struct{}{}:
		case <-e.claiming.Done():
			return
		}
		req.Max = 1
		for req.Max < maxClaims && tryPut(slots) {
			req.Max++
		}
		claims, err := e.store.Claim(e.claiming, req)
		for range req.Max - len(claims) {
			<-slots
		}
		switch {
		case e.claiming.Err() != nil && err != nil, errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrFailed):
			return
		case err != nil:
			_ = pause.Sleep(e.claiming)
			continue
		}
		pause.Reset()
		for i := range claims {
			e.work.Add(1)
			select {
			case ready <- &claims[i]:
			default:
				go func() {
					e.worker(&claims[i], ready, slots, run)
				}()
			}
		}
	}
}

// worker works on a claim, and then on those that it is given while it has nothing to
// do. Its stack has grown by then, which makes it cheaper than a new one.
func (e *Engine) worker(c *store.Claim, ready <-chan *store.Claim, slots <-chan struct{}, run func(*store.Claim)) {
	for more := true; more; c, more = <-ready {
		e.workOn(c, slots, run)
	}
}

// workOn works on one claim. What must be done afterwards is deferred: code of users may
// end its goroutine, as tests do that fail.
func (e *Engine) workOn(c *store.Claim, slots <-chan struct{}, run func(*store.Claim)) {
	defer e.work.Done()
	defer func() { <-slots }()
	if n := e.underWay.of(c.Key.Queue); n != nil {
		n.Add(1)
		defer n.Add(-1)
	}
	if c.Attempt() > suspectAfter && c.Key.Queue != queueControl {
		e.probe(c, run)
		return
	}
	run(c)
}

func tryPut(slots chan<- struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
		return false
	}
}

const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)
