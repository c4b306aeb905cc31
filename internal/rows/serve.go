package rows

import (
	"cmp"
	"slices"

	"github.com/abidehq/abide/store"
)

// waiter is a Claim call.
type waiter struct {
	req    store.ClaimRequest // without its routes
	view   *view
	number uint64      // in the order in which they came
	since  uint64      // the looks that had begun before it came
	stop   func() bool // the end of its wait

	ended  bool
	done   chan struct{} // closed when the call is over; claims and err are set before
	claims []store.Claim
	err    error

	busy    bool          // somebody looks for something for it; it is not in its view then
	expired bool          // its time is over: it ends when nobody is busy with it
	handing int           // how many keys a group is about to hand to it
	handed  []store.Claim // by a group that is not durable yet
}

func (w *waiter) end(claims []store.Claim, err error) {
	if !w.ended {
		w.ended = true
		w.claims, w.err = claims, err
		close(w.done)
	}
}

// setBusy notes whether somebody is busy with the waiter. One that does not wait does not
// count: whoever made the call may never make another one.
func (w *waiter) setBusy(busy bool) {
	switch {
	case w.req.Wait == 0:
	case busy && !w.busy:
		w.view.busy++
		w.view.queue.busy++
	case !busy && w.busy:
		w.view.busy--
		w.view.queue.busy--
	}
	w.busy = busy
}

func compareWaiters(a, b *waiter) int { return cmp.Compare(a.number, b.number) }

// enter adds a waiter to those whom nobody serves, in the order in which they came.
func (w *waiter) enter() {
	v := w.view
	i, _ := slices.BinarySearchFunc(v.waiters, w, compareWaiters)
	v.waiters = slices.Insert(v.waiters, i, w)
	v.queue.idle++
}

// leave takes a waiter away from them, if it is one.
func (w *waiter) leave() {
	v := w.view
	if i, ok := slices.BinarySearchFunc(v.waiters, w, compareWaiters); ok {
		v.waiters = slices.Delete(v.waiters, i, i+1)
		v.queue.idle--
	}
}

// setAlarm has the queue served at a time, if somebody waits.
func (f *Frame) setAlarm(q *queue, at int64) {
	q.stopAlarm()
	q.alarmAt = Never
	if at == Never || q.idle == 0 {
		return
	}
	q.alarmAt = at
	alarm := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		q.alarmAt = Never
		f.serve(q)
	}
	for range 3 {
		now := f.now()
		q.stopAlarm = f.clock.AfterFunc(milliseconds(min(max(at-now, 0), maxAlarm)), alarm)
		if f.now() == now {
			return
		}
		q.stopAlarm() // the clock went on in between, and the alarm would be late
	}
	q.stopAlarm = f.clock.AfterFunc(0, alarm)
}

// maxAlarm is the longest time, in milliseconds, after which the clock is looked at again:
// the timer of a machine that sleeps, or whose clock is set, goes off late.
const maxAlarm = 60_000

// nextDue returns when there may be something for those who wait in a queue.
func (f *Frame) nextDue(q *queue) int64 {
	next := int64(Never)
	for _, v := range q.views {
		if len(v.waiters) > 0 {
			next = min(next, f.soonest(v))
		}
	}
	return next
}

// dueWaiter returns the first of those who wait for whom there may be something.
func (f *Frame) dueWaiter(q *queue) (first *waiter) {
	now := f.now()
	for _, v := range q.views {
		if len(v.waiters) > 0 && f.soonest(v) <= now && (first == nil || v.waiters[0].number < first.number) {
			first = v.waiters[0]
		}
	}
	return first
}

// serve has somebody look for those who wait in the queue, if there may be something, and
// sets the alarm for the next time that there may be otherwise.
func (f *Frame) serve(q *queue) {
	if q.serving || f.closed || q.idle == 0 {
		return
	}
	if f.dueWaiter(q) == nil {
		f.setAlarm(q, f.nextDue(q))
		return
	}
	q.serving = true
	f.tasks.Go(func() { f.serveAll(q) })
}

// serveAll looks for those who wait until nothing is due.
func (f *Frame) serveAll(q *queue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.closed {
		w := f.dueWaiter(q)
		if w == nil {
			break
		}
		w.leave()
		w.setBusy(true)
		f.mu.Unlock()
		f.lookFor(w)
		f.mu.Lock()
	}
	q.serving = false
	f.serve(q) // for the alarm
}

// settleWait gives a waiter what there is for it, or lets it wait on.
func (f *Frame) settleWait(w *waiter, claims []store.Claim, err error) {
	w.setBusy(false)
	w.handing, w.handed = 0, nil
	switch {
	case w.ended || f.closed:
		for i := range claims {
			f.letGo(claims[i].Lease())
		}
		w.end(nil, store.Closed("claim"))
	case len(claims) > 0 || err != nil || w.expired:
		w.end(claims, err)
	case f.takeStock(w):
	default:
		w.enter()
		f.serve(w.view.queue)
	}
}

// letGo releases a lease of which nobody knows. The attempt was not one. Nobody waits for
// it, and a store that is being closed still does it.
func (f *Frame) letGo(l store.Lease) {
	c := newCall(f.ctx, operation{release: &store.Release{Lease: l, Uncounted: true}}, opSize)
	if q := f.queues[l.Key.Queue]; q != nil {
		if q.letting == 0 {
			q.let = make(chan struct{})
		}
		q.letting++
		q.lettings++
		c.then = func() { f.hasLet(q) }
	}
	f.add(c)
}

func (f *Frame) hasLet(q *queue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if q.letting--; q.letting == 0 {
		close(q.let)
		q.let = nil
	}
}
