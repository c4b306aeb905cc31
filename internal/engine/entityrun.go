package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/store"
)

// entityTurn is a claim of an entity and the transaction that is made of it.
type entityTurn struct {
	e     *Engine
	claim *store.Claim
	ctx   context.Context //nolint:containedctx // the batch is the lifetime of the context

	ref       Ref
	name, key string
	began     time.Time

	state      entityState
	items      []entityItem      // of the messages of the claim, in order
	unreadable []store.PutRecord // messages that go to quarantine
}

// batchError is the error of code that failed as a whole.
type batchError struct{ err error }

func (e *batchError) Error() string { return "abide: operations of an entity: " + e.err.Error() }
func (e *batchError) Unwrap() error { return e.err }

// entity works on a claim of an entity, from the claim to its end. The claim is held while the engine waits
// before it tries again, as the messages must stay in order: see pauseHolding.
func (e *Engine) entity(j *job) {
	c := j.Claim
	ctx, stop := context.WithCancelCause(e.working)
	defer stop(nil)
	e.keeper.Keep(c, func() {
		stop(ErrLost)
		j.shouldEnd()
	})
	defer e.keeper.Drop(c.Lease())
	b := &entityTurn{e: e, claim: c, ctx: ctx, ref: refOf(c.Key), began: e.clock.Now()}
	err := b.run()
	var failed *batchError
	switch {
	case err == nil:
	case errors.Is(err, store.ErrClaimLost), errors.Is(context.Cause(ctx), ErrLost):
		e.lose(QueueEntities)
	case e.working.Err() != nil, errors.Is(err, store.ErrConflict):
		e.giveBack(c)
	case errors.Is(err, errLater):
		e.giveBackLater(c)
	case errors.Is(err, ErrOutdated):
		e.leaveOutdated(c, err)
	case errors.Is(err, store.ErrCorrupt):
		e.unreadable(c, aboutClaim(c), err)
	case errors.As(err, &failed) && !errors.Is(err, ErrUnavailable):
		e.log.Warn("operations of entity failed, trying again", b.about(), "attempt", b.attempts(), "error", err)
		e.pauseHolding(c)
		e.releaseAs(store.Release{Lease: c.Lease()})
	default:
		if errors.Is(err, ErrUnavailable) {
			e.log.Warn("executor unavailable, claim released", b.about(), "error", err)
		} else { // the store's outage is logged once
			e.log.Debug("operations of entity aborted by store error, claim released", b.about(), "error", err)
		}
		e.pauseHolding(c)
		e.giveBack(c)
	}
}

// about returns what log lines say about the entity.
func (b *entityTurn) about() slog.Attr { return aboutClaim(b.claim) }

// attempts returns how often the first of the operations was begun, as far as that counts.
func (b *entityTurn) attempts() int { return b.claim.Attempt() - b.state.forgiven }

// run reads the entity, runs its operations and commits what came of them.
func (b *entityTurn) run() error {
	if err := b.load(); err != nil {
		return err
	}
	limit := MaxEntityBatch
	if b.attempts() > suspectAfter {
		limit = 1
	}
	for {
		p := b.plan(limit)
		if b.attempts() > b.e.cfg.TurnAttempts && len(p.run) > 0 {
			return b.giveUp()
		}
		out, err := b.call(p)
		if err != nil {
			return err
		}
		if len(out.Results) < len(p.run) {
			p = b.plan(len(out.Results))
		}
		err = b.check(p, out)
		if err == nil {
			err = b.commit(p, out)
		}
		switch {
		case !errors.Is(err, store.ErrInvalid) && !errors.Is(err, ErrInvalid), len(p.run) == 0:
			return err
		case len(p.run) == 1:
			failure := &history.Failure{Message: fmt.Sprintf("what came of it cannot be kept: %v", err), Final: true}
			return b.commit(b.plan(1), b.failed(failure))
		}
		limit = len(p.run) / 2
	}
}

