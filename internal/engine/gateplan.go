package engine

import (
	"errors"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

// gatePlan is what a claim of a gate does. It is made of the records and the messages, and can be made again
// with fewer of them.
type gatePlan struct {
	*gateTurn

	now     time.Time
	limit   limitState
	state   gateState // after the batch
	learned bool      // the record of the limit has changed

	entering []gateMessage // in the order of their ranks
	keep     []string      // IDs of messages that are delivered again
	tx       store.Tx
	looked   bool
	soon     bool            // there is more to admit
	waits    []time.Duration // for which what is admitted has waited
}

func (g *gateTurn) newPlan() *gatePlan {
	p := &gatePlan{gateTurn: g, now: g.claim.Now, limit: g.limit, state: g.state}
	p.state.holders = slices.Clone(g.state.holders)
	return p
}

// make plans what at most that many messages do, and admits at most as many that have waited.
func (p *gatePlan) make(most int) error {
	for i := range p.items {
		if i >= most {
			p.keep = append(p.keep, p.items[i].id)
			continue
		}
		if err := p.take(&p.items[i].gateMessage); err != nil {
			return err
		}
	}
	p.state.holders = slices.DeleteFunc(p.state.holders, func(h gateHolder) bool { return !h.until.IsZero() && !h.until.After(p.now) })
	if p.looked {
		p.state.look = time.Time{}
		if p.state.waiting > 0 {
			if err := p.audit(); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(p.entering, func(a, b gateMessage) int { return a.rank().Compare(b.rank()) })
	if err := p.admit(min(most, maxAdmit)); err != nil {
		return err
	}
	for i := range p.entering {
		p.wait(&p.entering[i])
	}
	p.lookAgain()
	return nil
}

// take takes a message.
func (p *gatePlan) take(m *gateMessage) error {
	switch m.kind {
	case gateEnter:
		p.learned = p.limit.learn(m.limits[m.at], m.declared) || p.learned
		p.entering = append(p.entering, *m)
	case gateLeave:
		p.state.free(m.work, m.entry)
	case gateWithdraw:
		return p.withdraw(m)
	case gateLook:
		p.looked = true
	}
	return nil
}

// withdraw removes work that waits here or was admitted. What does not wait here may be further on.
func (p *gatePlan) withdraw(m *gateMessage) error {
	n := len(p.entering)
	p.entering = slices.DeleteFunc(p.entering, func(e gateMessage) bool { return e.work == m.work })
	if len(p.entering) < n {
		return nil
	}
	next := *m
	if err := p.drop(&next); err != nil {
		return err
	}
	if i := p.state.find(m.work); i >= 0 && next.claimed {
		p.state.holders[i].until = p.now.Add(p.e.cfg.LeaseDuration)
	} else if i >= 0 {
		p.state.holders = slices.Delete(p.state.holders, i, i+1)
	} else if p.state.waiting > 0 {
		r, err := p.e.store.Get(p.ctx, waitingRecord(p.claim.Key.Tenant, m.work))
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case r.Status == p.name:
			p.tx.DeleteRecords = append(p.tx.DeleteRecords, store.DeleteRecord{Key: r.Key, Expect: r.Version})
			p.state.waiting--
			return nil
		}
	}
	if next.at++; next.at < len(next.limits) {
		p.tx.Put = append(p.tx.Put, next.message(p.claim.Key.Tenant, noTime))
	}
	return nil
}

// drop deletes the task of work that is withdrawn, if it was put, and notes if it was claimed.
func (p *gatePlan) drop(m *gateMessage) error {
	if m.admits.Key.Name == "" {
		return nil
	}
	pending, err := p.e.store.Pending(p.ctx, m.admits.Key, 1)
	if err != nil || len(pending) == 0 {
		return err
	}
	m.claimed = m.claimed || pending[0].Attempt > 0
	p.tx.Delete = append(p.tx.Delete, m.admits.Ref())
	return nil
}

// admit admits what enters and what has waited, in the order of their ranks, as far as there is room.
func (p *gatePlan) admit(most int) error {
	rule := p.limit.rule()
	room := rule.room(&p.state, p.now)
	if room == 0 {
		return nil
	}
	waiting, more, err := p.first(min(room, most))
	if err != nil {
		return err
	}
	for ; room > 0; room-- {
		switch {
		case len(p.entering) > 0 && (len(waiting) == 0 && !more || len(waiting) > 0 && p.entering[0].rank().Before(waiting[0].rank)):
			p.pass(&rule, &p.entering[0])
			p.entering = p.entering[1:]
		case len(waiting) > 0:
			w := &waiting[0]
			p.pass(&rule, &w.gateMessage)
			p.tx.DeleteRecords = append(p.tx.DeleteRecords, store.DeleteRecord{Key: waitingRecord(p.claim.Key.Tenant, w.work), Expect: w.version})
			p.state.waiting--
			p.state.head = w.rank
			waiting = waiting[1:]
		default:
			p.soon = more
			return nil
		}
	}
	return nil
}

// queued is work that waits, as its record has it.
type queued struct {
	gateMessage
	rank    time.Time
	version int64
}

// first returns the first of what waits, and whether there is more behind it that could be admitted before what
// enters.
func (p *gatePlan) first(most int) (list []queued, more bool, err error) {
	if p.state.waiting == 0 {
		return nil, false, nil
	}
	tenant := p.claim.Key.Tenant
	deleted := map[string]bool{}
	for i := range p.tx.DeleteRecords {
		deleted[p.tx.DeleteRecords[i].Key.ID] = true
	}
	q := store.Query{Kind: kindWaiting, Tenant: &tenant, Statuses: []string{p.name}, From: p.state.head, Limit: min(most+len(deleted), store.MaxPage)}
	for {
		page, err := p.e.store.List(p.ctx, q)
		if err != nil {
			return nil, false, err
		}
		for i := range page.Records {
			r := &page.Records[i]
			if deleted[r.Key.ID] {
				continue
			}
			m, err := decodeGateMessage(r.Body, tenant)
			if err != nil {
				return nil, false, errors.Join(err, store.ErrCorrupt)
			}
			list = append(list, queued{m, r.Time, r.Version})
		}
		switch {
		case page.Next == "" && len(list) == 0 && !q.From.IsZero(): // it should not be, but work must not be lost
			q.From, q.Cursor = time.Time{}, ""
		case page.Next == "":
			p.state.waiting = len(list)
			return list, false, nil
		case len(list) > 0:
			return list, true, nil
		default:
			q.Cursor = page.Next
		}
	}
}

// pass admits work: it goes to its next gate or, from the last one, to where it runs.
func (p *gatePlan) pass(rule *rule, m *gateMessage) {
	p.state.next = rule.spend(p.state.next, p.now, 1)
	p.state.admitted++
	p.waits = append(p.waits, max(p.now.Sub(m.since), 0))
	if rule.concurrency > 0 {
		p.state.holders = append(p.state.holders, gateHolder{work: m.work, entry: m.entry, at: p.now})
	}
	if m.at+1 < len(m.limits) {
		next := *m
		next.at++
		p.tx.Put = append(p.tx.Put, next.message(p.claim.Key.Tenant, noTime))
		return
	}
	p.tx.Put = append(p.tx.Put, m.admits)
	if m.admits.Key.Queue == QueueActivities {
		p.e.suspectUnserved(QueueActivities, m.admits.Route)
	}
}

// wait puts the record of work that has to wait.
func (p *gatePlan) wait(m *gateMessage) {
	rank := m.rank()
	if p.state.waiting == 0 || rank.Before(p.state.head) {
		p.state.head = rank
	}
	p.state.waiting++
	p.tx.PutRecords = append(p.tx.PutRecords, store.PutRecord{Expect: 0, Record: store.Record{
		Key: waitingRecord(p.claim.Key.Tenant, m.work), Status: p.name, Name: m.limits[m.at].Name, Time: rank, Body: m.encode(),
	}})
}

// lookAgain has the gate claimed again when there is something to do without a message: there is more to admit,
// a token of the rate arrives, or it is time for an audit. A gate without work is deleted when all tokens are
// there again.
func (p *gatePlan) lookAgain() {
	rule := p.limit.rule()
	var at time.Time
	switch {
	case p.soon:
		at = p.now
	case p.state.waiting > 0 && !rule.paused && rule.tokens(p.state.next, p.now) == 0:
		at = rule.refilled(p.state.next, max(min(p.state.waiting, int(rule.burst)/2), 1))
	case p.state.waiting > 0:
		at = p.now.Add(auditEvery)
		if until := p.state.firstUntil(); !until.IsZero() && until.Before(at) {
			at = until
		}
	case !p.state.firstUntil().IsZero():
		at = p.state.firstUntil()
	case len(p.state.holders) == 0 && p.state.next > p.now.UnixNano():
		at = time.Unix(0, p.state.next).UTC().Add(time.Millisecond)
	default:
		return
	}
	if l := p.state.look; l.After(p.now) && !at.Before(l) {
		return // it comes before
	}
	p.state.look = at
	p.tx.Put = append(p.tx.Put, lookMessage(p.claim.Key, at))
	p.tx.Retime = append(p.tx.Retime, store.Retime{Ref: store.MessageRef{Key: p.claim.Key, ID: idLook}, VisibleAt: at})
}

// lookMessage has a gate claimed at a time.
func lookMessage(key store.Key, at time.Time) store.Message {
	m := gateMessage{kind: gateLook}
	return store.Message{Key: key, ID: idLook, Route: routeLimits, VisibleAt: at, Body: m.encode()}
}
