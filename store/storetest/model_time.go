package storetest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/store"
)

// advance lets time pass, often to the very millisecond at which something happens.
func (c *comparison) advance(t *rapid.T) {
	c.pass(draw(c, t, "advance", func(t *rapid.T) (time.Duration, string) {
		d := pick(t, []time.Duration{
			0, time.Millisecond, 2 * time.Millisecond, 50 * time.Millisecond, time.Second, 10 * time.Second,
			store.DefaultTTL,
		})
		next := pickAny(t, c.moments(), c.now().Add(d)).Sub(c.now())
		next += pick(t, []time.Duration{0, 0, -time.Millisecond, time.Millisecond})
		if often(t) {
			d = max(next, 0)
		}
		return d, d.String()
	}))
}

// moments returns the times to come at which something happens by itself, except what
// is far away: the time to live of most messages.
func (c *comparison) moments() (moments []time.Time) {
	add := func(t time.Time) {
		if t.After(c.now()) && t.Before(c.now().Add(time.Minute)) {
			moments = append(moments, t)
		}
	}
	for _, l := range c.live {
		add(l.until)
	}
	for _, k := range modelKeys {
		for _, m := range c.pending(k) {
			add(m.VisibleAt)
			if m.Route == "" {
				add(expiry(&m))
			}
		}
	}
	slices.SortFunc(moments, time.Time.Compare)
	return slices.CompactFunc(moments, time.Time.Equal)
}

// expiry returns when a message goes to quarantine if its key has no route.
func expiry(m *store.Message) time.Time {
	if m.TTL == 0 {
		return m.PutAt.Add(store.DefaultTTL)
	}
	return m.PutAt.Add(m.TTL)
}

// pass lets time pass on both sides. A message whose time to live ends is in
// quarantine at the latest after a claim, and the record says when that was: so at
// each such time there is one.
func (c *comparison) pass(d time.Duration) {
	c.t.Helper()
	end := c.now().Add(d)
	for {
		next, queues := c.nextExpiry(end)
		hop := next.Sub(c.now())
		c.backend.Advance(hop)
		c.clock.Advance(hop)
		if len(queues) == 0 {
			return
		}
		for _, queue := range queues {
			c.claimInVain(queue)
		}
	}
}

// nextExpiry returns when the next messages go to quarantine for want of a route, and
// of which queues they are; end and none if that is not before end or at it.
func (c *comparison) nextExpiry(end time.Time) (next time.Time, queues []string) {
	next = end
	for _, k := range modelKeys {
		for _, m := range c.pending(k) {
			at := expiry(&m)
			if m.Route != "" || at.After(next) {
				continue
			}
			if at.Before(next) {
				next, queues = at, nil
			}
			if !slices.Contains(queues, k.Queue) {
				queues = append(queues, k.Queue)
			}
		}
	}
	return next, queues
}

// claimInVain makes the backend look at a queue.
func (c *comparison) claimInVain(queue string) {
	c.t.Helper()
	req := store.ClaimRequest{Queue: queue, Routes: []string{"nobody"}, Max: 1, Lease: store.MinLease}
	claims, err := c.backend.Store.Claim(c.ctx, req)
	if err != nil || len(claims) > 0 {
		c.t.Fatalf("claimed %v for a route that no key has, error %v", describe(claims), err)
	}
}

// reopen opens the backend again, after all leases have ended: whether they outlive
// the process is for the backend to say.
func (c *comparison) reopen(t *rapid.T) {
	end := c.now()
	for _, l := range c.live {
		if l.until.After(end) {
			end = l.until
		}
	}
	c.pass(draw(c, t, "reopen", func(*rapid.T) (time.Duration, string) {
		return end.Sub(c.now()), "after " + end.Sub(c.now()).String()
	}))
	c.backend.Reopen()
	c.lookAtAll()
}
