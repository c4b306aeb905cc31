package teststore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// queue is what is known of a queue of the backend.
type queue struct {
	topic   waitlist.Topic[[]store.Claim] // that Claim calls wait for
	alarm   *waitlist.Alarm               // goes off at the first of times, while a call waits
	times   times                         // at which something in the queue may become ready
	changes int                           // how often something may have become ready

	// empty holds, for each kind of request, the value of changes at which an attempt found
	// nothing: as long as nothing changes, the backend is not asked again. An idle engine
	// asks every few minutes, and a test may be idle for a year.
	empty map[string]int
}

// queue returns the queue of that name.
func (b *bubble) queue(name string) *queue {
	q := b.queues[name]
	if q == nil {
		q = &queue{empty: map[string]int{}}
		q.alarm = waitlist.NewAlarm(b.clock, func() { b.onAlarm(q) })
		b.queues[name] = q
	}
	return q
}

// Claim leases keys that are ready, and waits here if there are none.
func (b *bubble) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	wait := req.Wait
	if wait > 0 {
		req.Routes, req.Tenants = slices.Clone(req.Routes), slices.Clone(req.Tenants)
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	req.Wait = 0
	for {
		b.mu.Lock()
		q := b.queue(req.Queue)
		before := q.changes
		if wait > 0 && !b.closed && b.isEmpty(q, &req) {
			return b.waitFor(ctx, q, req, wait)
		}
		b.mu.Unlock()
		claims, err := b.claim(req)
		b.mu.Lock()
		b.claimed(q, claims)
		switch {
		case len(claims) > 0 || err != nil || wait == 0:
			b.mu.Unlock()
			return claims, err
		case b.closed:
			b.mu.Unlock()
			return nil, store.Closed("claim")
		case q.changes != before:
			b.mu.Unlock() // a concurrent call made something ready that the claim could not find
		default:
			q.empty[asked(&req)] = q.changes
			return b.waitFor(ctx, q, req, wait)
		}
	}
}

// asked returns what decides whether a claim finds something.
func asked(req *store.ClaimRequest) string {
	return fmt.Sprintf("%d %q %q", req.MaxAttempts, req.Routes, req.Tenants)
}

// isEmpty reports whether nothing has happened since it was found that there is nothing.
// The lock is held.
func (b *bubble) isEmpty(q *queue, req *store.ClaimRequest) bool {
	now := b.nowMS()
	if !q.topic.Waited() && q.times.dropTo(now) { // with waiters, the alarm sees to it
		q.changes++
	}
	next, ok := q.times.first()
	found, looked := q.empty[asked(req)]
	return looked && found == q.changes && (!ok || next > now)
}

// waitFor waits until there is something to claim. The lock is held, and is released.
func (b *bubble) waitFor(ctx context.Context, q *queue, req store.ClaimRequest, wait time.Duration) ([]store.Claim, error) {
	req.Wait = wait
	w := b.waits.Join(req, func() []*waitlist.Topic[[]store.Claim] { return []*waitlist.Topic[[]store.Claim]{&q.topic} })
	b.setAlarm(q)
	b.mu.Unlock()
	return b.waits.Wait(ctx, w)
}

// serveWaiters serves the waiters whose turn it is. The lock is held.
func (b *bubble) serveWaiters() {
	if !b.closed {
		b.waits.Serve(b.attempt)
	}
}

// attempt claims on behalf of a waiter, unless nothing has changed since the backend had
// nothing for such a request. The lock is held.
func (b *bubble) attempt(w *waitlist.Waiter[[]store.Claim]) (o waitlist.Outcome, stop bool) {
	req := w.Request
	req.Wait = 0
	q := b.queue(req.Queue)
	if b.isEmpty(q, &req) {
		return o, false
	}
	w.Result, o.Err = b.claim(req)
	b.claimed(q, w.Result)
	o.Found = len(w.Result) > 0
	o.More = o.Found || o.Err != nil
	if !o.More {
		q.empty[asked(&req)] = q.changes
	}
	return o, false
}

