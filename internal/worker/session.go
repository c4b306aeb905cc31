package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
	"github.com/abidehq/abide/internal/workpool"
)

// Config says what a worker runs.
type Config struct {
	// Executor runs orchestrations, and Activities and Entities are those of the worker by name.
	Executor   engine.Executor
	Activities map[string]engine.Activity
	Entities   map[string]engine.EntityCode

	// Revision is that of the server, as its Welcome has it.
	Revision uint32

	Clock  base.Clock
	Logger *slog.Logger

	// Meters count what the worker does. Nil means that nothing is counted.
	Meters *Meters

	// Tracer begins a span for each attempt at an activity, below that of the server. Nil means none.
	Tracer trace.Tracer

	// Drain is called when the server wants the worker to open another session. This one goes on until
	// the server ends it.
	Drain func()

	// Drained is called when an operator has drained the worker, and again when nothing is under way any
	// more: then ended is true.
	Drained func(ended bool)
}

// Stream is a connection to a server.
type Stream interface {
	// Send sends a message. One goroutine at a time calls it.
	Send(m *workerpb.FromWorker) error

	// Recv waits for a message. One goroutine at a time calls it.
	Recv() (*workerpb.ToWorker, error)
}

// ErrEnded is the error of a request whose session has ended before it was answered. Whether it had an
// effect is not known.
var ErrEnded = errors.New("the session with the server has ended")

// maxIdle is how many goroutines of turns and activities are kept for the next ones.
const maxIdle = 64

// Session is a worker's end of a stream.
//
// Each turn and each activity has a goroutine. The server sends an execution one turn at a time, so that
// an execution needs no lock. mu guards the maps, and is not held while code runs or a message is sent.
type Session struct {
	cfg Config
	out *workerlink.Outbox[workerpb.FromWorker]

	// ctx is that of all that the session runs. It ends with the session, for the reason ErrLost.
	ctx  context.Context //nolint:containedctx // the session is the lifetime of the context
	stop context.CancelCauseFunc

	mu         sync.Mutex
	executions map[uint64]*execution
	turns      map[uint64]*turn // under way
	activities map[uint64]*activity
	entities   map[uint64]*entity
	requests   map[uint64]chan *workerpb.Reply
	lastID     uint64 // of requests
	watching   bool   // turns that take long are looked for

	starts, waits chan struct{} // have an element for each request that is under way

	pool     *workpool.Pool
	work     sync.WaitGroup // goroutines of turns, activities and executions that are being closed
	returned chan struct{}  // closed when the session has ended and all of them have returned
}

