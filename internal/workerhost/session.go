package workerhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
	"github.com/abidehq/abide/internal/workpool"
)

// Stream is a connection to a worker.
type Stream interface {
	// Send sends a message. One goroutine at a time calls it.
	Send(m *workerpb.ToWorker) error

	// Recv waits for a message. One goroutine at a time calls it.
	Recv() (*workerpb.FromWorker, error)
}

// Config is what a session needs of its server.
type Config struct {
	Clock  base.Clock
	Logger *slog.Logger

	// Request makes a request of the worker's program. The context ends when the program does not wait
	// any more, or the session ends.
	Request func(ctx context.Context, r *workerpb.Request) *workerpb.Reply

	// Awaits learns of an event that an orchestration waits for.
	Awaits func(e *workerpb.AwaitedEvent)

	// Leave is called when the worker wants to leave, once.
	Leave func()

	// Lost is called when the session has ended, before what the worker was to do returns.
	Lost func()
}

// sendLimit is how long a worker may take to receive a message. One that takes longer is lost.
const sendLimit = 30 * time.Second

// maxRequests is how many requests of a program there may be, those included whose replies wait to be sent. A
// worker keeps to half of it: one that it has abandoned may not have ended yet.
const maxRequests = 2 * (workerlink.MaxStarts + workerlink.MaxWaits)

// maxUnsent is how many bytes of replies may wait to be sent. A worker that asks for more than it receives is
// lost.
const maxUnsent = 256 << 20

// maxIdle is how many goroutines of requests are kept for the next ones.
const maxIdle = 64

// errGone is the error of what a worker was to do that has gone.
var errGone = fmt.Errorf("abide: the worker has gone: %w", engine.ErrUnavailable)

// ErrProtocol is the error of a worker that breaks the protocol.
var ErrProtocol = errors.New("the worker breaks the protocol")

// Session is the server's end of a stream. Its methods are safe for concurrent use.
//
// mu guards the maps, and is not held while anything is called.
type Session struct {
	cfg Config
	out *workerlink.Outbox[workerpb.ToWorker]

	// ctx ends with the session.
	ctx  context.Context //nolint:containedctx // the session is the lifetime of the context
	stop context.CancelCauseFunc

	mu         sync.Mutex
	lastID     uint64 // of executions, turns and activities
	turns      map[uint64]*turn
	activities map[uint64]*activity
	entities   map[uint64]*entity
	closing    map[uint64]chan struct{}      // executions; closed when their code has ended
	requests   map[uint64]context.CancelFunc // until their replies are sent
	unsent     int                           // bytes of replies
	left       bool

	pool    *workpool.Pool
	serving sync.WaitGroup // requests
}

var _ engine.Executor = (*Session)(nil)

