package engine

import (
	"context"
	"log/slog"

	"github.com/abidehq/abide/internal/admission"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// newLimiter returns the limiter of the starts and events of a client on a store.
func newLimiter(s store.Store, clock base.Clock, log *slog.Logger, refused func()) *admission.Limiter {
	return admission.New(admission.Config{
		Clock: clock, Logger: log, Refused: refused,
		Pressure: func() float64 { return store.Pressure(s) },
	})
}

// bulkCall is how many instances or events make a call a bulk one, which the age of messages does not
// limit.
const bulkCall = 16

// acquire admits a call that starts n instances or raises n events.
func (c *Client) acquire(ctx context.Context, n int) (admission.Permit, error) {
	if n >= bulkCall {
		return c.bulk.Acquire(ctx, n)
	}
	return c.limiter.Acquire(ctx, n)
}

// admit has the engine's client limited, and the queues of turns and activities watched.
func (e *Engine) admit() {
	e.limiter = newLimiter(e.store, e.clock, e.log, e.refused)
	e.bulk = newLimiter(e.store, e.clock, e.log, e.refused)
	e.turning.queue, e.acting.queue = admission.NewQueue(e.limiter), admission.NewQueue(e.limiter)
}

// watch notes how old the messages of claims are. Those that were delivered before do not count, as
// their attempts took the time, nor do those of ended instances, which are deleted when there is time.
func (s *slots) watch(claims []store.Claim) {
	if s.queue == nil || len(claims) == 0 {
		return
	}
	for i := range claims {
		if c := &claims[i]; c.Messages[0].Attempt == 1 && c.Route != routeEnded {
			s.queue.Claimed(c.Now, c.Messages[0].VisibleAt)
		}
	}
	s.queue.Judge()
}

// worked notes for how long a job has held its slot, and for how long of it the code of users has run.
// A turn with steps counts as such code.
func (j *job) worked() {
	q := j.slots.queue
	if q == nil {
		return
	}
	held := j.slots.clock.Now().Sub(j.begun)
	users := j.users
	if j.stepped.Load() {
		users = held
	}
	q.Worked(held, users)
}

// Admission returns how the starts and events of clients are limited at present.
func (e *Engine) Admission() admission.State { return e.limiter.State() }
