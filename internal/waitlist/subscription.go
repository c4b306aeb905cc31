package waitlist

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

// Subscription is the waiters of one queue with the same routes and the same tenants.
type Subscription[R any] struct {
	// DueAt is a time at which an attempt may find something, for stores that learn due
	// times from attempts; zero if none is known. The list does not use it.
	DueAt time.Time

	name    string
	queue   string
	routes  []string
	tenants []string // nil for all
	topics  []*Topic[R]
	idle    chain[R]
	busy    chain[R] // also abandoned waiters, until their attempt ends
	expired int      // waiters, idle or busy, whose wait is over

	// want is how many attempts are to begin as soon as there are idle waiters. The
	// subscription is marked if it is in the list's marked subscriptions: it is if want > 0.
	want   int
	marked bool
	woken  uint64 // the event number of the latest Wake
}

// Topic is a source of ready keys. The store owns it; the zero value is a topic for which
// nobody waits.
type Topic[R any] struct{ subs []*Subscription[R] }

// subscription returns the subscription of a request, attached to its topics.
func (l *List[R]) subscription(req *store.ClaimRequest, topics func() []*Topic[R]) *Subscription[R] {
	l.name = binary.AppendUvarint(l.name[:0], uint64(len(req.Queue)))
	l.name = append(l.name, req.Queue...)
	for _, route := range req.Routes {
		l.name = binary.AppendUvarint(l.name, uint64(len(route)))
		l.name = append(l.name, route...)
	}
	if req.Tenants != nil {
		l.name = append(l.name, 0) // no route is empty, so that what follows is no route
		for _, tenant := range req.Tenants {
			l.name = binary.AppendUvarint(l.name, uint64(len(tenant)))
			l.name = append(l.name, tenant...)
		}
	}
	if s := l.subs[string(l.name)]; s != nil {
		return s
	}
	s := &Subscription[R]{name: string(l.name), queue: req.Queue, routes: req.Routes, tenants: req.Tenants, topics: topics()}
	l.subs[s.name] = s
	for _, t := range s.topics {
		t.subs = append(t.subs, s)
	}
	return s
}

// drop removes a subscription without waiters.
func (l *List[R]) drop(s *Subscription[R]) {
	if s == nil || s.idle.first != nil || s.busy.first != nil || l.subs[s.name] != s {
		return
	}
	delete(l.subs, s.name)
	s.want = 0
	for _, t := range s.topics {
		t.subs = slices.DeleteFunc(t.subs, func(x *Subscription[R]) bool { return x == s })
	}
	if l.Detached != nil {
		for _, route := range s.routes {
			l.Detached(s.queue, route)
		}
	}
}

// Subscription returns the subscription of a waiter, or nil if it does not wait.
func (w *Waiter[R]) Subscription() *Subscription[R] { return w.sub }

// Takes reports whether the waiters may get keys of a tenant.
func (s *Subscription[R]) Takes(tenant string) bool {
	return s.tenants == nil || slices.Contains(s.tenants, tenant)
}

// Busy reports whether an attempt is under way or wanted.
func (s *Subscription[R]) Busy() bool { return s.want > 0 || s.busy.first != nil }

// Expired reports whether there are waiters whose wait is over: an attempt that begins now, and
// finds nothing, ends them.
func (s *Subscription[R]) Expired() bool { return s.expired > 0 }

// Waited reports whether a subscription is attached to the topic.
func (t *Topic[R]) Waited() bool { return len(t.subs) > 0 }

// Subscriptions returns the subscriptions of a topic, for reading.
func (t *Topic[R]) Subscriptions() []*Subscription[R] { return t.subs }

// chain is a linked list of waiters in the order of arrival, so that a waiter leaves in
// constant time however many others there are.
type chain[R any] struct{ first, last *Waiter[R] }

// insert adds a waiter. Most have come last, or were the first and come back.
func (c *chain[R]) insert(w *Waiter[R]) {
	after := c.last
	if c.first != nil && w.number < c.first.number {
		after = nil
	}
	for after != nil && after.number > w.number {
		after = after.prev
	}
	w.prev = after
	if after == nil {
		w.next, c.first = c.first, w
	} else {
		w.next, after.next = after.next, w
	}
	if w.next == nil {
		c.last = w
	} else {
		w.next.prev = w
	}
}

func (c *chain[R]) remove(w *Waiter[R]) {
	if w.prev == nil {
		c.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		c.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}
