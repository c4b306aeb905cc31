package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// maxAdmit is how many pieces of work a gate admits at once that have waited, and auditEvery how often a gate
// looks for work that is gone.
const (
	maxAdmit   = 500
	auditEvery = 30 * time.Second
	auditMost  = 256
)

// gateTries is how often a claim of a gate is tried that has conflicts.
const gateTries = 5

// gateTurn is a claim of a gate and the transaction that is made of it.
type gateTurn struct {
	e     *Engine
	claim *store.Claim
	ctx   context.Context //nolint:containedctx // the batch is the lifetime of the context
	name  string          // of the gate
	now   time.Time       // by the store's clock

	items      []gateItem
	unreadable []store.PutRecord // messages that go to quarantine
	limit      limitState
	state      gateState
}

// gateItem is a message that has reached a gate.
type gateItem struct {
	id string
	gateMessage
}

// gate works on a claim of a gate, from the claim to its end.
func (e *Engine) gate(j *job) {
	c := j.Claim
	ctx, stop := context.WithCancelCause(e.working)
	defer stop(nil)
	e.keeper.Keep(c, func() {
		stop(ErrLost)
		j.shouldEnd()
	})
	defer e.keeper.Drop(c.Lease())
	g := &gateTurn{e: e, claim: c, ctx: ctx, name: c.Key.Name}
	err := g.decode()
	if _, _, keyed := splitGate(g.name); !keyed {
		defer e.gates.lock(c.Key)()
	}
	g.now = c.Now
	if now, known := e.siblings.times.now(e.clock.Now()); known && now.After(g.now) {
		g.now = now // it took a while to get here, and tokens are spent at the time at which work begins
	}
	for i := 0; err == nil && i < gateTries; i++ {
		if err = g.run(); !errors.Is(err, store.ErrConflict) {
			break
		}
		g.forgetRule()
		if i+1 < gateTries {
			err = nil
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, store.ErrClaimLost), errors.Is(context.Cause(ctx), ErrLost):
		e.lose(queueLimits)
	case e.working.Err() != nil, errors.Is(err, store.ErrConflict):
		e.giveBack(c)
	case errors.Is(err, errLater):
		e.giveBackLater(c)
	case errors.Is(err, store.ErrCorrupt):
		e.unreadable(c, g.about(), err)
	default:
		e.log.Debug("gate aborted by store error, claim released", g.about(), "error", err)
		e.pauseHolding(c)
		e.giveBack(c)
	}
}

// about returns what log lines say about the gate.
func (g *gateTurn) about() slog.Attr { return aboutClaim(g.claim) }

// decode reads the messages.
func (g *gateTurn) decode() error {
	for i := range g.claim.Messages {
		m := &g.claim.Messages[i]
		decoded, err := decodeGateMessage(m.Body, g.claim.Key.Tenant)
		if errors.Is(err, errLater) && g.e.leaveLater(g.claim, err) {
			return err
		}
		if err != nil {
			g.e.log.Error("message undecodable, quarantined", g.about(), "message", m.ID, "error", err)
			g.unreadable = append(g.unreadable, store.Quarantine(*m, g.claim.Route, ReasonUndecodable, g.claim.Now))
			continue
		}
		g.items = append(g.items, gateItem{m.ID, decoded})
	}
	return nil
}

// run reads the gate, and commits what the messages do. What is too much for one commit is divided.
func (g *gateTurn) run() error {
	if err := g.load(); err != nil {
		return err
	}
	for most := max(len(g.items), maxAdmit); ; most /= 2 {
		p := g.newPlan()
		if err := p.make(most); err != nil {
			return err
		}
		err := g.commit(p)
		if !errors.Is(err, store.ErrInvalid) || most <= 1 {
			return err
		}
	}
}

// load reads the record of the gate and, unless it is remembered, that of its limit.
func (g *gateTurn) load() (err error) {
	name, key, keyed := splitGate(g.name)
	if slices.ContainsFunc(g.items, func(m gateItem) bool { return m.kind == gateLook }) {
		g.forgetRule() // it may have changed
	}
	if g.limit, err = g.e.rules.limit(g.ctx, g.e.store, g.claim.Key.Tenant, name, g.e.clock.Now()); err != nil {
		return err
	}
	r, err := g.e.store.Get(g.ctx, gateRecord(g.claim.Key.Tenant, g.name))
	switch {
	case errors.Is(err, store.ErrNotFound):
		g.state = gateState{limit: history.Limit{Name: name, Keyed: keyed, Key: key}}
		return nil
	case err != nil:
		return err
	}
	g.state, err = gateOf(r)
	return err
}

// commit makes all of the plan durable, or nothing.
func (g *gateTurn) commit(p *gatePlan) error {
	p.tx.Finish = []store.Finish{{Lease: g.claim.Lease(), Keep: p.keep}}
	p.tx.PutRecords = append(p.tx.PutRecords, g.unreadable...)
	if p.learned {
		p.tx.PutRecords = append(p.tx.PutRecords, p.limit.put(g.claim.Key.Tenant))
	}
	switch {
	case !p.state.idle(p.now):
		p.tx.PutRecords = append(p.tx.PutRecords, p.state.put(g.claim.Key.Tenant, p.now))
	case p.state.version > 0:
		p.tx.DeleteRecords = append(p.tx.DeleteRecords, store.DeleteRecord{Key: gateRecord(g.claim.Key.Tenant, g.name), Expect: p.state.version})
	}
	if p.learned {
		defer g.forgetRule() // also if nobody knows whether it was committed
	}
	if err := g.e.store.Commit(context.Background(), &p.tx); err != nil {
		return err
	}
	g.e.meters.gate(p)
	return nil
}

// forgetRule has the rule read again.
func (g *gateTurn) forgetRule() {
	name, _, _ := splitGate(g.name)
	g.e.rules.forget(limitRecord(g.claim.Key.Tenant, name))
}

// audit finds work that was admitted and is gone. Work that two audits in a row have missed is taken to have
// ended: between two gates it is nowhere for a moment.
func (p *gatePlan) audit() error {
	g := p.gateTurn
	looked := 0
	var gone []gateHolder
	for i := range p.state.holders {
		h := &p.state.holders[i]
		if g.now.Sub(h.at) < auditEvery || looked == auditMost {
			break
		}
		if !h.until.IsZero() {
			continue
		}
		looked++
		there, err := g.exists(h.work)
		if err != nil {
			return err
		}
		if !there && h.missed {
			gone = append(gone, *h)
		}
		h.missed = !there
	}
	for _, h := range gone {
		g.e.log.Warn("work under a limit is gone, its unit is free", g.about(), "work", h.work)
		p.state.free(h.work, h.entry)
	}
	return nil
}

// exists reports whether work is pending, runs, or waits at a gate.
func (g *gateTurn) exists(work string) (bool, error) {
	tenant := g.claim.Key.Tenant
	if name, ok := strings.CutPrefix(work, workOfTask); ok {
		pending, err := g.e.store.Pending(g.ctx, store.Key{Queue: QueueActivities, Tenant: tenant, Name: name}, 1)
		if err != nil || len(pending) > 0 {
			return err == nil, err
		}
		_, err = g.e.store.Get(g.ctx, waitingRecord(tenant, work))
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
	_, id, _ := strings.Cut(strings.TrimPrefix(work, workOfInstance), "/")
	info, err := g.e.Client.Get(g.ctx, Ref{Tenant: tenant, ID: id})
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && !info.Status.Ended() && instanceWork(&info) == work, err
}