// load reads the messages and the record.
func (b *entityTurn) load() (err error) {
	if b.name, b.key, err = ParseEntityID(b.ref.ID); err != nil {
		return fmt.Errorf("%w: %w", err, store.ErrCorrupt)
	}
	for i := range b.claim.Messages {
		m := &b.claim.Messages[i]
		decoded, err := decodeEntityMessage(m.Body)
		if errors.Is(err, errLater) && b.e.leaveLater(b.claim, err) {
			return err
		}
		if err != nil {
			b.e.log.Error("message undecodable, quarantined", b.about(), "message", m.ID, "error", err)
			b.unreadable = append(b.unreadable, store.Quarantine(*m, b.claim.Route, ReasonUndecodable, b.claim.Now))
			continue
		}
		b.items = append(b.items, entityItem{id: m.ID, message: m, entityMessage: decoded})
	}
	r, err := b.e.store.Get(b.ctx, b.ref.entityRecord())
	switch {
	case err == nil:
		b.state, err = entityOf(r)
	case errors.Is(err, store.ErrNotFound):
		err = nil
	}
	return err
}

// call runs the operations of a plan.
func (b *entityTurn) call(p *entityPlan) (out *EntityOutcome, err error) {
	batch := &EntityBatch{Ref: b.ref, Name: b.name, Key: b.key, Now: b.claim.Now}
	if b.state.exists {
		batch.State = b.state.state
	}
	if len(p.run) == 0 {
		return &EntityOutcome{State: batch.State}, nil
	}
	for i := range p.run {
		item := &p.run[i]
		op := EntityOperation{Name: item.name, Input: item.input, Request: item.request, Call: item.kind == entityCall}
		if item.from != "" {
			op.From = Ref{Tenant: b.ref.Tenant, ID: item.from}
		}
		batch.Operations = append(batch.Operations, op)
	}
	if caught := claimloop.Catch(func() { out, err = b.e.entityCode(b.name)(b.ctx, batch) }); caught != nil {
		err = fmt.Errorf("panic: %v", caught.Value)
	}
	switch {
	case err != nil:
		return nil, &batchError{err}
	case out != nil && b.ctx.Err() != nil && slices.ContainsFunc(out.Results, EntityResult.failed):
		return nil, &batchError{fmt.Errorf("an operation failed after it was told to stop: %w", context.Cause(b.ctx))}
	case out == nil || len(out.Results) == 0:
		return nil, &batchError{errors.New("no operation has a result")}
	case len(out.Results) > len(p.run):
		return nil, &batchError{fmt.Errorf("%d operations have %d results", len(p.run), len(out.Results))}
	}
	return out, nil
}

// check reports whether what came of a batch keeps the limits.
func (b *entityTurn) check(p *entityPlan, out *EntityOutcome) error {
	if len(p.run) == 0 {
		return nil
	}
	if err := checkPayload("the state of "+b.ref.String(), out.State); err != nil {
		return err
	}
	for i := range out.Signals {
		s := &out.Signals[i]
		if _, err := entityRef(b.ref.Tenant, s.To); err != nil {
			return err
		}
		if err := checkOperation(s.Name, s.Input); err != nil {
			return err
		}
	}
	for i := range out.Starts {
		out.Starts[i].Tenant = b.ref.Tenant
	}
	return checkStarts(out.Starts)
}

// checkOperation reports whether an operation has a name and an input that can be sent.
func checkOperation(name string, input []byte) error {
	if err := checkName("operation", name); err != nil {
		return err
	}
	return checkPayload(fmt.Sprintf("the input of operation %q", name), input)
}

// giveUp puts the first operation, which never came to an end, into quarantine, and tells its caller.
func (b *entityTurn) giveUp() error {
	p := b.plan(1)
	b.e.log.Error("operation of entity failed too often, quarantined", b.about(), "operation", p.run[0].name, "attempts", b.attempts())
	p.quarantine(&p.run[0], store.ReasonAttempts)
	return b.commit(p, b.failed(&history.Failure{
		Type: TypeCrashed, Message: fmt.Sprintf("operation %q was begun %d times and did not come to an end", p.run[0].name, b.attempts()-1), Final: true,
	}))
}

