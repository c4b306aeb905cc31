package workerhost

import (
	"context"
	"fmt"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
)

// entity waits for the outcome of a batch.
type entity struct {
	outcome chan *workerpb.EntityOutcome // room for one
	lost    chan struct{}                // closed when the session ends
}

// Entity has the worker run operations of an entity. It is the [engine.EntityCode] of its entities.
func (s *Session) Entity(ctx context.Context, b *engine.EntityBatch) (*engine.EntityOutcome, error) {
	e := &entity{outcome: make(chan *workerpb.EntityOutcome, 1), lost: make(chan struct{})}
	m := workerlink.EncodeBatch(b)
	if !s.beginEntity(e, m) {
		return nil, errGone
	}
	ended := ctx.Done()
	for {
		select {
		case r := <-e.outcome:
			return workerlink.DecodeOutcome(r)
		case <-e.lost:
			return nil, errGone
		case <-ended:
			ended = nil
			c := &workerpb.Cancel{Id: m.GetId(), Cause: workerlink.EncodeCause(context.Cause(ctx))}
			s.out.Add(func(m *workerpb.ToWorker) { m.CancelEntities = append(m.CancelEntities, c) })
		}
	}
}

// beginEntity sends a batch, unless the session has ended.
func (s *Session) beginEntity(e *entity, m *workerpb.EntityBatch) bool {
	s.mu.Lock()
	if s.entities == nil {
		s.mu.Unlock()
		return false
	}
	s.lastID++
	m.Id = s.lastID
	s.entities[m.Id] = e
	s.mu.Unlock()
	s.out.AddSized(workerlink.SizeOfBatch(m), func(to *workerpb.ToWorker) { to.Entities = append(to.Entities, m) })
	return true
}

// operated passes on the outcome of a batch.
func (s *Session) operated(r *workerpb.EntityOutcome) error {
	s.mu.Lock()
	e := s.entities[r.GetId()]
	delete(s.entities, r.GetId())
	s.mu.Unlock()
	if e == nil {
		return fmt.Errorf("%w: the outcome of batch %d, which it was not sent or has answered", ErrProtocol, r.GetId())
	}
	e.outcome <- r
	return nil
}
