package bus

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

// Handler handles an event. An event may be delivered more than once, so a handler is idempotent
// or ignores an [Envelope.ID] that it has seen. The envelope is shared with other handlers and
// owned by the publisher: a handler must not modify it, and must copy the payload to retain it.
type Handler func(ctx context.Context, e Envelope) error

// Local is a bus to subscribers in this process. An envelope is accepted when the handlers of
// all matching subscriptions have returned nil, also if there are none. If one of them fails, a
// retry calls all of them again.
//
// The zero value is ready to use.
type Local struct {
	mu            sync.RWMutex
	subscriptions []*subscription
}

type subscription struct {
	filter  Filter
	handler Handler
}

var _ EventBus = (*Local)(nil)

// Filter selects envelopes that match all fields that are set.
type Filter struct {
	Type     string
	TenantID string
}

func (f Filter) matches(e *Envelope) bool {
	return (f.Type == "" || f.Type == e.Type) && (f.TenantID == "" || f.TenantID == e.TenantID)
}

// Subscribe calls h for each envelope that matches f and is published from now on: sequentially
// within a Publish, concurrently for concurrent ones. Cancel ends the subscription; calls in
// progress are completed.
func (l *Local) Subscribe(f Filter, h Handler) (cancel func()) {
	s := &subscription{filter: f, handler: h}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscriptions = append(l.subscriptions, s)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		// A copy, because a Publish may be going through the old one.
		if i := slices.Index(l.subscriptions, s); i >= 0 {
			l.subscriptions = slices.Concat(l.subscriptions[:i], l.subscriptions[i+1:])
		}
	}
}

// Publish calls the handlers of matching subscriptions.
func (l *Local) Publish(ctx context.Context, envelopes []Envelope) error {
	l.mu.RLock()
	subscriptions := l.subscriptions
	l.mu.RUnlock()
	var outcomes []error
	for i := range envelopes {
		e := &envelopes[i]
		for _, s := range subscriptions {
			if !s.filter.matches(e) {
				continue
			}
			err := ctx.Err()
			if err == nil {
				err = s.handle(ctx, e)
			}
			if err == nil {
				continue
			}
			if outcomes == nil {
				outcomes = make([]error, len(envelopes))
			}
			outcomes[i] = worst(outcomes[i], err)
		}
	}
	return Join(outcomes)
}

// worst returns what becomes of an envelope that two subscribers failed at: as long as one
// of them wants it again, the other one's permanent error is not the end of it.
func worst(a, b error) error {
	switch {
	case a == nil:
		return b
	case errors.Is(a, ErrPermanent) && !errors.Is(b, ErrPermanent):
		return b
	case errors.Is(b, ErrPermanent) && !errors.Is(a, ErrPermanent):
		return a
	default:
		return errors.Join(a, b)
	}
}

// handle makes an error of a handler's panic: one subscriber must not take the others
// with it.
func (s *subscription) handle(ctx context.Context, e *Envelope) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("bus: a subscriber panicked at envelope %s: %v\n%s", e.ID, p, debug.Stack())
		}
	}()
	return s.handler(ctx, *e)
}
