package rows

// Messages of a key without a route wait for one, for as long as their time to live. Nobody owns
// such a key, so that nobody would notice the end of that time: every Claim of the queue does. LeaseReady
// returns when the next message expires, and the call that finds one expired sweeps the queue
// before it returns. On a queue without claims nothing expires, which does no harm.

// sweepBatch is the most messages that go to quarantine in one commit.
const sweepBatch = 500

// sweepPause is how long, in milliseconds, a queue is not swept whose messages have expired
// and stay.
const sweepPause = 1000

// sweep moves messages that had waited too long for a route at a time to quarantine. Of
// several calls that find a queue to be swept, one does it, and the others wait for it. It is
// called under no lock.
func (c *claimer) sweep(q *queue, now int64) error {
	c.mu.Lock()
	for q.sweeping != nil {
		under := q.sweeping
		c.mu.Unlock()
		<-under
		c.mu.Lock()
		if q.sweeping == nil && q.expiring.next > now {
			c.mu.Unlock()
			return nil
		}
	}
	if c.held {
		c.mu.Unlock()
		return nil
	}
	done := make(chan struct{})
	q.sweeping = done
	c.mu.Unlock()
	err := c.sweepAll(q, now)
	c.mu.Lock()
	q.sweeping = nil
	c.mu.Unlock()
	close(done)
	return err
}

// sweepAll moves what has expired to quarantine until nothing is left of it, and finds out
// when the next message expires. What had expired at now and does not go is left alone for
// sweepPause: another process may have excluded the others, and then nothing changes by itself.
func (c *claimer) sweepAll(q *queue, now int64) error {
	for {
		swept, err := c.sweepOnce(q)
		if err != nil {
			return err
		}
		c.mu.Lock()
		q.arrived = Never // the query that follows may not see what comes from now on
		held := c.held
		c.mu.Unlock()
		if held {
			return nil // Hold waits for this sweep
		}
		later, at, err := c.db.NextDue(c.life.querying, []int64{PartitionOf(q.name, "")})
		if err != nil {
			return err
		}
		if at[0] <= now && swept > 0 {
			continue
		}
		if at[0] <= now {
			at[0] = later + sweepPause
		}
		c.mu.Lock()
		q.expiring.set(min(at[0], q.arrived))
		c.mu.Unlock()
		return nil
	}
}

// sweepOnce moves some of what has expired to quarantine, and returns how many messages. It is
// called under no lock.
func (c *claimer) sweepOnce(q *queue) (swept int, err error) {
	refs, keys, err := c.db.Expired(c.life.querying, q.name, sweepBatch)
	if err != nil || len(refs) == 0 {
		return 0, err
	}
	expire := newCall(c.life.ctx, operation{expire: &expiry{keys: keys, refs: refs}}, len(refs)*opSize)
	return len(refs), c.commits.submit("claim", expire)
}
