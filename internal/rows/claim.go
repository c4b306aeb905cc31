package rows

import (
	"context"
	"errors"
	"slices"

	"github.com/abidehq/abide/store"
)

// Claim leases keys that are ready.
func (f *Frame) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if err := f.Check(ctx, "claim"); err != nil {
		return nil, err
	}
	lanes := make([]int64, 0, len(req.Routes))
	for _, route := range req.Routes {
		lanes = append(lanes, LaneOf(req.Queue, route))
	}
	slices.Sort(lanes)
	lanes = slices.Compact(lanes)
	f.mu.Lock()
	q := f.queue(req.Queue)
	look := req.Wait == 0 || f.due(q, lanes)
	f.mu.Unlock()
	for look {
		claims, err := f.pick(ctx, &req, lanes)
		if len(claims) > 0 || err != nil || req.Wait == 0 {
			return claims, err
		}
		f.mu.Lock()
		look = f.due(q, lanes)
		f.mu.Unlock()
	}
	return f.wait(ctx, q, req, lanes)
}

// wait waits until there is something to claim.
func (f *Frame) wait(ctx context.Context, q *queue, req store.ClaimRequest, lanes []int64) ([]store.Claim, error) {
	req.Routes = slices.Clone(req.Routes)
	w := &waiter{req: req, queue: q, lanes: lanes, set: make(map[int64]bool, len(lanes)), done: make(chan struct{})}
	for _, id := range lanes {
		w.set[id] = true
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, store.Closed("claim")
	}
	q.waiters = append(q.waiters, w)
	q.waiting++
	f.poll()
	f.serve(q)
	f.mu.Unlock()
	stop := f.clock.AfterFunc(req.Wait, func() { f.giveUp(w, nil) })
	defer func() {
		stop()
		f.mu.Lock()
		q.waiting--
		f.mu.Unlock()
	}()
	select {
	case <-w.done:
	case <-ctx.Done():
		f.giveUp(w, ctx.Err())
		<-w.done
	}
	return w.claims, w.err
}

// giveUp ends a wait. If somebody looks for something for it at this moment, a wait that
// has only come to its end still gets it.
func (f *Frame) giveUp(w *waiter, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case w.ended:
		return
	case err != nil:
		w.gone = true
		w.leave()
		w.end(nil, err)
	case w.busy:
		w.over = true // whoever is busy with it ends it
	case f.due(w.queue, w.lanes) || !f.db.Hinted():
		w.leave()
		w.busy, w.over = true, true
		f.tasks.Add(1)
		go func() {
			defer f.tasks.Done()
			f.lookFor(w, 0)
		}()
	default:
		w.leave()
		w.end(nil, nil)
	}
}

// leave takes a waiter out of its queue.
func (w *waiter) leave() {
	if i := slices.Index(w.queue.waiters, w); i >= 0 {
		w.queue.waiters = slices.Delete(w.queue.waiters, i, i+1)
	}
}

// lookFor looks for something for a waiter that has left its queue, where it had place i,
// and puts it back if there is nothing.
func (f *Frame) lookFor(w *waiter, i int) {
	claims, err := f.pick(f.ctx, &w.req, w.lanes)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settleWait(w, i, claims, err)
}

// settleWait gives a waiter what there is for it, or lets it wait on.
func (f *Frame) settleWait(w *waiter, i int, claims []store.Claim, err error) {
	w.busy = false
	switch {
	case w.ended:
		for i := range claims {
			f.letGo(claims[i].Lease())
		}
	case len(claims) > 0 || err != nil || w.over:
		w.end(claims, err)
	case f.closed:
		w.end(nil, store.Closed("claim"))
	default:
		w.queue.waiters = slices.Insert(w.queue.waiters, min(i, len(w.queue.waiters)), w)
	}
}

// pick is a look into the database for keys to lease. It knows what came meanwhile: for
// each lane, the earliest time.
type pick struct {
	touched map[int64]int64
	cancel  context.CancelFunc
}

func (p *pick) touch(lanes map[int64]int64) {
	for id, at := range lanes {
		if known, ok := p.touched[id]; ok {
			p.touched[id] = min(known, at)
		}
	}
}

// errNothing says that all that was picked went to quarantine.
var errNothing = errors.New("nothing is left of what was picked")

// pick leases keys, and notes what it learns about the lanes. Messages that were delivered
// too often go to quarantine, and it looks again if nothing is left.
func (f *Frame) pick(ctx context.Context, req *store.ClaimRequest, lanes []int64) ([]store.Claim, error) {
	for {
		claims, err := f.pickOnce(ctx, req, lanes)
		if !errors.Is(err, errNothing) {
			return claims, err
		}
	}
}

