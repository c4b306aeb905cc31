package rows

import (
	"slices"

	"github.com/abidehq/abide/store"
)

// offer is a key that can be leased to somebody who waits.
type offer struct {
	key       *keyWork
	partition int64
	visible   []*messageWork
	to        *waiter
	ahead     *view // or the one whose next call gets it
	req       store.ClaimRequest
}

// hand leases keys that a group makes ready to those who wait for them in this process, and
// returns who gets something: the same commit that puts a message delivers it, and nobody
// needs to look for it. They are told when the group is durable.
//
// It is for keys all of whose messages are put by this group, and for waiters who have
// nothing else to claim: whoever has looks, so that the oldest comes first and tenants
// take turns.
//
// If somebody is just busy with those who wait, it is leased ahead of their next call: see
// stock.
func (f *Frame) hand(p *plan) (hands []*waiter, ahead []leasedAhead) {
	offers := f.offers(p)
	if len(offers) == 0 {
		return nil, nil
	}
	f.mu.Lock()
	for i := range offers {
		o := &offers[i]
		if o.to = f.taker(o.partition); o.to == nil {
			if o.ahead = f.taking(o.partition); o.ahead != nil {
				o.req = o.ahead.terms
				o.ahead.stocking++
			}
			continue
		}
		if o.to.handing++; o.to.handing == 1 {
			hands = append(hands, o.to)
		}
		if o.to.handing == o.to.req.Max {
			o.to.leave()
		}
	}
	for _, w := range hands {
		w.leave()
		w.setBusy(true)
	}
	f.mu.Unlock()
	for i := range offers {
		switch o := &offers[i]; {
		case o.to != nil: // it is ours now: nobody else is busy with it
			o.to.handed = append(o.to.handed, f.lease(o.key, o.visible, &o.to.req, p.now))
		case o.ahead != nil:
			ahead = append(ahead, leasedAhead{o.ahead, o.req, f.lease(o.key, o.visible, &o.req, p.now)})
		}
	}
	return hands, ahead
}

// offers returns what the group makes ready in queues in which somebody waits. All of it is
// visible since the same moment.
func (f *Frame) offers(p *plan) (offers []offer) {
	idle := map[string]bool{}
	f.mu.Lock()
	for name, q := range f.queues {
		if (q.idle > 0 || q.busy > 0) && !f.closed {
			idle[name] = true
		}
	}
	f.mu.Unlock()
	if len(idle) == 0 {
		return nil
	}
	for _, k := range p.keys {
		if !k.dirty || !idle[k.row.Key.Queue] {
			continue
		}
		if visible := k.ready(p.now); len(visible) > 0 {
			offers = append(offers, offer{key: k, partition: k.row.Partition(), visible: visible})
		}
	}
	slices.SortFunc(offers, func(a, b offer) int { return compareIDs(a.key.row.ID, b.key.row.ID) })
	return offers
}

// taker returns who waits for a partition and has nothing else to claim, or nil.
func (f *Frame) taker(id int64) (first *waiter) {
	l := f.partitions[id]
	if l == nil || f.closed {
		return nil
	}
	for _, v := range l.views {
		if len(v.waiters) > 0 && !f.due(v) && (first == nil || v.waiters[0].number < first.number) {
			first = v.waiters[0]
		}
	}
	return first
}

// lease leases a key to whoever asked for it. What was put is not copied: it is the
// frame's own, and the caller's from then on.
func (f *Frame) lease(k *keyWork, visible []*messageWork, req *store.ClaimRequest, now int64) store.Claim {
	limit := req.MaxMessages
	if limit == 0 {
		limit = store.DefaultMessages
	}
	var messages []MessageRow
	size := 0
	k.row.Token, k.row.Until, k.row.Delivered = f.token(), now+millis(req.Lease), nil
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

// takeBack lets those wait on to whom a group that failed had handed something. If it is
// not known whether it was written, the leases may be there: they are let go.
func (f *Frame) takeBack(hands []*waiter, unknown bool) {
	for _, w := range hands {
		if unknown {
			for i := range w.handed {
				f.letGo(w.handed[i].Lease())
			}
		}
		w.handing, w.handed = 0, nil
		if w.expired && !w.ended && !f.closed {
			f.look(w) // its time came to its end meanwhile, and there may be something else
			continue
		}
		f.settleWait(w, nil, nil)
	}
}
