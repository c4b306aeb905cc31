package rows

// How idle calls are served. A queue has at most one task and one timer:
//
//	bound lowered ─▶ touch ─┬─ due now ───▶ serve ─▶ task: serveAll
//	                        └─ due later ─▶ setTimer ─▶ (fires) ─▶ serve
//
// The task takes the first due call in the order of arrival, queries for it, and continues until
// nothing is due for any idle call; then it sets the timer. A call that begins when something is
// due does not wait for the task: it queries by itself (claimer.begin).

// maxTimer is the longest timer, in milliseconds, after which the clock is read again: the
// timer of a machine that was suspended, or whose clock is set, fires late.
const maxTimer = 60_000

// setTimer has the queue served at a time of the database's clock, if a call is idle. The time
// is read again after the timer is set: if it has advanced in between, the timer would be
// late by as much.
func (c *claimer) setTimer(q *queue, at int64) {
	q.stop()
	q.timerAt = Never
	if at == Never || q.idle == 0 {
		return
	}
	q.timerAt = at
	fire := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		q.timerAt = Never
		c.serve(q)
	}
	for range 3 {
		now := c.time.now()
		q.stop = c.clock.AfterFunc(milliseconds(min(max(at-now, 0), maxTimer)), fire)
		if c.time.now() == now {
			return
		}
		q.stop()
	}
	q.stop = c.clock.AfterFunc(0, fire)
}

// nextDue returns the least bound of the subscriptions with idle calls.
func (c *claimer) nextDue(q *queue) int64 {
	next := int64(Never)
	for _, s := range q.subscriptions {
		if len(s.waiters) > 0 {
			next = min(next, c.soonest(s))
		}
	}
	return next
}

// dueWaiter returns the first of the idle calls for which something may be due, or nil.
func (c *claimer) dueWaiter(q *queue) (first *waiter) {
	now := c.time.now()
	for _, s := range q.subscriptions {
		if len(s.waiters) > 0 && c.soonest(s) <= now && (first == nil || s.waiters[0].number < first.number) {
			first = s.waiters[0]
		}
	}
	return first
}

// serve starts a task that queries for the idle calls of a queue if something may be due, and
// otherwise sets the timer for the next due time.
func (c *claimer) serve(q *queue) {
	if q.serving || c.closed || q.idle == 0 {
		return
	}
	if c.dueWaiter(q) == nil {
		c.setTimer(q, c.nextDue(q))
		return
	}
	q.serving = c.life.spawn(func() { c.serveAll(q) })
}

// serveAll queries for one idle call after another until nothing is due. One task per queue is
// enough, and keeps calls from leasing past one another.
func (c *claimer) serveAll(q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed {
		w := c.dueWaiter(q)
		if w == nil {
			break
		}
		w.leave()
		w.setServed(true)
		c.mu.Unlock()
		c.queryFor(w)
		c.mu.Lock()
	}
	q.serving = false
	c.serve(q) // for the timer
}
