package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
)

// entity is a batch of operations that runs.
type entity struct {
	s    *Session
	m    *workerpb.EntityBatch
	ctx  context.Context //nolint:containedctx // given to the function by the API
	stop context.CancelCauseFunc
}

// beginEntity runs operations of an entity in a goroutine of its own.
func (s *Session) beginEntity(m *workerpb.EntityBatch) {
	e := &entity{s: s, m: m}
	e.ctx, e.stop = context.WithCancelCause(s.ctx)
	s.mu.Lock()
	s.entities[m.GetId()] = e
	s.mu.Unlock()
	s.do(e.run)
}

func (s *Session) entityOf(id uint64) *entity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entities[id]
}

// run runs the operations, and answers. Code that ends its goroutine, as failing tests do, has failed.
func (e *entity) run() {
	r := workerlink.EncodeOutcome(nil, errors.New("the code of the entity has ended its goroutine"))
	defer func() {
		e.stop(nil)
		e.s.mu.Lock()
		delete(e.s.entities, e.m.GetId())
		e.s.mu.Unlock()
		r.Id = e.m.GetId()
		e.s.out.AddSized(workerlink.SizeOfOutcome(r), func(m *workerpb.FromWorker) { m.Entities = append(m.Entities, r) })
	}()
	r = workerlink.EncodeOutcome(e.call())
	if err := workerlink.CheckStarts(e.s.cfg.Revision, r.GetStarts()); err != nil {
		e.s.cfg.Logger.Error("entity needs what the server does not know", "entity", e.m.GetEntity(), "error", err)
		r = workerlink.EncodeOutcome(nil, fmt.Errorf("%w: %w", err, engine.ErrUnavailable))
	}
	if n := workerlink.SizeOfOutcome(r); n > maxOutcome {
		r = workerlink.EncodeOutcome(nil, fmt.Errorf("what came of %d operations has %d bytes, at most %d are allowed", len(e.m.GetOperations()), n, maxOutcome))
	}
}

// maxOutcome is how many bytes the outcome of a batch may have, so that it is a message. One that has more is tried
// again by the engine, one operation at a time.
const maxOutcome = workerlink.MaxMessage / 2

// call calls the code. A panic fails the batch.
func (e *entity) call() (out *engine.EntityOutcome, err error) {
	b, err := workerlink.DecodeBatch(e.m)
	if err != nil {
		return nil, err
	}
	code := e.s.cfg.Entities[b.Name]
	if code == nil {
		return nil, fmt.Errorf("entity %q is not registered by its worker", b.Name)
	}
	if p := claimloop.Catch(func() { out, err = code(e.ctx, b) }); p != nil {
		return nil, fmt.Errorf("panic: %v", p.Value)
	}
	return out, err
}
