package bus

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

// Handler is told of an event. It may be told more than once, so it does nothing the
// second time that it sees an [Envelope.ID], or something that can be done twice.
// The envelope is shared with other handlers and belongs to who published it: it is
// not to be changed, and a handler that keeps the payload keeps a copy.
type Handler func(ctx context.Context, e Envelope) error

// Local is a bus to subscribers in this process. An envelope is accepted when every
// subscriber whose subscription matches has returned nil; if one of them fails, all
// of them are told again later. With no subscriber that matches it is accepted too.
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

// Filter says which envelopes a subscription is about: those that match all that is
// set.
type Filter struct {
	Type     string
	TenantID string
}

func (f Filter) matches(e *Envelope) bool {
	return (f.Type == "" || f.Type == e.Type) && (f.TenantID == "" || f.TenantID == e.TenantID)
}

// Subscribe has h told of all envelopes that match f from now on, one after another in
// each Publish, and perhaps of several at a time. Cancel ends that; calls that are
// under way still come to their end.
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

// Publish tells the subscribers.
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
