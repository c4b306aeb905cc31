package waitlist

import (
	"context"
	"sync"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Waiter is one Claim call. R is what an attempt brings: the claims, and whatever else the
// store needs to hand them over.
type Waiter[R any] struct {
	// Request is that of the call. The list reads its Queue, Routes, Tenants and Wait.
	Request store.ClaimRequest

	// Result is returned by Wait. The store sets it while the waiter is busy, before Done.
	Result R

	list       *List[R]
	sub        *Subscription[R] // nil if the call does not wait
	number     uint64           // in the order of arrival
	prev, next *Waiter[R]       // in the idle or the busy chain of the subscription

	busy     bool
	waits    bool // an attempt has found nothing
	finished bool
	began    uint64 // the event number at which the latest attempt began
	expired  uint64 // the event number at which the wait was over; 0 before

	stop func() bool   // of the timer of the wait
	done chan struct{} // closed when the waiter is finished
	err  error
}

// List is the Claim calls of a store that wait.
type List[R any] struct {
	// Detached, if not nil, is called with the mutex held for each route of a subscription
	// that has lost its last waiter.
	Detached func(queue, route string)

	mu     sync.Locker
	clock  base.Clock
	serve  func()
	subs   map[string]*Subscription[R]
	marked []*Subscription[R]
	events uint64 // numbers arrivals, attempts, expiries and Wake
	waits  int
	name   []byte // scratch
}

// New returns an empty list, guarded by mu. Waits are measured by clock. The list calls
// serve, with mu held, when a wait is over and an attempt must decide what it ends with:
// serve must run or start an attempt for each waiter that Next returns.
func New[R any](mu sync.Locker, clock base.Clock, serve func()) *List[R] {
	return &List[R]{mu: mu, clock: clock, serve: serve, subs: map[string]*Subscription[R]{}}
}

// Waiting returns the number of calls that wait, after at least one attempt that found
// nothing.
func (l *List[R]) Waiting() int { return l.waits }

// Join adds a call that an attempt has found nothing for, as an idle waiter, and starts the
// timer of its wait. Topics returns the topics of its routes; it is called for the first
// waiter of a subscription only. The list keeps req.Routes and req.Tenants, which must not change.
func (l *List[R]) Join(req store.ClaimRequest, topics func() []*Topic[R]) *Waiter[R] {
	w := l.add(req, topics)
	l.park(w)
	return w
}

// Begin adds a call as a busy waiter: the caller starts the first attempt on its behalf. A
// call whose Wait is zero belongs to no subscription, and is finished by its first Done.
func (l *List[R]) Begin(req store.ClaimRequest, topics func() []*Topic[R]) *Waiter[R] {
	w := l.add(req, topics)
	l.begin(w)
	return w
}

func (l *List[R]) add(req store.ClaimRequest, topics func() []*Topic[R]) *Waiter[R] {
	l.events++
	w := &Waiter[R]{Request: req, list: l, number: l.events, done: make(chan struct{})}
	if req.Wait > 0 {
		w.sub = l.subscription(&req, topics)
		w.stop = l.clock.AfterFunc(req.Wait, func() { l.expire(w) })
	}
	return w
}

// Subscriptions calls f for each subscription, until it returns false.
func (l *List[R]) Subscriptions(f func(*Subscription[R]) bool) {
	for _, s := range l.subs {
		if !f(s) {
			return
		}
	}
}

// Wake marks a subscription: an attempt may find something.
func (l *List[R]) Wake(s *Subscription[R]) {
	l.events++
	s.woken = l.events
	l.mark(s, 1)
}

// Ready marks all subscriptions of a topic: keys of it may be ready.
func (l *List[R]) Ready(t *Topic[R]) {
	for _, s := range t.subs {
		l.Wake(s)
	}
}

// mark wants up to n attempts on behalf of a subscription.
func (l *List[R]) mark(s *Subscription[R], n int) {
	s.want = max(s.want, n)
	if !s.marked {
		s.marked = true
		l.marked = append(l.marked, s)
	}
}

// Next returns the waiter on whose behalf an attempt is to be made, now busy, or nil. Of all
// marked subscriptions it is the idle waiter that came first.
func (l *List[R]) Next() *Waiter[R] {
	var s *Subscription[R]
	for i := 0; i < len(l.marked); {
		m := l.marked[i]
		if m.want == 0 {
			m.marked = false
			last := len(l.marked) - 1
			l.marked[i], l.marked[last] = l.marked[last], nil
			l.marked = l.marked[:last]
			continue
		}
		if m.idle.first != nil && (s == nil || m.idle.first.number < s.idle.first.number) {
			s = m
		}
		i++
	}
	if s == nil {
		return nil
	}
	s.want--
	w := s.idle.first
	s.idle.remove(w)
	l.begin(w)
	return w
}

// Reserve returns an idle waiter of a subscription, now busy, for an attempt that the store
// makes on its own account; nil if there is none. One whose wait is over is not returned: it
// is to have a whole attempt.
func (l *List[R]) Reserve(s *Subscription[R]) *Waiter[R] {
	for w := s.idle.first; w != nil; w = w.next {
		if w.expired == 0 {
			s.idle.remove(w)
			l.begin(w)
			return w
		}
	}
	return nil
}

// begin makes a waiter busy that is in no chain.
func (l *List[R]) begin(w *Waiter[R]) {
	l.events++
	w.busy, w.began = true, l.events
	if w.sub != nil {
		w.sub.busy.insert(w)
	}
}

// Outcome is what an attempt came to.
type Outcome struct {
	Found bool  // the waiter's Result has something for its caller
	More  bool  // another attempt may find something
	Err   error // the call ends with it
}

// Done ends an attempt. It reports whether the waiter still has a caller: if not, the store
// must give back what was found.
func (l *List[R]) Done(w *Waiter[R], o Outcome) (wanted bool) {
	s := w.sub
	wanted = l.rest(w)
	switch {
	case !wanted:
	case o.Found || o.Err != nil || s == nil:
		l.finish(w, o.Err)
	default:
		l.park(w)
		if s.woken < w.began {
			s.want = 0 // what was wanted has been done, in vain
		}
		l.endExpired(s, w.began)
	}
	if s == nil {
		return wanted
	}
	if o.More {
		l.mark(s, 2)
	}
	l.settle(s)
	return wanted
}

// Cancel ends an attempt that was not made, or not as a whole.
func (l *List[R]) Cancel(w *Waiter[R]) {
	if l.rest(w) {
		l.park(w)
	}
	l.settle(w.sub)
}

// rest ends the busy state, and reports whether the waiter has a caller.
func (l *List[R]) rest(w *Waiter[R]) bool {
	if !w.busy {
		panic("waitlist: an attempt has ended that had not begun")
	}
	w.busy = false
	if w.sub != nil {
		w.sub.busy.remove(w)
	}
	return !w.finished
}

// settle wants an attempt if there are waits that are over and nobody is busy with them, and
// drops the subscription if nobody is left.
func (l *List[R]) settle(s *Subscription[R]) {
	if s.expired > 0 && s.busy.first == nil {
		l.mark(s, 1)
	}
	l.drop(s)
}

// endExpired ends the waits that were over when an attempt began that found nothing.
func (l *List[R]) endExpired(s *Subscription[R], began uint64) {
	if s.expired == 0 {
		return
	}
	for w := s.idle.first; w != nil; {
		next := w.next
		if w.expired > 0 && w.expired < began {
			s.idle.remove(w)
			l.finish(w, nil)
		}
		w = next
	}
}

// park makes a waiter idle, at its place in the order of arrival.
func (l *List[R]) park(w *Waiter[R]) {
	if !w.waits {
		w.waits = true
		l.waits++
	}
	w.sub.idle.insert(w)
}

// finish ends a call. The waiter is not idle any more.
func (l *List[R]) finish(w *Waiter[R], err error) {
	w.finished, w.err = true, err
	if w.waits {
		l.waits--
	}
	if w.expired > 0 {
		w.sub.expired--
	}
	close(w.done)
}

// expire ends a wait whose time is over, after one more attempt.
func (l *List[R]) expire(w *Waiter[R]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.finished {
		return
	}
	l.events++
	w.expired = l.events
	w.sub.expired++
	l.mark(w.sub, 1)
	l.serve()
}

// Wait blocks until the waiter is finished or ctx has ended, and returns the result. If ctx
// ends during an attempt, Done reports that the waiter is not wanted any more. The mutex
// must not be held.
func (l *List[R]) Wait(ctx context.Context, w *Waiter[R]) (R, error) {
	if w.stop != nil {
		defer w.stop()
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		l.abandon(w, ctx.Err())
	}
	if w.err != nil {
		var none R
		return none, w.err
	}
	return w.Result, nil
}

// abandon finishes a waiter whose context has ended, unless it is finished.
func (l *List[R]) abandon(w *Waiter[R], err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !w.finished {
		l.end(w, err)
	}
}

func (l *List[R]) end(w *Waiter[R], err error) {
	if !w.busy {
		w.sub.idle.remove(w)
	}
	l.finish(w, err)
	l.drop(w.sub)
}

// Finish ends all calls of subscriptions with err: the store is closed, or has failed.
// Attempts that are under way end with a Done that reports that nobody wants their result.
func (l *List[R]) Finish(err error) {
	for _, s := range l.subs {
		for w := s.busy.first; w != nil; w = w.next {
			if !w.finished {
				l.finish(w, err)
			}
		}
		for s.idle.first != nil {
			l.end(s.idle.first, err)
		}
	}
}

// Serve makes attempts, one after another, until nobody who is marked can be served. It is
// for stores whose attempts run under the mutex. It ends early when an attempt returns stop.
func (l *List[R]) Serve(attempt func(*Waiter[R]) (o Outcome, stop bool)) {
	for w := l.Next(); w != nil; w = l.Next() {
		o, stop := attempt(w)
		l.Done(w, o)
		if stop {
			return
		}
	}
}
