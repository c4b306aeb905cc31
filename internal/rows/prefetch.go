package rows

import (
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// prefetch holds keys leased ahead of the next Claim of a subscription. While its only caller
// is being served, by a group in flight that hands off to it, say, other groups commit, and
// what they put would need a query: a caller that loops calls again as soon as it has its
// claims. Leases that no call takes are released after prefetchTime.
//
// An example, with one worker that claims one key at a time:
//
//	group 1 puts a      ─▶ handed off to the call that waits; the call is served
//	group 2 puts b      ─▶ nobody is idle, the subscription is served: b is prefetched
//	group 1 is durable  ─▶ the call returns with a
//	group 2 is durable  ─▶ b is in keys
//	the worker calls    ─▶ gets b at once
//
// Without it, the worker's second call would find that something is due and query for b.
//
// There are never more of them than the latest call asked for, and none while the database
// has more to claim than one call takes: then the oldest message comes first.
type prefetch struct {
	terms   store.ClaimRequest // of the latest call
	served  int                // calls that are being served
	backlog bool               // the latest query left something that is due
	passed  bool               // the latest call took prefetched leases although something was due
	leasing int                // keys that groups in flight lease
	keys    []prefetchedKey    // the oldest first
}

// prefetchedKey is a lease that waits for a call.
type prefetchedKey struct {
	terms store.ClaimRequest
	claim store.Claim
	until time.Time // when it is released, by the machine's clock
}

// prefetchedLease is a lease that a group in flight makes ahead of a call.
type prefetchedLease struct {
	subscription *subscription
	terms        store.ClaimRequest
	claim        store.Claim
}

// prefetchTime is how long a lease waits for a call. It is measured by the machine's clock,
// because callers call again in real time, also in a test whose clock stands still.
const prefetchTime = 100 * time.Millisecond

func (p *prefetch) any() bool { return p.leasing > 0 || len(p.keys) > 0 }

// prefetchFor returns a subscription to a tenant in a partition that a key may be leased ahead for: one
// whose call is being served, and which has room. Or nil.
func (c *claimer) prefetchFor(id int64, tenant string) *subscription {
	p := c.partitions[id]
	if p == nil || c.closed {
		return nil
	}
	for _, s := range c.askingFor(p, tenant) {
		if s.served > 0 && !s.backlog && s.leasing+len(s.keys) < s.terms.Max {
			return s
		}
	}
	return nil
}

// fromPrefetch gives a call prefetched leases, and reports whether there were some. If
// something else is due, every other call queries for it, so that it is not starved.
func (c *claimer) fromPrefetch(w *waiter) bool {
	s := w.subscription
	if len(s.keys) == 0 {
		return false
	}
	s.passed = c.due(s) && !s.passed
	if !s.passed && c.due(s) {
		return false
	}
	return c.takePrefetched(w)
}

// takePrefetched gives a call prefetched leases that are live and on its terms, and reports
// whether there were some.
func (c *claimer) takePrefetched(w *waiter) bool {
	s := w.subscription
	var claims []store.Claim
	for len(s.keys) > 0 && len(claims) < w.req.Max {
		k := s.keys[0]
		s.keys = s.keys[1:]
		if !c.prefetched[k.claim.Token] {
			continue // a group of this process has ended the lease
		}
		delete(c.prefetched, k.claim.Token)
		if k.claim.Until.UnixMilli() <= c.time.now() {
			continue // it has expired, and another claimer may have the key
		}
		if k.terms.Lease != w.req.Lease || k.terms.MaxMessages != w.req.MaxMessages || k.terms.Owner != w.req.Owner {
			c.releaseOrphan(k.claim.Lease())
			continue
		}
		claims = append(claims, k.claim)
	}
	if len(claims) == 0 {
		return false
	}
	w.end(claims, nil)
	return true
}

// addPrefetched gives the leases of a durable group to calls that are idle by now, and keeps
// the rest.
func (c *claimer) addPrefetched(leases []prefetchedLease) {
	if len(leases) == 0 {
		return
	}
	machine := base.System{}
	until := machine.Now().Add(prefetchTime)
	changed := map[*subscription]bool{}
	for _, l := range leases {
		s := l.subscription
		s.leasing--
		if c.closed {
			c.releaseOrphan(l.claim.Lease())
			continue
		}
		s.keys = append(s.keys, prefetchedKey{l.terms, l.claim, until})
		c.prefetched[l.claim.Token] = true
		changed[s] = true
	}
	for s := range changed {
		for len(s.waiters) > 0 && len(s.keys) > 0 {
			w := s.waiters[0]
			w.leave()
			if !c.fromPrefetch(w) {
				w.enter()
				break
			}
		}
		if len(s.keys) > 0 {
			machine.AfterFunc(prefetchTime, func() { c.releaseUnclaimed(s) })
		}
	}
}

// dropPrefetched gives up the leases of a group that failed. If it is not known whether it was
// written, they may be in the database, and are released.
func (c *claimer) dropPrefetched(leases []prefetchedLease, unknown bool) {
	for _, l := range leases {
		l.subscription.leasing--
		if unknown {
			c.releaseOrphan(l.claim.Lease())
		}
	}
}

// releaseUnclaimed releases leases that no call has taken in time. It takes the lock.
func (c *claimer) releaseUnclaimed(s *subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := base.System{}.Now()
	for len(s.keys) > 0 && !c.closed && !s.keys[0].until.After(now) {
		if token := s.keys[0].claim.Token; c.prefetched[token] {
			delete(c.prefetched, token)
			c.releaseOrphan(s.keys[0].claim.Lease())
		}
		s.keys = s.keys[1:]
	}
}

// invalidatePrefetched drops the leases that a group has ended: it deleted the key, say. What
// another process ends is found out by the caller, whose commit fails with ErrClaimLost.
func (c *claimer) invalidatePrefetched(p *plan) {
	if len(c.prefetched) == 0 {
		return
	}
	for _, k := range p.keys {
		if k.stored.Token != "" && k.row.Token != k.stored.Token {
			delete(c.prefetched, store.Token(k.stored.Token))
		}
	}
}