// New returns a session that does not run yet. What it is asked to do waits until it does.
func New(cfg Config) *Session {
	s := &Session{
		cfg: cfg, out: workerlink.NewOutbox[workerpb.ToWorker](),
		turns: map[uint64]*turn{}, activities: map[uint64]*activity{}, entities: map[uint64]*entity{}, closing: map[uint64]chan struct{}{}, requests: map[uint64]context.CancelFunc{},
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.pool = workpool.New(s.ctx.Done(), maxIdle)
	return s
}

// Run passes messages to and fro until the stream ends, the session is stopped, or the worker breaks the
// protocol. Then all that it runs is lost, and the error says why.
func (s *Session) Run(stream Stream) error {
	go s.send(stream)
	go s.receive(stream)
	<-s.ctx.Done()
	s.cfg.Lost()
	s.end()
	s.serving.Wait()
	return context.Cause(s.ctx)
}

// Stop ends the session.
func (s *Session) Stop(why error) { s.stop(why) }

// Gone is closed when the session has ended.
func (s *Session) Gone() <-chan struct{} { return s.ctx.Done() }

// Drain asks the worker to open another session elsewhere.
func (s *Session) Drain() {
	s.out.Add(func(m *workerpb.ToWorker) { m.Drain = true })
}

// Draining tells the worker that an operator has drained it.
func (s *Session) Draining() {
	s.out.Add(func(m *workerpb.ToWorker) { m.Draining = true })
}

// Drained tells the worker that it was drained and nothing is under way.
func (s *Session) Drained() {
	s.out.Add(func(m *workerpb.ToWorker) { m.Draining, m.Drained = true, true })
}

// send sends what there is. A worker that does not receive it in time is lost.
func (s *Session) send(stream Stream) {
	err := s.out.Run(s.ctx, func(m *workerpb.ToWorker) error {
		slow := s.cfg.Clock.AfterFunc(sendLimit, func() {
			s.stop(fmt.Errorf("the worker has not received a message within %v", sendLimit))
		})
		defer slow()
		s.sending(m.GetReplies())
		return stream.Send(m)
	})
	s.stop(err)
}

// receive does what messages say.
func (s *Session) receive(stream Stream) {
	for {
		m, err := stream.Recv()
		if err == nil {
			err = s.handle(m)
		}
		if err != nil {
			s.stop(err)
			return
		}
	}
}

// handle does what a message says. Heartbeats come before results: an activity may have said something
// just before it failed.
func (s *Session) handle(m *workerpb.FromWorker) error {
	if m.GetHello() != nil {
		return fmt.Errorf("%w: it has said twice what it runs", ErrProtocol)
	}
	for _, r := range m.GetTurns() {
		if err := s.turned(r); err != nil {
			return err
		}
	}
	for _, id := range m.GetClosed() {
		s.closed(id)
	}
	for _, p := range m.GetProgress() {
		s.progressed(p)
	}
	for _, h := range m.GetHeartbeats() {
		s.beaten(h)
	}
	for _, r := range m.GetActivities() {
		if err := s.acted(r); err != nil {
			return err
		}
	}
	for _, r := range m.GetEntities() {
		if err := s.operated(r); err != nil {
			return err
		}
	}
	for _, e := range m.GetAwaits() {
		s.cfg.Awaits(e)
	}
	for _, r := range m.GetRequests() {
		if err := s.request(r); err != nil {
			return err
		}
	}
	for _, id := range m.GetAbandoned() {
		s.mu.Lock()
		cancel := s.requests[id]
		s.mu.Unlock()
		if cancel != nil {
			cancel()
		}
	}
	if m.GetLeaving() {
		s.leave()
	}
	return nil
}

func (s *Session) leave() {
	s.mu.Lock()
	again := s.left
	s.left = true
	s.mu.Unlock()
	if !again {
		s.cfg.Leave()
	}
}

// request answers a request, in a goroutine of its own.
func (s *Session) request(r *workerpb.Request) error {
	ctx, cancel := context.WithCancel(workerlink.WithTrace(s.ctx, r.GetTrace()))
	id := r.GetId()
	s.mu.Lock()
	_, twice := s.requests[id]
	full := len(s.requests) >= maxRequests
	ended := s.turns == nil // and is not waited for any more
	if !twice && !full && !ended {
		s.requests[id] = cancel
		s.serving.Add(1)
	}
	s.mu.Unlock()
	if ended {
		cancel()
		return errGone
	}
	if twice || full {
		cancel()
		return fmt.Errorf("%w: request %d was made twice, or there are more than %d", ErrProtocol, id, maxRequests)
	}
	s.pool.Do(func() {
		defer s.serving.Done()
		reply := s.cfg.Request(ctx, r)
		reply.Id = id
		cancel()
		s.reply(reply)
	})
	return nil
}

// reply sends a reply, unless too much waits to be sent.
func (s *Session) reply(r *workerpb.Reply) {
	size := sizeOf(r)
	s.mu.Lock()
	s.unsent += size
	unsent := s.unsent
	s.mu.Unlock()
	if unsent > maxUnsent {
		s.stop(fmt.Errorf("the worker does not receive what it asks for: %d bytes wait to be sent", unsent))
		return
	}
	s.out.AddSized(size, func(m *workerpb.ToWorker) { m.Replies = append(m.Replies, r) })
}

func sizeOf(r *workerpb.Reply) int { return workerlink.SizeOf(r.GetInstance(), r.GetProblem()) }

// sending forgets requests whose replies are about to be sent.
func (s *Session) sending(replies []*workerpb.Reply) {
	if len(replies) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range replies {
		delete(s.requests, r.GetId())
		s.unsent -= sizeOf(r)
	}
}

// end has all that waits for the worker return.
func (s *Session) end() {
	s.mu.Lock()
	turns, activities, entities, closing := s.turns, s.activities, s.entities, s.closing
	s.turns, s.activities, s.entities, s.closing = nil, nil, nil, nil
	s.mu.Unlock()
	for _, closed := range closing {
		close(closed)
	}
	for _, t := range turns {
		close(t.lost)
	}
	for _, a := range activities {
		close(a.lost)
	}
	for _, e := range entities {
		close(e.lost)
	}
}
