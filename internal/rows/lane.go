package rows

import (
	"slices"

	"github.com/abidehq/abide/store"
)

// queue is the Claim calls of a queue, and what is known of what they wait for.
type queue struct {
	name     string
	waiters  []*waiter // in the order in which they came, without those that are being served
	waiting  int       // all of them
	turn     int64     // the tenant whose turn it was last
	expiring *lane

	serving   bool
	sweeping  chan struct{} // closed when the sweep that is under way has ended
	stopAlarm func() bool
	alarmAt   int64
}

// lane is what is known of the keys of a queue and a route.
type lane struct {
	queue *queue

	// next is a time before which there is nothing to claim in the lane, as far as is
	// known; 0 if nothing is known.
	next int64
}

// waiter is a Claim call that waits.
type waiter struct {
	req   store.ClaimRequest
	queue *queue
	lanes []int64
	set   map[int64]bool

	ended  bool
	done   chan struct{} // closed when the wait is over; claims and err are set before
	claims []store.Claim
	err    error

	busy   bool          // somebody looks for something for it; it is not in its queue then
	over   bool          // its time is over: it ends when nobody is busy with it
	gone   bool          // nobody waits any more
	handed []store.Claim // by a group that is not durable yet
}

func (w *waiter) end(claims []store.Claim, err error) {
	if !w.ended {
		w.ended = true
		w.claims, w.err = claims, err
		close(w.done)
	}
}

func (f *Frame) queue(name string) *queue {
	q := f.queues[name]
	if q == nil {
		q = &queue{name: name, stopAlarm: func() bool { return false }, alarmAt: Never}
		q.expiring = &lane{queue: q}
		f.lanes[LaneOf(name, "")] = q.expiring
		f.queues[name] = q
	}
	return q
}

func (f *Frame) lane(q *queue, id int64) *lane {
	l := f.lanes[id]
	if l == nil {
		l = &lane{queue: q}
		f.lanes[id] = l
	}
	return l
}

// due reports whether there may be something to claim in one of the lanes, or to sweep in
// the queue.
func (f *Frame) due(q *queue, lanes []int64) bool {
	now := f.now()
	if q.expiring.next <= now {
		return true
	}
	for _, id := range lanes {
		if f.lane(q, id).next <= now {
			return true
		}
	}
	return false
}

// touch notes that there is something to claim in lanes, and has those served who wait
// for it.
func (f *Frame) touch(lanes map[int64]int64) {
	for p := range f.picks {
		p.touch(lanes)
	}
	now := f.now()
	for id, at := range lanes {
		l := f.lanes[id]
		if l == nil {
			continue // nobody has asked for it, and who does looks
		}
		l.next = min(l.next, at)
		if at <= now {
			f.serve(l.queue)
		} else if at < l.queue.alarmAt {
			f.setAlarm(l.queue, at)
		}
	}
}

// setAlarm has the queue served at a time, if somebody waits.
func (f *Frame) setAlarm(q *queue, at int64) {
	q.stopAlarm()
	q.alarmAt = Never
	if at == Never || len(q.waiters) == 0 {
		return
	}
	q.alarmAt = at
	wait := milliseconds(min(max(at-f.now(), 0), maxAlarm))
	q.stopAlarm = f.clock.AfterFunc(wait, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		q.alarmAt = Never
		f.serve(q)
	})
}

// maxAlarm is the longest time, in milliseconds, after which the clock is looked at again:
// the timer of a machine that sleeps, or whose clock is set, goes off late.
const maxAlarm = 60_000

// nextDue returns when there may be something for those who wait in a queue.
func (f *Frame) nextDue(q *queue) int64 {
	next := q.expiring.next
	for _, w := range q.waiters {
		for _, id := range w.lanes {
			next = min(next, f.lane(q, id).next)
		}
	}
	return next
}

// serve has somebody look for those who wait in the queue, if there may be something.
func (f *Frame) serve(q *queue) {
	if q.serving || f.closed || len(q.waiters) == 0 {
		return
	}
	if f.dueWaiter(q) == nil {
		f.setAlarm(q, f.nextDue(q))
		return
	}
	q.serving = true
	f.tasks.Add(1)
	go func() {
		defer f.tasks.Done()
		f.serveAll(q)
	}()
}

// dueWaiter returns the first of those who wait for whom there may be something.
func (f *Frame) dueWaiter(q *queue) *waiter {
	for _, w := range q.waiters {
		if f.due(q, w.lanes) {
			return w
		}
	}
	return nil
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
		i := slices.Index(q.waiters, w)
		w.leave()
		w.busy = true
		f.mu.Unlock()
		f.lookFor(w, i)
		f.mu.Lock()
	}
	q.serving = false
	if !f.closed {
		f.setAlarm(q, f.nextDue(q))
	}
}

// letGo releases a lease of which nobody knows. The attempt was not one.
func (f *Frame) letGo(l store.Lease) {
	c := &call{operation: operation{release: &store.Release{Lease: l, Uncounted: true}}, ctx: f.ctx, done: make(chan struct{})}
	if !f.closed {
		f.gathered = append(f.gathered, c)
		f.room.Signal()
	}
}