// New returns a session that has not begun.
func New(cfg Config) *Session {
	s := &Session{
		cfg: cfg, out: workerlink.NewOutbox[workerpb.FromWorker](),
		executions: map[uint64]*execution{}, turns: map[uint64]*turn{}, activities: map[uint64]*activity{}, entities: map[uint64]*entity{},
		requests: map[uint64]chan *workerpb.Reply{}, returned: make(chan struct{}),
		starts: make(chan struct{}, workerlink.MaxStarts), waits: make(chan struct{}, workerlink.MaxWaits),
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.pool = workpool.New(s.ctx.Done(), maxIdle)
	return s
}

// Greet says what the worker runs, and returns what the server answers.
func Greet(stream Stream, hello *workerpb.Hello) (*workerpb.Welcome, error) {
	if err := stream.Send(&workerpb.FromWorker{Hello: hello}); err != nil {
		return nil, fmt.Errorf("worker: greet: %w", err)
	}
	m, err := stream.Recv()
	if err != nil {
		return nil, fmt.Errorf("worker: greet: %w", err)
	}
	if m.GetWelcome() == nil {
		return nil, errors.New("worker: greet: the server does not speak the protocol")
	}
	return m.GetWelcome(), nil
}

// Run runs what the server sends on a stream that was greeted, until the stream ends. Then it ends the
// contexts of all that is under way, and returns why. It does not wait for code that does not return.
func (s *Session) Run(stream Stream) error {
	sending := make(chan struct{})
	go func() {
		defer close(sending)
		_ = s.out.Run(s.ctx, stream.Send) // receiving fails as well
	}()
	var err error
	for {
		var m *workerpb.ToWorker
		if m, err = stream.Recv(); err != nil {
			break
		}
		s.receive(m)
	}
	s.stop(engine.ErrLost)
	<-sending
	s.end()
	go func() {
		s.work.Wait()
		close(s.returned)
	}()
	return err
}

// Returned is closed when the session has ended and all of its code has returned.
func (s *Session) Returned() <-chan struct{} { return s.returned }

// Leave asks the server to send nothing new, and to end the session when what is under way is done.
func (s *Session) Leave() {
	s.out.Add(func(m *workerpb.FromWorker) { m.Leaving = true })
}

// Awaits tells the server of an event that an orchestration waits for.
func (s *Session) Awaits(e *workerpb.AwaitedEvent) {
	s.out.Add(func(m *workerpb.FromWorker) { m.Awaits = append(m.Awaits, e) })
}

// receive does what a message says, in the order of its fields.
func (s *Session) receive(m *workerpb.ToWorker) {
	for _, t := range m.GetTurns() {
		s.beginTurn(t)
	}
	for _, id := range m.GetClose() {
		s.closeExecution(id)
	}
	for _, c := range m.GetCancelTurns() {
		if t := s.turnOf(c.GetId()); t != nil {
			t.stop(workerlink.DecodeCause(c.GetCause()))
		}
	}
	for _, id := range m.GetCancelSteps() {
		s.cancelSteps(id)
	}
	for _, a := range m.GetActivities() {
		s.beginActivity(a)
	}
	for _, c := range m.GetCancelActivities() {
		if a := s.activityOf(c.GetId()); a != nil {
			a.stop(workerlink.DecodeCause(c.GetCause()))
		}
	}
	for _, b := range m.GetEntities() {
		s.beginEntity(b)
	}
	for _, c := range m.GetCancelEntities() {
		if e := s.entityOf(c.GetId()); e != nil {
			e.stop(workerlink.DecodeCause(c.GetCause()))
		}
	}
	for _, r := range m.GetHeartbeats() {
		if a := s.activityOf(r.GetActivity()); a != nil {
			a.answered(r)
		}
	}
	for _, r := range m.GetReplies() {
		s.replied(r)
	}
	if m.GetDrain() && s.cfg.Drain != nil {
		s.cfg.Drain()
	}
	if (m.GetDraining() || m.GetDrained()) && s.cfg.Drained != nil {
		s.cfg.Drained(m.GetDrained())
	}
}

// Request makes a request and returns the answer. It waits while as many are under way as may be. After [ErrEnded] it is not known whether the server has
// done it.
func (s *Session) Request(ctx context.Context, r *workerpb.Request) (*workerpb.Reply, error) {
	if err := workerlink.CheckStarts(s.cfg.Revision, r.GetStarts()); err != nil {
		return nil, err
	}
	slots := s.starts
	if r.GetWait() != nil {
		slots = s.waits
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-s.ctx.Done():
		return nil, ErrEnded
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	answer := make(chan *workerpb.Reply, 1)
	s.mu.Lock()
	s.lastID++
	id := s.lastID
	s.requests[id] = answer
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.requests, id)
	}()
	r.Id = id
	size := 0
	for _, start := range r.GetStarts() {
		size += workerlink.SizeOf(start.GetInput())
	}
	s.out.AddSized(size, func(m *workerpb.FromWorker) { m.Requests = append(m.Requests, r) })
	select {
	case reply := <-answer:
		return reply, nil
	case <-s.ctx.Done():
		return nil, ErrEnded
	case <-ctx.Done():
		s.out.Add(func(m *workerpb.FromWorker) { m.Abandoned = append(m.Abandoned, id) })
		return nil, ctx.Err()
	}
}

func (s *Session) replied(r *workerpb.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer := s.requests[r.GetId()]; answer != nil {
		answer <- r // there is room: a request has one reply
		delete(s.requests, r.GetId())
	}
}

// do runs a turn or an activity in a goroutine of its own.
func (s *Session) do(run func()) {
	s.work.Add(1)
	s.pool.Do(func() {
		defer s.work.Done()
		run()
	})
}

// end closes the executions that wait. Those of turns that run are closed by their goroutines.
func (s *Session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, x := range s.executions {
		delete(s.executions, id)
		if !x.busy {
			s.work.Go(x.exec.Close)
		}
	}
}
