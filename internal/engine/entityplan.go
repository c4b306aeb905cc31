package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// noTime is the time of a message that is visible at once.
var noTime time.Time

// entityPlan is what a batch does: the operations that run, and what does not depend on how they end. It is
// a function of the record, the messages and the limit, so that it can be made again with a lower one.
type entityPlan struct {
	ref      Ref
	now      time.Time
	limits   backlogLimits
	state    entityState // after the batch; without the state that the operations leave
	run      []entityItem
	keep     []string // IDs of messages that are delivered again
	tx       store.Tx // locks that are passed on, answers, and what goes to quarantine
	changed  bool
	most     int   // operations to run
	waiting  int   // about how many bytes wait in the record
	waits    int64 // operations and requests for locks that begin to wait
	released bool  // the item that was offered last has released the lock
	full     bool  // there was no room for an operation: nothing that comes after it is taken
}

// backlogLimits bound what waits for a lock: the number, and the bytes in the record.
type backlogLimits struct{ most, bytes int }

// plan plans a batch of at most limit operations.
func (b *entityTurn) plan(limit int) *entityPlan {
	p := &entityPlan{
		ref: b.ref, now: b.claim.Now, most: limit, state: b.state.clone(),
		limits: backlogLimits{b.e.cfg.MaxEntityBacklog, b.e.Client.limits.Record - MaxPayload - 128<<10},
	}
	for i := range p.state.backlog {
		p.waiting += p.state.backlog[i].size()
	}
	p.drain()
	for i := range b.items {
		item := &b.items[i]
		if !p.full {
			p.offer(item)
		}
		// A release is done although there is no room for all that has waited for it.
		if p.full && (len(p.keep) > 0 || !p.released) {
			p.keep = append(p.keep, item.id)
		}
		p.released = false
	}
	return p
}

// drain takes what has waited for the lock, for as long as the entity is free and there is room.
func (p *entityPlan) drain() {
	for p.state.holder == nil && len(p.state.backlog) > 0 {
		next := p.state.backlog[0]
		if p.offer(&next); p.full {
			return
		}
		p.state.backlog, p.changed = p.state.backlog[1:], true
	}
}

// offer takes one item, or sets full if it is an operation for which there is no room.
func (p *entityPlan) offer(item *entityItem) {
	switch item.kind {
	case entitySignal, entityCall:
		p.operation(item)
	case entityLock:
		if p.state.holder != nil {
			p.wait(item)
			return
		}
		p.state.holder, p.changed = &lockHolder{item.from, item.run, item.event}, true
		p.passOn(item)
	case entityUnlock:
		p.unlock(item)
	default:
	}
}

func (p *entityPlan) operation(item *entityItem) {
	fresh := item.message != nil && item.once // what has waited was looked at before
	if fresh && slices.Contains(p.state.done, requestHash(item.request)) {
		return
	}
	if h := p.state.holder; h != nil && (h.instance != item.from || h.run != item.run) {
		p.wait(item)
	} else {
		if len(p.run) >= p.most {
			p.full = true
			return
		}
		p.run = append(p.run, *item)
	}
	if fresh {
		p.state.done, p.changed = append(p.state.done, requestHash(item.request)), true
		p.state.done = p.state.done[max(len(p.state.done)-maxDone, 0):]
	}
}

// wait keeps an item until the entity is free. If there is no room for it, a call fails; signals and requests go
// to quarantine, as nobody would be told.
func (p *entityPlan) wait(item *entityItem) {
	if len(p.state.backlog) < p.limits.most && p.waiting+item.size() <= p.limits.bytes {
		kept := *item
		kept.message = nil
		p.waiting += item.size()
		p.state.backlog, p.changed = append(p.state.backlog, kept), true
		p.waits++
		return
	}
	if item.kind == entityCall {
		p.answer(item, &EntityResult{Failure: &history.Failure{
			Type: TypeBusy, Message: fmt.Sprintf("entity %q is locked, and %d operations wait for it", p.ref.ID, len(p.state.backlog)),
		}})
		return
	}
	p.quarantine(item, ReasonBacklog)
}

// size returns about how many bytes an item has in the record.
func (i *entityItem) size() int {
	n := 64 + len(i.id) + len(i.name) + len(i.input) + len(i.request) + len(i.from)
	for _, id := range i.set {
		n += len(id) + 2
	}
	return n
}

// quarantine puts an item where an operator can see it.
func (p *entityPlan) quarantine(item *entityItem, reason string) {
	m := item.message
	if m == nil {
		made := p.ref.entityMessage(item.id, &item.entityMessage, noTime)
		made.PutAt = p.now
		m = &made
	}
	name, _, _ := ParseEntityID(p.ref.ID)
	p.tx.PutRecords = append(p.tx.PutRecords, store.Quarantine(*m, name, reason, p.now))
}

// passOn sends a request or a release to the next entity, or tells the instance that it has all locks.
func (p *entityPlan) passOn(item *entityItem) {
	m := item.entityMessage
	m.at++
	switch {
	case m.at < len(m.set):
		prefix := prefixOperated
		if m.kind == entityUnlock {
			prefix = prefixUnlock
		}
		next := Ref{Tenant: p.ref.Tenant, ID: m.set[m.at]}
		p.tx.Put = append(p.tx.Put, next.entityMessage(messageID(prefix, m.run, m.event), &m, noTime))
	case m.kind == entityLock:
		p.tx.Put = append(p.tx.Put, lockGranted(Ref{Tenant: p.ref.Tenant, ID: m.from}, m.run, m.event))
	}
}

// unlock releases the lock, or drops the request that waits for it.
func (p *entityPlan) unlock(item *entityItem) {
	if h := p.state.holder; h != nil && h.run == item.run && h.event == item.event {
		p.state.holder, p.changed = nil, true
		p.passOn(item)
		p.drain()
		p.released = true
		return
	}
	before := len(p.state.backlog)
	p.state.backlog = slices.DeleteFunc(slices.Clone(p.state.backlog), func(w entityItem) bool {
		return w.kind == entityLock && w.run == item.run && w.event == item.event
	})
	p.changed = p.changed || len(p.state.backlog) != before
}

// answer sends the result of a call to its caller. A signal has none.
func (p *entityPlan) answer(item *entityItem, r *EntityResult) {
	if item.kind != entityCall {
		return
	}
	e := history.Event{Kind: history.EntityCompleted, Ref: item.event, Data: r.Data}
	switch {
	case r.Failure != nil:
		e = history.Event{Kind: history.EntityFailed, Ref: item.event, Failure: r.Failure.Bounded()}
	case len(r.Data) > MaxPayload:
		e = history.Event{Kind: history.EntityFailed, Ref: item.event, Failure: TooLarge(r.Data)}
	}
	b := body{kind: bodyEvents, run: item.run, events: []history.Event{e}}
	p.tx.Put = append(p.tx.Put, store.Message{
		Key: Ref{Tenant: p.ref.Tenant, ID: item.from}.key(), ID: messageID(prefixEntity, item.run, item.event), IfRouted: true, Body: b.encode(),
	})
}
