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
	p := &gatePlan{gateTurn: g, now: g.now, limit: g.limit, state: g.state}
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

// withdraw removes work that waits here or was admitted. What does not wait here may be further on, and run any
// moment: until a gate has found that it does not, the gates before keep its units, for a lease at most.
func (p *gatePlan) withdraw(m *gateMessage) error {
	if i := slices.IndexFunc(p.entering, func(e gateMessage) bool { return e.work == m.work }); i >= 0 {
		p.leaveBefore(&p.entering[i])
		p.entering = slices.Delete(p.entering, i, i+1)
		return nil
	}
	next := *m
	if err := p.drop(&next); err != nil {
		return err
	}
	last := m.at+1 == len(m.limits)
	switch i := p.state.find(m.work); {
	case i >= 0 && last && !next.claimed:
		next.entry = p.state.holders[i].entry
		p.leaveBefore(&next)
		p.state.holders = slices.Delete(p.state.holders, i, i+1)
	case i >= 0:
		p.state.holders[i].until = p.now.Add(p.e.cfg.LeaseDuration)
	case p.state.waiting > 0:
		if found, err := p.withdrawWaiting(m.work); found || err != nil {
			return err
		}
	}
	if !last {
		next.at++
		p.tx.Put = append(p.tx.Put, next.message(p.claim.Key.Tenant, noTime))
	}
	return nil
}

// withdrawWaiting removes work that waits here, and reports whether it does.
func (p *gatePlan) withdrawWaiting(work string) (found bool, err error) {
	r, err := p.e.store.Get(p.ctx, waitingRecord(p.claim.Key.Tenant, work))
	if errors.Is(err, store.ErrNotFound) || err == nil && r.Status != p.name {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m, err := decodeGateMessage(r.Body, p.claim.Key.Tenant)
	if err != nil {
		return false, errors.Join(err, store.ErrCorrupt)
	}
	p.leaveBefore(&m)
	p.tx.DeleteRecords = append(p.tx.DeleteRecords, store.DeleteRecord{Key: r.Key, Expect: r.Version})
	p.state.waiting--
	return true, nil
}

// leaveBefore has work leave the gates that it has passed on its way here.
func (p *gatePlan) leaveBefore(m *gateMessage) {
	leave(&p.tx, p.claim.Key.Tenant, m.work, m.entry, m.limits[:m.at])
}

// drop deletes the task of work that is withdrawn, if it was put. It may be claimed before that is committed, so
// that it counts as claimed in any case.
func (p *gatePlan) drop(m *gateMessage) error {
	if m.admits.Key.Name == "" {
		return nil
	}
	pending, err := p.e.store.Pending(p.ctx, m.admits.Key, 1)
	if err != nil || len(pending) == 0 {
		return err
	}
	m.claimed = true
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
	p.e.suspectTask(&m.admits)
}

// suspectTask has the engine look whether a process serves a task that is put.
func (e *Engine) suspectTask(m *store.Message) {
	if m.Key.Queue == QueueActivities {
		e.suspectUnserved(QueueActivities, m.Route)
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
// a token of the rate arrives, or it is time for an audit. The gate of a key without work is deleted when all tokens
// are there again.
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
	case p.state.limit.Keyed && len(p.state.holders) == 0 && p.state.next > p.now.UnixNano():
		at = time.Unix(0, p.state.next).UTC().Add(time.Millisecond)
	default:
		p.state.dropLook(&p.tx, p.claim.Key)
		return
	}
	if l := p.state.look; l.After(p.now) && !at.Before(l) {
		return // it comes before
	}
	p.state.look = at
	p.tx.Put = append(p.tx.Put, lookMessage(p.claim.Key, at))
	p.tx.Retime = append(p.tx.Retime, store.Retime{Ref: store.MessageRef{Key: p.claim.Key, ID: idLook}, VisibleAt: at})
}

// dropLook deletes the message that has the gate claimed again, as there is nothing to look for.
func (s *gateState) dropLook(tx *store.Tx, key store.Key) {
	if !s.look.IsZero() {
		tx.Delete = append(tx.Delete, store.MessageRef{Key: key, ID: idLook})
		s.look = time.Time{}
	}
}

// lookMessage has a gate claimed at a time.
func lookMessage(key store.Key, at time.Time) store.Message {
	m := gateMessage{kind: gateLook}
	return store.Message{Key: key, ID: idLook, Route: routeLimits, VisibleAt: at, Body: m.encode()}
}