// failed returns the outcome of one operation that failed and changed nothing.
func (b *entityTurn) failed(failure *history.Failure) *EntityOutcome {
	out := &EntityOutcome{Results: []EntityResult{{Failure: failure}}}
	if b.state.exists {
		out.State = b.state.state
	}
	return out
}

// commit makes all of the batch durable, or nothing.
func (b *entityTurn) commit(p *entityPlan, out *EntityOutcome) error {
	for i := range p.run {
		p.answer(&p.run[i], &out.Results[i])
	}
	for i := range out.Signals {
		s := &out.Signals[i]
		to, err := entityRef(b.ref.Tenant, s.To)
		if err != nil {
			return err
		}
		id := unique()
		m := entityMessage{kind: entitySignal, name: s.Name, input: s.Input, request: id}
		p.tx.Put = append(p.tx.Put, to.entityMessage(prefixSignal+"/"+id, &m, s.At))
	}
	if len(p.run) > 0 {
		p.state.exists, p.state.state, p.state.modified, p.changed = out.State != nil, out.State, b.claim.Now, true
	}
	if p.state.modified.IsZero() {
		p.state.modified = b.claim.Now
	}
	if p.state.holder == nil && len(p.state.backlog) > 0 {
		p.tx.Put = append(p.tx.Put, b.ref.entityMessage(idWake, &entityMessage{kind: entityWake}, noTime))
	}
	b.forgive(p)
	p.tx.Finish = []store.Finish{{Lease: b.claim.Lease(), Keep: p.keep}}
	p.tx.PutRecords = append(p.tx.PutRecords, b.unreadable...)
	switch {
	case !p.state.nothing() && p.changed:
		p.tx.PutRecords = append(p.tx.PutRecords, p.state.put(b.ref, b.name))
	case p.state.nothing() && p.state.version > 0:
		p.tx.DeleteRecords = []store.DeleteRecord{{Key: b.ref.entityRecord(), Expect: p.state.version}}
	}
	err := b.commitWithStarts(&p.tx, out.Starts)
	if err == nil {
		b.e.meters.batched(b, p, out)
	}
	return err
}

// forgive notes how often the messages that are kept were delivered: that they were not handled is not their fault.
func (b *entityTurn) forgive(p *entityPlan) {
	forgiven := 0
	if len(p.keep) > 0 {
		forgiven = b.claim.Attempt()
	}
	if forgiven != p.state.forgiven {
		p.state.forgiven, p.changed = forgiven, true
	}
}

// commitWithStarts commits a transaction together with the instances that the operations start. One whose ID is
// taken is not started: see commitWithChildren.
func (b *entityTurn) commitWithStarts(base *store.Tx, starts []Start) error {
	taken := make([]bool, len(starts))
	for {
		tx := store.Tx{}
		merge(&tx, base)
		for i := range starts {
			if !taken[i] {
				b.addStart(&tx, starts[i])
			}
		}
		err := b.e.store.Commit(context.Background(), &tx)
		if !errors.Is(err, store.ErrConflict) || len(starts) == 0 {
			return err
		}
		found := false
		for i := range starts {
			if taken[i] {
				continue
			}
			_, err := b.e.store.Get(b.ctx, starts[i].Ref.record())
			switch {
			case err == nil:
				taken[i], found = true, true
			case !errors.Is(err, store.ErrNotFound):
				return err
			}
		}
		if !found { // then it is the entity itself that is in conflict
			return err
		}
	}
}

// addStart adds the record and the start message of an instance.
func (b *entityTurn) addStart(tx *store.Tx, s Start) {
	if s.After > 0 {
		s.At = b.claim.Now.Add(s.After)
	}
	info, start := s.instance(b.claim.Now, span{})
	tx.PutRecords = append(tx.PutRecords, info.putRecord(0))
	tx.Put = append(tx.Put, store.Message{Key: s.Ref.key(), ID: idStart, Route: info.keyRoute(), VisibleAt: s.At, Body: start.encode()})
	if len(info.Limits) > 0 {
		tx.Put = append(tx.Put, info.enterLimits(s.At))
	}
	b.e.suspectUnserved(queueTurns, info.Route())
}
