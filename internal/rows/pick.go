package rows

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

// pick is a query for keys to lease that is under way. It notes, for each partition of its
// subscription, the earliest time of what has come since it began: it may not have seen that.
type pick struct {
	number uint64
	came   map[*partition]int64
}

// note notes that something can be claimed in a partition from a time on.
func (p *pick) note(part *partition, at int64) {
	if p.came == nil {
		p.came = map[*partition]int64{}
	}
	if known, ok := p.came[part]; !ok || at < known {
		p.came[part] = at
	}
}

// errNothing says that all that was leased went to quarantine.
var errNothing = errors.New("nothing is left of what was picked")

// pick leases keys for a request, and notes what it learns about the partitions. Messages that
// have been delivered too often go to quarantine; if nothing else was leased, it queries again.
// It is called under no lock.
func (c *claimer) pick(req *store.ClaimRequest, s *subscription) ([]store.Claim, error) {
	for {
		claims, err := c.pickOnce(req, s)
		if !errors.Is(err, errNothing) {
			return claims, err
		}
	}
}

// pickOnce is one query. Its steps, and what may happen in between:
//
//  1. The query is registered in its subscription, under the lock: from now on every change of a
//     bound is noted in it.
//  2. The database leases keys. Commits of this process and hints may arrive meanwhile.
//  3. Under the lock: the query is unregistered, and bounds are raised to what it found, or to
//     what was noted, whichever is earlier. Both in one step, so that nothing falls in between.
//  4. Expired messages are swept, and exhausted ones go to quarantine. If either fails, the keys
//     that were leased are released, and the call fails.
func (c *claimer) pickOnce(req *store.ClaimRequest, s *subscription) ([]store.Claim, error) {
	request := c.pickRequest(req, s)
	q, p := s.queue, &pick{}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, store.Closed("claim")
	}
	c.queries++
	p.number = c.queries
	request.AfterTenant = *s.turn()
	taken := c.takeReserved(s, request.Max)
	request.Reserved = slices.Collect(maps.Keys(taken))
	s.picks[p] = true
	s.users++
	c.mu.Unlock()

	asked := c.time.ask()
	got, err := c.db.LeaseReady(c.life.querying, request)
	leased := leaseEnds(got)
	if err == nil {
		c.time.answer(asked, got.Now)
	}

	c.mu.Lock()
	delete(s.picks, p)
	s.users--
	if err != nil {
		defer c.mu.Unlock()
		if c.closed {
			return nil, store.Closed("claim")
		}
		return nil, err
	}
	*s.turn() = got.LastTenant
	c.learn(s, got, p, leased, asked.at)
	c.keepReserved(s, taken, got, request.Max)
	c.mu.Unlock()

	if got.Expires <= got.Now {
		if err := c.sweep(q, got.Now); err != nil {
			c.releasePicked(got)
			return nil, err
		}
	}
	claims, err := c.deliver(got)
	if err != nil && !errors.Is(err, errNothing) {
		c.releasePicked(got)
		return nil, err
	}
	return claims, err
}

// turn returns the tenant after which a query begins: that of the queue, or of the subscription if
// it is limited to tenants. Were it that of the queue, queries of others would begin after the same
// tenants again and again.
func (s *subscription) turn() *int64 {
	if s.tenants != nil {
		return &s.lastTenant
	}
	return &s.queue.lastTenant
}

// leaseEnds returns the earliest end of the leases that were made, by partition.
func leaseEnds(got *LeaseResult) map[int64]int64 {
	if got == nil || len(got.Keys) == 0 {
		return nil
	}
	ends := map[int64]int64{}
	names := map[[2]string]int64{}
	for i := range got.Keys {
		row := &got.Keys[i].Row
		name := [2]string{row.Key.Queue, row.Route}
		if at, ok := names[name]; !ok || row.Until < at {
			names[name] = row.Until
		}
	}
	for name, at := range names {
		ends[PartitionOf(name[0], name[1])] = at
	}
	return ends
}

// learn raises the bounds of the partitions to Next of a query, but not above what came since
// it began, nor above the ends of the leases that it made. A query that leased nothing although
// something was due met keys that others had locked: they are queried for a millisecond later.
func (c *claimer) learn(s *subscription, got *LeaseResult, p *pick, leased map[int64]int64, began time.Time) {
	next := got.Next
	s.backlog = next == 0
	if len(got.Keys) == 0 {
		next = max(next, got.Now+1)
		c.time.ahead(next, got.Now, began)
	}
	for _, part := range s.partitions {
		at := next
		if part == s.queue.expiring {
			at = got.Expires
		}
		if came, ok := p.came[part]; ok {
			at = min(at, came)
		}
		part.set(at)
	}
	s.queried = max(s.queried, p.number)
	for id, at := range leased {
		if part := c.partitions[id]; part != nil {
			c.lower(part, at)
		}
	}
	if s.queue.idle > 0 && c.nextDue(s.queue) < s.queue.timerAt {
		c.serve(s.queue) // other calls may be due sooner than they knew
	}
}

// pickRequest returns what the database is asked for.
func (c *claimer) pickRequest(req *store.ClaimRequest, s *subscription) *LeaseRequest {
	p := &LeaseRequest{
		Queue: req.Queue, Partitions: s.ids, Tenants: s.tenants, Expiring: PartitionOf(req.Queue, ""),
		Max: req.Max, MaxMessages: req.MaxMessages, MaxAttempts: req.MaxAttempts, Lease: millis(req.Lease),
		Tokens: make([]string, req.Max),
	}
	if p.MaxMessages == 0 {
		p.MaxMessages = store.DefaultMessages
	}
	for i := range p.Tokens {
		p.Tokens[i] = c.ownedToken(req.Owner)
	}
	return p
}

// deliver makes claims of what was leased, after messages that have been delivered too often
// have gone to quarantine. It is called under no lock.
func (c *claimer) deliver(got *LeaseResult) ([]store.Claim, error) {
	var exhausted []*call
	claims := make([]store.Claim, 0, len(got.Keys))
	for i := range got.Keys {
		k := &got.Keys[i]
		if len(k.Exhausted) > 0 {
			exhausted = append(exhausted, c.exhaustionCall(k))
		}
		if len(k.Messages) > 0 {
			claims = append(claims, claim(&k.Row, k.Messages, got.Now))
		}
	}
	if len(exhausted) > 0 {
		if err := c.commits.submit("claim", exhausted...); err != nil {
			return nil, err
		}
	}
	if len(claims) == 0 && len(got.Keys) > 0 {
		return nil, errNothing
	}
	return claims, nil
}

// exhaustionCall returns the call that moves messages which have been delivered too often to
// quarantine.
func (c *claimer) exhaustionCall(k *LeasedKey) *call {
	e := &exhaustion{lease: store.Lease{Key: k.Row.Key, Token: store.Token(k.Row.Token)}}
	size := 0
	for i := range k.Exhausted {
		e.messages = append(e.messages, exhaustedMessage{k.Exhausted[i].ID, k.Exhausted[i].Seq})
		size += len(k.Exhausted[i].Body) + opSize
	}
	return newCall(c.life.ctx, operation{exhausted: e}, size)
}

// releasePicked releases what was leased for a call that fails. It takes the lock.
func (c *claimer) releasePicked(got *LeaseResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range got.Keys {
		c.releaseOrphan(store.Lease{Key: got.Keys[i].Row.Key, Token: store.Token(got.Keys[i].Row.Token)})
	}
}
