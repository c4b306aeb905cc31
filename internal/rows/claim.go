package rows

import (
	"context"
	"slices"

	"github.com/abidehq/abide/store"
)

// Claim leases keys that are ready.
//
// Whoever looks into the database does so for the call and not in it: a call that ends
// leaves at once, and what is leased for it after that is let go.
func (f *Frame) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if err := f.Check(ctx, "claim"); err != nil {
		return nil, err
	}
	partitions := make([]int64, 0, len(req.Routes))
	for _, route := range req.Routes {
		partitions = append(partitions, PartitionOf(req.Queue, route))
	}
	slices.Sort(partitions)
	partitions = slices.Compact(partitions)
	req.Routes = nil
	w := &waiter{req: req, done: make(chan struct{})}
	if !f.begin(w, viewID(partitions), partitions) {
		return nil, store.Closed("claim")
	}
	defer f.finish(w)
	select {
	case <-w.done:
	case <-ctx.Done():
		f.giveUp(w, ctx.Err())
		<-w.done
	}
	return w.claims, w.err
}

// begin has somebody look for a call, or lets it wait if it is known that there is
// nothing. It reports false if the store is closed.
func (f *Frame) begin(w *waiter, id ID, partitions []int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.waiters++
	w.view, w.number, w.since = f.view(w.req.Queue, id, partitions), f.waiters, f.looks
	w.view.users++
	w.view.terms = w.req
	if w.req.Wait == 0 {
		w.expired = true
	} else {
		w.stop = f.clock.AfterFunc(w.req.Wait, func() { f.giveUp(w, nil) })
		w.view.queue.waiting++
		f.poll()
	}
	if f.fromStock(w) {
		return true
	}
	if w.expired && w.req.Lax && f.knows(w.view) {
		w.end(nil, nil)
		return true
	}
	if w.expired || f.due(w.view) {
		f.look(w)
		return true
	}
	w.enter()
	f.serve(w.view.queue)
	return true
}

// knows reports whether it is known that there is nothing, for a call that is made again and
// again: as long as it is, the partitions are looked at as if it waited.
func (f *Frame) knows(v *view) bool {
	v.asked = f.clock.Now()
	f.poll()
	return !f.due(v) && f.db.Hinted()
}

// asks reports whether calls for the view are made again and again.
func (f *Frame) asks(v *view) bool { return !v.asked.IsZero() && f.clock.Now().Sub(v.asked) < f.o.Poll }

func (f *Frame) finish(w *waiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.view.users--
	if w.req.Wait > 0 {
		w.stop()
		w.view.queue.waiting--
	}
}

// giveUp ends a call. If somebody looks for something for it at this moment, a wait that
// has only come to its end still gets it; and it does not end before somebody has looked
// since it began, or all that another process has put before that might be missed.
func (f *Frame) giveUp(w *waiter, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case w.ended:
	case err != nil:
		w.leave()
		w.end(nil, err)
	case w.busy:
		w.expired = true // whoever is busy with it ends it
	case f.due(w.view) || w.view.looked <= w.since || !f.db.Hinted():
		w.leave()
		w.expired = true
		f.look(w)
	default:
		w.leave()
		w.end(nil, nil)
	}
}

// look has somebody look for a waiter that is not in its view.
func (f *Frame) look(w *waiter) {
	w.setBusy(true)
	f.tasks.Go(func() { f.lookFor(w) })
}

// again reports whether to look again for a call for which nothing was found: for one that
// waits if there is something that came meanwhile, which is older than what is in stock; and
// for one that is about to end if something was released. Otherwise it gets what is in stock.
func (f *Frame) again(w *waiter, lettings uint64) bool {
	if w.req.Wait > 0 && f.due(w.view) {
		return true
	}
	return !f.takeStock(w) && w.expired && w.view.queue.lettings != lettings
}

// awaitLet waits, for a call that is about to end, until keys are released that were leased
// for nobody: they are ready, and what is ready is not missed. It returns how many there
// were.
func (f *Frame) awaitLet(w *waiter) uint64 {
	f.mu.Lock()
	over, let := w.expired, w.view.queue.let
	lettings := w.view.queue.lettings
	f.mu.Unlock()
	if over && let != nil {
		select {
		case <-let:
		case <-f.looking.Done():
		}
	}
	return lettings
}

// lookFor looks for something for a waiter that is not in its view, and lets it wait on if
// there is nothing. One whose time has come to its end meanwhile ends, unless there is
// more that it does not know of.
func (f *Frame) lookFor(w *waiter) {
	for {
		lettings := f.awaitLet(w)
		claims, err := f.pick(&w.req, w.view)
		f.mu.Lock()
		if len(claims) == 0 && err == nil && !w.ended && !f.closed && f.again(w, lettings) {
			f.mu.Unlock()
			continue
		}
		f.settleWait(w, claims, err)
		f.mu.Unlock()
		return
	}
}
