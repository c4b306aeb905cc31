package pebblestore

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

const (
	// sweepBatch is how many expired messages are quarantined in one group, and sweepBytes
	// about how large they are together. The mutex is released in between.
	sweepBatch = 1000
	sweepBytes = 16 << 20

	// sweepPause is how many milliseconds after an error the queue is swept again.
	sweepPause = 1000
)

// sweepDue reports whether messages of the queue may have expired without a route.
func (q *queue) sweepDue(now int64) bool {
	rs := q.routes[""]
	return rs != nil && rs.due.len() > 0 && rs.due.items[0].next.due <= now && now >= q.sweepAt
}

// sweepAll quarantines all messages of a queue that have expired without a route. After an
// error of a read it tries again later: claims do not depend on it.
// The mutex is held when it is called and when it returns, but not all the time.
//
// Messages without a route are in partitions of their own, ordered by when they
// expire. They are swept by the alarm, and by a claim of their queue: so that
// an expired message is in quarantine when a call that could have seen it
// returns. Each batch is a group of its own, and the mutex is free in between.
func (s *Store) sweepAll(q *queue) {
	for s.failure == nil && !s.closed && q.sweepDue(s.now()) {
		s.sweep(q)
		if g := q.swept; q.sweepDue(s.now()) && g != nil {
			s.mu.Unlock()
			<-g.done
			s.mu.Lock()
		}
	}
}

// sweep quarantines a batch of the partition with the earliest expiry, in the open group.
func (s *Store) sweep(q *queue) {
	now := s.now()
	var t claimResult
	if err := s.sweepPartition(q.routes[""].due.items[0], &t, now); err != nil {
		q.sweepAt = now + sweepPause
		s.logger.Error("pebblestore: expired messages not quarantined", "queue", q.name, "error", err)
	}
	if t.group != nil {
		q.swept = t.group
		s.kick()
	}
}

// expired is a message that has expired without a route.
type expired struct {
	name, id string
	pos      pos
}

// sweepPartition quarantines a batch of expired messages, and moves the cursor behind them. It
// has no window to maintain: partitions without a route have none.
func (s *Store) sweepPartition(l *partition, t *claimResult, now int64) error {
	found, next, err := s.findExpired(l, now)
	if err != nil {
		return s.readError("load messages", err)
	}
	for _, e := range found {
		if err := s.expire(l, e, t, now); err != nil {
			return err
		}
	}
	l.cursor = next
	if next == maxPos {
		l.cursor = pos{due: now}
	}
	l.setNext(next)
	return nil
}

// findExpired returns the first messages of a partition that have expired, up to a batch, and
// the position of the message that follows, or maxPos.
func (s *Store) findExpired(l *partition, now int64) (found []expired, next pos, err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: msgKey(nil, l.id, l.cursor),
		UpperBound: msgKey(nil, l.id+1, pos{}),
	})
	if err != nil {
		return nil, maxPos, err
	}
	next = maxPos
	size := 0
	for it.First(); it.Valid(); it.Next() {
		p := parseMsgKey(it.Key())
		if s.isTombstone(l.id, p) {
			continue
		}
		if p.due > now || len(found) == sweepBatch || size > sweepBytes {
			next = p
			break
		}
		e := expired{pos: p}
		if e.name, e.id, _, err = parseMsg(it.Key(), it.Value()); err != nil {
			break
		}
		size += len(it.Value())
		found = append(found, e)
	}
	return found, next, closeIter(it, err)
}

// expire quarantines one message of a key without a route. A message that is not durable yet,
// or that was removed since it was found, is left out.
func (s *Store) expire(l *partition, e expired, t *claimResult, now int64) error {
	k, err := s.pinKey(store.Key{Queue: l.queue.name, Tenant: l.tenant, Name: e.name})
	if err != nil {
		return err
	}
	defer s.unpinKey(k)
	r := find(k.refs, e.pos)
	if r == nil && !k.complete {
		r = &ref{id: e.id, pos: e.pos, durable: true, attempt: unknownAttempt}
		s.insert(k, r)
	}
	if r == nil || !r.durable {
		return nil
	}
	return s.quarantineAll(k, []*ref{r}, store.ReasonExpired, t, now)
}

// quarantineAll replaces messages of one key by quarantine records, in the open group. Everything
// that it needs is read before anything is changed.
//
// It is part of no Tx. Its caller must kick the group and, where a call must not return
// before that is durable, wait for it: t is made to.
func (s *Store) quarantineAll(k *keyState, refs []*ref, reason string, t *claimResult, now int64) error {
	g := s.openGroup
	puts := make([]store.PutRecord, 0, len(refs))
	records := make([]*recordState, 0, len(refs))
	for _, r := range refs {
		d, err := s.data(k, r)
		var rec *recordState
		if err == nil {
			puts = append(puts, store.Quarantine(k.message(r, &d), k.route, reason, store.FromMillis(now)))
			rec, err = s.pinRecord(puts[len(puts)-1].Record.Key)
		}
		if err != nil {
			for _, rec := range records {
				s.records.unpin(rec.entry)
			}
			return fmt.Errorf("pebblestore: quarantine %v: %w", store.MessageRef{Key: k.key, ID: r.id}, err)
		}
		records = append(records, rec)
	}
	s.keys.pin(k.entry)
	g.keys = append(g.keys, k)
	g.records = append(g.records, records...)
	for i, r := range refs {
		s.removeMessage(g, k, r)
		s.putRecord(g, &puts[i].Record)
	}
	s.endOfTx(g, k, now)
	t.waitFor(g)
	return nil
}