// claim leases what the backend finds ready. Nobody gives it up half-way: it does not wait,
// and might have leased a key of which nobody knows.
func (b *bubble) claim(req store.ClaimRequest) ([]store.Claim, error) {
	return ask(context.Background(), b, func(ctx context.Context) ([]store.Claim, error) { return b.backend.Claim(ctx, req) })
}

// claimed notes what a claim has changed: the keys can be claimed again when the leases
// end, and messages may have gone to quarantine.
func (b *bubble) claimed(q *queue, claims []store.Claim) {
	for i := range claims {
		b.note(q, store.Millis(claims[i].Until))
	}
	b.setAlarm(q)
	b.wakeKind(store.KindQuarantine)
}

// committed notes what a commit may have changed, and serves those who wait for it.
func (b *bubble) committed(tx *store.Tx) {
	b.mu.Lock()
	defer b.mu.Unlock()
	touched := map[string]bool{}
	for _, f := range tx.Finish {
		touched[f.Lease.Key.Queue] = true
	}
	for i := range tx.Put {
		m := &tx.Put[i]
		touched[m.Key.Queue] = true
		q := b.queue(m.Key.Queue)
		b.note(q, store.Millis(m.VisibleAt))
		if m.Route == "" {
			ttl := m.TTL
			if ttl == 0 {
				ttl = store.DefaultTTL
			}
			b.note(q, b.after(ttl))
		}
	}
	for _, r := range tx.Retime {
		touched[r.Ref.Key.Queue] = true
		b.note(b.queue(r.Ref.Key.Queue), store.Millis(r.VisibleAt))
	}
	for _, ref := range tx.Delete { // what was delivered with it is free again
		touched[ref.Key.Queue] = true
	}
	for _, name := range slices.Sorted(maps.Keys(touched)) {
		b.serve(b.queue(name))
	}
	for i := range tx.PutRecords {
		b.wake(tx.PutRecords[i].Record.Key)
	}
	for _, d := range tx.DeleteRecords {
		b.wake(d.Key)
	}
}

// serve serves the waiters of a queue in which something may have become ready. The lock is
// held.
func (b *bubble) serve(q *queue) {
	q.changes++
	b.waits.Ready(&q.topic)
	b.serveWaiters()
	b.setAlarm(q)
}

// setAlarm sets the alarm of a queue for the next time at which something may become ready.
// The lock is held.
func (b *bubble) setAlarm(q *queue) {
	next, ok := q.times.first()
	if !ok || !q.topic.Waited() {
		q.alarm.Stop()
		return
	}
	at := store.FromMillis(next)
	q.alarm.Set(at, at.Sub(b.clock.Now()))
}

// onAlarm serves the waiters of a queue when its time has come.
func (b *bubble) onAlarm(q *queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	q.alarm.Rung()
	q.times.dropTo(b.nowMS())
	b.serve(q)
}

// endWaits ends all who wait, because the store is closed.
func (b *bubble) endWaits() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, q := range b.queues {
		q.alarm.Stop()
	}
	b.waits.Finish(store.Closed("claim"))
	for _, r := range b.awaits.All() {
		r.Tell(struct{}{})
	}
}

// note notes a time at which something in the queue may become ready. What is past for the
// backend is not noted: it is found by the look that follows the call.
func (b *bubble) note(q *queue, ms int64) {
	if ms > b.hidden.Now().UnixMilli() {
		q.times.add(ms)
	}
}

// nowMS returns the time in milliseconds, as a store counts them.
func (b *bubble) nowMS() int64 { return b.clock.Now().UnixMilli() }

// after returns the time, in milliseconds, at which d has passed for the backend. It is
// never earlier than the backend takes it to be, if that was asked before.
func (b *bubble) after(d time.Duration) int64 {
	return b.hidden.Now().UnixMilli() + int64((d+time.Millisecond-1)/time.Millisecond)
}