func (f *Frame) pickOnce(ctx context.Context, req *store.ClaimRequest, lanes []int64) ([]store.Claim, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &pick{touched: make(map[int64]int64, len(lanes)+1), cancel: cancel}
	expiring := LaneOf(req.Queue, "")
	p.touched[expiring] = Never
	for _, id := range lanes {
		p.touched[id] = Never
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil, store.Closed("claim")
	}
	q := f.queue(req.Queue)
	ask := f.ask(q, req, lanes)
	f.picks[p] = true
	f.mu.Unlock()

	got, err := f.db.Pick(ctx, ask)

	f.mu.Lock()
	delete(f.picks, p)
	if err != nil {
		closed := f.closed
		f.mu.Unlock()
		if closed {
			return nil, store.Closed("claim")
		}
		return nil, err
	}
	f.observe(got.Now)
	q.turn = got.Turn
	f.learn(q, lanes, got, p)
	expired := q.expiring.next <= got.Now
	f.mu.Unlock()

	if expired {
		if err := f.sweep(ctx, q); err != nil {
			f.giveBack(got)
			return nil, err
		}
	}
	return f.deliver(got)
}

// learn notes what a pick says about the lanes.
func (f *Frame) learn(q *queue, lanes []int64, got *Picked, p *pick) {
	leased := map[int64]int64{} // the ends of the leases that were made
	for i := range got.Keys {
		row := &got.Keys[i].Row
		id := row.Lane()
		if at, ok := leased[id]; !ok || row.Until < at {
			leased[id] = row.Until
		}
	}
	p.touch(leased)
	for other := range f.picks {
		other.touch(leased)
	}
	for _, id := range lanes {
		f.lane(q, id).next = min(got.Next, p.touched[id])
	}
	q.expiring.next = min(got.Expires, p.touched[LaneOf(q.name, "")])
}

// ask returns what a Pick is asked for.
func (f *Frame) ask(q *queue, req *store.ClaimRequest, lanes []int64) *Pick {
	ask := &Pick{
		Queue: q.name, Lanes: lanes, Expiring: LaneOf(q.name, ""), Turn: q.turn,
		Max: req.Max, MaxMessages: req.MaxMessages, MaxAttempts: req.MaxAttempts, Lease: millis(req.Lease),
		Tokens: make([]string, req.Max),
	}
	if ask.MaxMessages == 0 {
		ask.MaxMessages = store.DefaultMessages
	}
	for i := range ask.Tokens {
		ask.Tokens[i] = f.token()
	}
	return ask
}

// deliver makes claims of what was picked.
func (f *Frame) deliver(got *Picked) ([]store.Claim, error) {
	claims := make([]store.Claim, 0, len(got.Keys))
	for i := range got.Keys {
		k := &got.Keys[i]
		if len(k.Over) > 0 {
			over := &overrun{lease: store.Lease{Key: k.Row.Key, Token: store.Token(k.Row.Token)}}
			for j := range k.Over {
				over.ids = append(over.ids, k.Over[j].ID)
			}
			if err := f.submit(f.ctx, &call{operation: operation{over: over}}, "claim"); err != nil {
				return claims, err
			}
		}
		if len(k.Messages) > 0 {
			claims = append(claims, claim(&k.Row, k.Messages, got.Now))
		}
	}
	if len(claims) == 0 && len(got.Keys) > 0 {
		return nil, errNothing
	}
	return claims, nil
}

// giveBack releases what was picked for nobody.
func (f *Frame) giveBack(got *Picked) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range got.Keys {
		f.letGo(store.Lease{Key: got.Keys[i].Row.Key, Token: store.Token(got.Keys[i].Row.Token)})
	}
}

// sweepBatch is how many messages go to quarantine in one commit.
const sweepBatch = 500

// sweep puts messages that waited too long for a route into quarantine. Of several that
// want a queue swept, one does it.
func (f *Frame) sweep(ctx context.Context, q *queue) error {
	f.mu.Lock()
	for q.sweeping != nil {
		under := q.sweeping
		f.mu.Unlock()
		select {
		case <-under:
		case <-ctx.Done():
			return ctx.Err()
		}
		f.mu.Lock()
	}
	done := make(chan struct{})
	q.sweeping = done
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		q.sweeping = nil
		f.mu.Unlock()
		close(done)
	}()
	for {
		refs, keys, err := f.db.Expired(ctx, q.name, sweepBatch)
		if err != nil {
			return err
		}
		if len(refs) > 0 {
			if err := f.submit(ctx, &call{operation: operation{expire: &expiry{keys: keys, refs: refs}}}, "claim"); err != nil {
				return err
			}
		}
		if len(refs) < sweepBatch {
			break
		}
	}
	f.mu.Lock()
	q.expiring.next = Never // what comes from now on is noted, and the rest is looked for
	f.mu.Unlock()
	_, at, err := f.db.Look(ctx, []int64{LaneOf(q.name, "")})
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		q.expiring.next = 0
		return err
	}
	q.expiring.next = min(q.expiring.next, at[0])
	return nil
}
