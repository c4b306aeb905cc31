package engine

import (
	"context"
	"sync"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// turns are those that are running in this process, by instance. A key has one live lease, so it has one
// turn that matters; a turn whose lease was lost may overlap with its successor here, and remove leaves the
// successor's entry alone.
type turns struct {
	mu    sync.Mutex
	byKey map[store.Key]*turn
}

// add replaces a turn of the same instance, whose lease was lost.
func (u *turns) add(t *turn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byKey == nil {
		u.byKey = map[store.Key]*turn{}
	}
	u.byKey[t.claim.Key] = t
}

func (u *turns) remove(t *turn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.byKey[t.claim.Key] == t {
		delete(u.byKey, t.claim.Key)
	}
}

// of returns the turn of an instance, or nil.
func (u *turns) of(key store.Key) *turn {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.byKey[key]
}

// stepContext is the context of the steps of a turn. It ends when a request to cancel the instance is
// pending: the code gets the request with a later turn, which must wait for this one, and its step should
// not keep it waiting. A request that is committed by this process ends the context at once
// (control.commit). One that another process has committed is found by a look at the pending messages,
// once a second, while a step runs; there is no other way, as nobody tells the holder of a claim what
// arrives for it. Turns without steps pay nothing: the context is made by the first step.
//
// mu guards all fields. It is not held while the store is called.
type stepContext struct {
	mu  sync.Mutex
	run uint64 // of the execution, to tell its requests from those of an earlier one

	ctx  context.Context //nolint:containedctx // of the steps of one turn
	stop context.CancelCauseFunc

	asked bool // a request to cancel is pending
	ended bool // the turn is over

	// next stops the timer of the next look at the pending messages.
	next func() bool
}

// stepsContext returns the context of steps, and has requests looked for from now on.
func (t *turn) stepsContext() context.Context {
	s := &t.steps
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		t.job.stepped.Store(true)
		s.run = t.in.info.run
		s.ctx, s.stop = context.WithCancelCause(t.ctx)
		if s.asked {
			s.stop(ErrCancelRequested)
		}
		s.next = t.e.clock.AfterFunc(maxTick, t.lookForCancel)
	}
	return s.ctx
}

// cancel ends the context of steps.
func (s *stepContext) cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = true
	if s.stop != nil {
		s.stop(ErrCancelRequested)
	}
}

func (s *stepContext) cancelled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// end stops the looks.
func (s *stepContext) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.next != nil {
		s.next()
		s.stop(nil)
	}
}

// lookForCancel looks for a request among the messages that wait for the instance.
func (t *turn) lookForCancel() {
	s := &t.steps
	s.mu.Lock()
	ctx, run := s.ctx, s.run
	s.mu.Unlock()
	pending, err := t.e.store.Pending(ctx, t.claim.Key, store.DefaultMessages)
	if err != nil && ctx.Err() == nil {
		t.e.log.Warn("pending messages not read", aboutClaim(t.claim), "error", err)
	}
	for i := range pending {
		b, err := decodeBody(pending[i].Body)
		if err == nil && (b.run == 0 || b.run == run) && len(b.events) > 0 && isCancelRequest(b.events[0]) {
			s.cancel()
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.next = t.e.clock.AfterFunc(maxTick, t.lookForCancel)
	}
}

func isCancelRequest(e history.Event) bool { return e.Kind == history.CancelRequested }
