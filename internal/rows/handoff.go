package rows

import (
	"slices"

	"github.com/abidehq/abide/store"
)

// offer is a key that a group makes ready, and who gets it.
type offer struct {
	key       *keyWork
	partition int64
	visible   []*messageWork
	to        *waiter            // a call that waits
	ahead     *subscription      // or a subscription, for its next call
	terms     store.ClaimRequest // of that
}

// handOff leases keys that a group makes ready to calls of this process that wait for them:
// the commit that puts a message also leases it, and no query is needed. The calls get their
// claims when the group is durable.
//
// It is for keys all of whose messages are put by this group, so that nothing needs to be
// read, and for calls for which nothing else is due: a call for which something is due
// queries, so that the oldest message comes first and tenants take turns.
//
// The leases are part of the changes of the group. Until it is durable they exist in memory only,
// and each way in which it can end has its method: committed gives them to the calls, withdraw
// takes them back because the group is decided again, and failed because it was not written, or
// perhaps was: then they are released.
//
// If the calls that ask for a partition are being served, the key is leased ahead of the next
// one; see prefetch. It takes the lock, within the transaction of the group.
func (c *claimer) handOff(p *plan) (handoffs []*waiter, prefetched []prefetchedLease) {
	offers := c.offers(p)
	if len(offers) == 0 {
		return nil, nil
	}
	c.mu.Lock()
	for i := range offers {
		o := &offers[i]
		if o.to = c.idleFor(o.partition, o.key.row.Key.Tenant); o.to == nil {
			if o.ahead = c.prefetchFor(o.partition, o.key.row.Key.Tenant); o.ahead != nil {
				o.terms = o.ahead.terms
				o.ahead.leasing++
			}
			continue
		}
		if o.to.offered++; o.to.offered == 1 {
			handoffs = append(handoffs, o.to)
		}
		if o.to.offered == o.to.req.Max {
			o.to.leave()
		}
	}
	for _, w := range handoffs {
		w.leave()
		w.setServed(true)
	}
	c.mu.Unlock()
	for i := range offers {
		switch o := &offers[i]; {
		case o.to != nil: // a served waiter is written only by what serves it
			o.to.handoff = append(o.to.handoff, c.lease(o.key, o.visible, &o.to.req, p.now))
		case o.ahead != nil:
			prefetched = append(prefetched, prefetchedLease{o.ahead, o.terms, c.lease(o.key, o.visible, &o.terms, p.now)})
		}
	}
	return handoffs, prefetched
}

// offers returns the keys that a group makes ready in queues with idle or served calls, in the
// order of their IDs. It takes the lock.
func (c *claimer) offers(p *plan) (offers []offer) {
	wanted := map[string]bool{}
	c.mu.Lock()
	for name, q := range c.queues {
		if (q.idle > 0 || q.served > 0) && !c.closed {
			wanted[name] = true
		}
	}
	c.mu.Unlock()
	if len(wanted) == 0 {
		return nil
	}
	for _, k := range p.keys {
		if !k.dirty || !wanted[k.row.Key.Queue] {
			continue
		}
		if visible := k.ready(p.now); len(visible) > 0 {
			offers = append(offers, offer{key: k, partition: k.row.Partition(), visible: visible})
		}
	}
	slices.SortFunc(offers, func(a, b offer) int { return compareIDs(a.key.row.ID, b.key.row.ID) })
	return offers
}

// idleFor returns the first idle call that asks for a tenant in a partition and for which nothing
// else is due, or nil.
func (c *claimer) idleFor(id int64, tenant string) (first *waiter) {
	p := c.partitions[id]
	if p == nil || c.closed {
		return nil
	}
	for _, s := range c.askingFor(p, tenant) {
		if len(s.waiters) > 0 && !c.due(s) && (first == nil || s.waiters[0].number < first.number) {
			first = s.waiters[0]
		}
	}
	return first
}

// lease leases a key of a group in flight on the terms of a request. The bodies of its
// messages are not copied: copyTx has made them the core's own, and they become the caller's.
func (c *claimer) lease(k *keyWork, visible []*messageWork, req *store.ClaimRequest, now int64) store.Claim {
	limit := req.MaxMessages
	if limit == 0 {
		limit = store.DefaultMessages
	}
	var messages []MessageRow
	size := 0
	k.row.Token, k.row.Until, k.row.Delivered = c.ownedToken(req.Owner), now+millis(req.Lease), nil
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

// withdraw takes back the leases of a group that is decided again. They were not written. It
// takes the lock.
func (c *claimer) withdraw(g *group) {
	if len(g.handoffs)+len(g.prefetch) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revoke(g.handoffs, false)
	c.dropPrefetched(g.prefetch, false)
	g.handoffs, g.prefetch = nil, nil
}

// revoke makes the calls idle again to which a group that failed had leased keys. If it is
// not known whether it was written, the leases may be in the database, and are released. A
// call whose wait came to its end meanwhile queries once more.
func (c *claimer) revoke(handoffs []*waiter, unknown bool) {
	for _, w := range handoffs {
		if unknown {
			for i := range w.handoff {
				c.releaseOrphan(w.handoff[i].Lease())
			}
		}
		w.offered, w.handoff = 0, nil
		if w.expired && !w.ended && !c.closed {
			c.query(w)
			continue
		}
		c.settle(w, nil, nil)
	}
}
