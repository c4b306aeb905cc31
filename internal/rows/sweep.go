package rows

// sweepBatch is how many messages go to quarantine in one commit.
const sweepBatch = 500

// sweepPause is how long, in milliseconds, a queue is not swept whose messages have expired
// and stay.
const sweepPause = 1000

// sweep puts messages that had waited too long for a route at a time into quarantine. Of
// several that want a queue swept, one does it, and the others wait for it.
func (f *Frame) sweep(q *queue, now int64) error {
	f.mu.Lock()
	for q.sweeping != nil {
		under := q.sweeping
		f.mu.Unlock()
		<-under
		f.mu.Lock()
		if q.sweeping == nil && q.expiring.next > now {
			f.mu.Unlock()
			return nil
		}
	}
	if f.held {
		f.mu.Unlock()
		return nil
	}
	done := make(chan struct{})
	q.sweeping = done
	f.mu.Unlock()
	err := f.sweepAll(q, now)
	f.mu.Lock()
	q.sweeping = nil
	f.mu.Unlock()
	close(done)
	return err
}

// sweepAll puts what has expired into quarantine until nothing is left of it, and finds out
// when the next expires. What had expired at a time and does not go is left alone for a
// while: the database may be excluded, and then nothing changes by itself.
func (f *Frame) sweepAll(q *queue, now int64) error {
	for {
		swept, err := f.sweepOnce(q)
		if err != nil {
			return err
		}
		f.mu.Lock()
		q.arrived = Never // what comes from now on may not be seen by the look
		held := f.held
		f.mu.Unlock()
		if held {
			return nil // whoever holds waits for us
		}
		later, at, err := f.db.Look(f.looking, []int64{PartitionOf(q.name, "")})
		if err != nil {
			return err
		}
		if at[0] <= now && swept > 0 {
			continue
		}
		if at[0] <= now {
			at[0] = later + sweepPause
		}
		f.mu.Lock()
		q.expiring.set(min(at[0], q.arrived))
		f.mu.Unlock()
		return nil
	}
}

// sweepOnce puts some of what has expired into quarantine, and returns how much that was.
func (f *Frame) sweepOnce(q *queue) (swept int, err error) {
	refs, keys, err := f.db.Expired(f.looking, q.name, sweepBatch)
	if err != nil || len(refs) == 0 {
		return 0, err
	}
	expire := newCall(f.ctx, operation{expire: &expiry{keys: keys, refs: refs}}, len(refs)*opSize)
	return len(refs), f.submit("claim", expire)
}
