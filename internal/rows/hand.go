package rows

import (
	"cmp"
	"slices"

	"github.com/abidehq/abide/store"
)

// hand leases keys that a group makes ready to those who wait for them in this process, and
// returns who gets something: the same commit that puts a message delivers it, and nobody
// needs to look for it. They are told when the group is durable.
//
// It is for keys all of whose messages are put by this group, and for waiters who have
// nothing else to claim: whoever has looks, so that the oldest comes first and tenants
// take turns.
func (f *Frame) hand(p *plan) (hands []*waiter) {
	type offer struct {
		key     *keyWork
		visible []*messageWork
	}
	var offers []offer
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range p.keys {
		if q := f.queues[k.row.Key.Queue]; !k.dirty || q == nil || len(q.waiters) == 0 {
			continue
		}
		if visible := k.ready(p.now); len(visible) > 0 {
			offers = append(offers, offer{k, visible})
		}
	}
	if len(offers) == 0 || f.closed {
		return nil
	}
	slices.SortFunc(offers, func(a, b offer) int {
		return cmp.Or(cmp.Compare(a.visible[0].Visible, b.visible[0].Visible), compareIDs(a.key.row.ID, b.key.row.ID))
	})
	for _, o := range offers {
		w := f.taker(o.key)
		if w == nil {
			continue
		}
		if len(w.handed) == 0 {
			hands = append(hands, w)
		}
		w.handed = append(w.handed, f.lease(o.key, o.visible, w, p.now))
	}
	for _, w := range hands {
		w.leave()
		w.busy = true
	}
	return hands
}

// taker returns who waits for a key and has nothing else to claim, or nil.
func (f *Frame) taker(k *keyWork) *waiter {
	q, lane := f.queues[k.row.Key.Queue], k.row.Lane()
	for _, w := range q.waiters {
		if w.set[lane] && len(w.handed) < w.req.Max && !f.due(q, w.lanes) {
			return w
		}
	}
	return nil
}

// lease leases a key to a waiter.
func (f *Frame) lease(k *keyWork, visible []*messageWork, w *waiter, now int64) store.Claim {
	limit := w.req.MaxMessages
	if limit == 0 {
		limit = store.DefaultMessages
	}
	var messages []MessageRow
	size := 0
	k.row.Token, k.row.Until, k.row.Delivered = f.token(), now+millis(w.req.Lease), nil
	for _, m := range visible {
		if len(messages) == limit || (len(messages) > 0 && size+len(m.Body) > store.PageBytes) {
			break
		}
		size += len(m.Body)
		messages = append(messages, m.MessageRow)
		k.row.Delivered = append(k.row.Delivered, m.Seq)
	}
	return claim(&k.row, messages, now)
}

// takeBack lets those wait on to whom a group that failed had handed something.
func (f *Frame) takeBack(hands []*waiter) {
	if len(hands) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range hands {
		w.handed = nil
		f.settleWait(w, 0, nil, nil)
		f.serve(w.queue)
	}
}
