package workerlink

import (
	"errors"
	"fmt"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/workerpb"
)

// EncodeBatch returns operations of an entity as they travel.
func EncodeBatch(b *engine.EntityBatch) *workerpb.EntityBatch {
	m := &workerpb.EntityBatch{Tenant: b.Ref.Tenant, Entity: b.Ref.ID, State: b.State, HasState: b.State != nil, NowUs: Micros(b.Now)}
	for i := range b.Operations {
		op := &b.Operations[i]
		m.Operations = append(m.Operations, &workerpb.EntityOperation{Name: op.Name, Input: op.Input, Request: op.Request, Call: op.Call, From: op.From.ID})
	}
	return m
}

// DecodeBatch returns operations that have travelled.
func DecodeBatch(m *workerpb.EntityBatch) (*engine.EntityBatch, error) {
	name, key, err := engine.ParseEntityID(m.GetEntity())
	if err != nil {
		return nil, err
	}
	b := &engine.EntityBatch{Ref: engine.Ref{Tenant: m.GetTenant(), ID: m.GetEntity()}, Name: name, Key: key, Now: Time(m.GetNowUs())}
	b.State = present(m.GetState(), m.GetHasState())
	for _, op := range m.GetOperations() {
		o := engine.EntityOperation{Name: op.GetName(), Input: op.GetInput(), Request: op.GetRequest(), Call: op.GetCall()}
		if op.GetFrom() != "" {
			o.From = engine.Ref{Tenant: m.GetTenant(), ID: op.GetFrom()}
		}
		b.Operations = append(b.Operations, o)
	}
	return b, nil
}

// present returns a state that may be empty, and nil if there is none.
func present(state []byte, has bool) []byte {
	switch {
	case !has:
		return nil
	case state == nil:
		return []byte{}
	}
	return state
}

// EncodeOutcome returns what came of a batch as it travels.
func EncodeOutcome(out *engine.EntityOutcome, err error) *workerpb.EntityOutcome {
	if err == nil && out == nil {
		err = errors.New("the code of the entity returned nothing")
	}
	if err != nil {
		return &workerpb.EntityOutcome{Error: history.Cut(err.Error()), Gone: errors.Is(err, engine.ErrUnavailable)}
	}
	m := &workerpb.EntityOutcome{State: out.State, HasState: out.State != nil}
	for i := range out.Results {
		m.Results = append(m.Results, &workerpb.EntityResult{Data: out.Results[i].Data, Failure: EncodeFailure(out.Results[i].Failure)})
	}
	for i := range out.Signals {
		s := &out.Signals[i]
		m.Signals = append(m.Signals, &workerpb.EntitySignal{To: s.To, Name: s.Name, Input: s.Input, AtUs: Micros(s.At)})
	}
	for i := range out.Starts {
		s := &out.Starts[i]
		m.Starts = append(m.Starts, EncodeStart(s))
	}
	return m
}

// DecodeOutcome returns what came of a batch. An error of the code is returned as it is.
func DecodeOutcome(m *workerpb.EntityOutcome) (*engine.EntityOutcome, error) {
	if m.GetGone() {
		return nil, fmt.Errorf("abide: worker: %s: %w", m.GetError(), engine.ErrUnavailable)
	}
	if m.GetError() != "" {
		return nil, errors.New(m.GetError())
	}
	out := &engine.EntityOutcome{State: present(m.GetState(), m.GetHasState())}
	for i, r := range m.GetResults() {
		failure, err := DecodeFailure(r.GetFailure())
		if err != nil {
			return nil, fmt.Errorf("result %d: %w", i+1, err)
		}
		out.Results = append(out.Results, engine.EntityResult{Data: r.GetData(), Failure: failure})
	}
	for _, s := range m.GetSignals() {
		out.Signals = append(out.Signals, engine.EntitySignal{To: s.GetTo(), Name: s.GetName(), Input: s.GetInput(), At: Time(s.GetAtUs())})
	}
	for i, s := range m.GetStarts() {
		start, err := DecodeStart(s)
		if err != nil {
			return nil, fmt.Errorf("start %d: %w", i+1, err)
		}
		out.Starts = append(out.Starts, start)
	}
	return out, nil
}

// SizeOfBatch returns about how many bytes a batch has.
func SizeOfBatch(m *workerpb.EntityBatch) int {
	size := SizeOf(m.GetState())
	for _, op := range m.GetOperations() {
		size += SizeOf(op.GetInput())
	}
	return size
}

// SizeOfOutcome returns about how many bytes an outcome has.
func SizeOfOutcome(m *workerpb.EntityOutcome) int {
	size := SizeOf(m.GetState())
	for _, r := range m.GetResults() {
		size += SizeOf(r.GetData(), r.GetFailure())
	}
	for _, s := range m.GetSignals() {
		size += SizeOf(s.GetInput())
	}
	for _, s := range m.GetStarts() {
		size += SizeOf(s.GetInput())
	}
	return size
}
