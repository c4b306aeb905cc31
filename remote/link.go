package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/abidehq/abide"
	pauses "github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/catalog"
	"github.com/abidehq/abide/internal/dial"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/schema"
	"github.com/abidehq/abide/internal/worker"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
)

func init() { dial.Register(dial.Scheme, openLink) }

const (
	// openWithin is how long the first connection may take if the context of the caller does not end.
	openWithin = 30 * time.Second

	// pingAfter is how long a connection is silent before it is probed, and pingWithin how long an
	// answer may take: a server that is frozen or cut off is found out after the sum.
	pingAfter  = 10 * time.Second
	pingWithin = 10 * time.Second
)

// maxStart is how many bytes the inputs of one call may have: what is larger is no message, which would end the
// session.
const maxStart = workerlink.MaxMessage / 2

// link is the connection of a worker to its server. It has one session, or two while the server of one is
// about to stop; when there is none, it connects again, to one server after another.
type link struct {
	p     dial.Program
	at    *address
	hello *workerpb.Hello
	conns []*grpc.ClientConn // one for each host, which connect when they are used

	// ctx ends when the link is closed.
	ctx  context.Context //nolint:containedctx // the link is the lifetime of the context
	stop context.CancelFunc

	mu       sync.Mutex
	sessions []*session // the last is the current one
	ended    []*session // whose code may not have returned
	failure  error      // of the last attempt to connect
	changed  chan struct{}
	next     int // of conns
	leaving  bool

	meters    *worker.Meters
	unobserve func() // has the gauges show nothing any more

	idle   chan struct{} // closed when an operator has drained the worker and nothing is under way
	isIdle sync.Once     // closes it

	loops sync.WaitGroup
	done  chan struct{}
	close sync.Once
}

// session is a session with one server.
type session struct {
	*worker.Session
	conn *grpc.ClientConn
}

// idle reports whether all code of a session that has ended has returned.
func (s *session) idle() bool {
	select {
	case <-s.Returned():
		return true
	default:
		return false
	}
}

// openLink connects to a server. It returns when the server has accepted the worker, or has refused it.
func openLink(ctx context.Context, p dial.Program) (dial.Link, error) {
	at, err := parseAddress(p.URL)
	if err != nil {
		return nil, err
	}
	at.token = firstOf(p.Token, at.token, os.Getenv(envToken))
	l := &link{p: p, at: at, hello: helloOf(&p), changed: make(chan struct{}), done: make(chan struct{}), idle: make(chan struct{})}
	if l.meters, err = worker.NewMeters(p.MeterProvider); err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	for _, host := range at.hosts {
		conn, err := grpc.NewClient(host, l.options()...)
		if err != nil {
			return nil, fmt.Errorf("remote: %s: %w", host, err)
		}
		l.conns = append(l.conns, conn)
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.unobserve = l.meters.Observe(cmp.Or(p.MaxTurns, engine.DefaultTurns), cmp.Or(p.MaxActivities, engine.DefaultActivities), l.load)
	p.Ready(l.learn)
	first := make(chan error, 1)
	l.loops.Go(func() { l.run(first) })
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	select {
	case err = <-first:
	case <-ctx.Done():
		l.mu.Lock()
		err = fmt.Errorf("remote: no connection to %s: %w: %w", strings.Join(at.hosts, ", "), errors.Join(ctx.Err(), l.failure), ErrUnreachable)
		l.mu.Unlock()
	}
	if err != nil {
		_ = l.Close(ctx)
		return nil, err
	}
	return l, nil
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

func (l *link) options() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(l.at.creds),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}, MinConnectTimeout: 5 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingWithin}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(workerlink.MaxMessage), grpc.MaxCallSendMsgSize(workerlink.MaxMessage)),
		grpc.WithInitialWindowSize(workerlink.Window), grpc.WithInitialConnWindowSize(workerlink.Window),
		grpc.WithUserAgent("abide"),
	}
}

// helloOf returns what the worker says of itself.
func helloOf(p *dial.Program) *workerpb.Hello {
	h := &workerpb.Hello{
		Protocol: workerlink.Protocol, Name: p.WorkerName, Pid: int32(os.Getpid()), Build: p.Build,
		Orchestrations: p.Routes, TurnSlots: int32(p.MaxTurns), ActivitySlots: int32(p.MaxActivities), CacheSize: int32(p.CacheSize),
		LeaseMs: in(time.Millisecond, p.LeaseDuration), RetentionMs: in(time.Millisecond, p.Retention),
		StepCommitUs: in(time.Microsecond, p.StepCommitInterval), DeadlockMs: in(time.Millisecond, p.DeadlockTimeout),
		MaxHistory: int64(p.MaxHistory), MaxHistoryBytes: int64(p.MaxHistoryBytes),
		Unlisted: p.WorkerName == "", Run: rand.Text(),
	}
	for _, route := range p.Routes {
		switch p.Pins[route] {
		case engine.Pinned:
			h.Pinned = append(h.Pinned, route)
		case engine.PinnedUntilContinue:
			h.PinnedUntilContinue = append(h.PinnedUntilContinue, route)
		default:
		}
	}
	h.Host, _ = os.Hostname() // empty if it is not known
	if h.Build == "" {
		h.Build = engine.ProgramBuild()
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		h.Version = info.Main.Version
	}
	h.Entities = slices.Sorted(maps.Keys(p.Entities))
	for _, name := range slices.Sorted(maps.Keys(p.MaxInFlight)) {
		h.Caps = append(h.Caps, &workerpb.Cap{Activity: name, Most: int32(min(p.MaxInFlight[name], math.MaxInt32))})
	}
	for name := range p.Activities {
		h.Activities = append(h.Activities, name)
	}
	for i := range p.Signatures {
		s := &p.Signatures[i]
		h.Signatures = append(h.Signatures, &workerpb.Signature{Name: s.Route, Activity: s.Activity, Input: schemaJSON(s.Input), Result: schemaJSON(s.Result)})
	}
	return h
}

// in returns a duration as it travels, in a unit. What is less than one stays what it is, one or negative: 0 means
// something else.
func in(unit, d time.Duration) int64 {
	switch {
	case d < 0:
		return min(int64(d/unit), -1)
	case d > 0:
		return max(int64(d/unit), 1)
	}
	return 0
}

func schemaJSON(s *schema.Schema) []byte {
	if s == nil {
		return nil
	}
	return s.JSON()
}

// run keeps the link connected until it is closed. What comes of the first attempt to connect that is
// answered goes to first.
func (l *link) run(first chan<- error) {
	fresh := pauses.Pause{Clock: l.p.Clock, Min: 100 * time.Millisecond, Max: 5 * time.Second}
	pause := fresh
	for l.ctx.Err() == nil && !l.isLeaving() {
		conn := l.pick()
		stream, revision, err := l.connect(conn)
		if err == nil {
			if first != nil {
				first <- nil
				first = nil
			}
			pause = fresh
			if l.serve(conn, stream, revision) { // the server drains: connect elsewhere at once
				continue
			}
		} else if first != nil && isRefusal(err) {
			first <- err
			return
		}
		if l.ctx.Err() == nil {
			l.mu.Lock()
			l.failure = err
			l.mu.Unlock()
			if err != nil {
				l.p.Logger.Warn("no session with the server, trying again", "server", conn.Target(), "error", err)
			}
			_ = pause.Sleep(l.ctx)
		}
	}
}

// pick returns the connection to the next server.
func (l *link) pick() *grpc.ClientConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn := l.conns[l.next%len(l.conns)]
	l.next++
	return conn
}

// isRefusal reports whether a server has said that it does not take this worker.
func isRefusal(err error) bool {
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied, codes.InvalidArgument, codes.Unimplemented, codes.FailedPrecondition:
		return true
	}
	return false
}

// connect opens a stream, and is accepted by a server, which has a revision.
func (l *link) connect(conn *grpc.ClientConn) (stream workerpb.Workers_WorkClient, revision uint32, err error) {
	stream, err = workerpb.NewWorkersClient(conn).Work(l.withToken(l.ctx))
	if err != nil {
		return nil, 0, fmt.Errorf("remote: %w", err)
	}
	l.mu.Lock()
	hello := l.hello
	l.mu.Unlock()
	welcome, err := worker.Greet(stream, hello)
	if err != nil {
		return nil, 0, fmt.Errorf("remote: %s: %w", conn.Target(), err)
	}
	if len(hello.GetCaps()) > 0 && welcome.GetRevision() < workerlink.RevisionCaps {
		l.p.Logger.Warn("server of an earlier release ignores MaxInFlight", "server", conn.Target(), "version", welcome.GetServer())
	}
	l.p.Logger.Debug("session with the server begun", "server", conn.Target(), "version", welcome.GetServer())
	return stream, welcome.GetRevision(), nil
}

// withToken has a call show the token.
func (l *link) withToken(ctx context.Context) context.Context {
	if l.at.token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+l.at.token)
}

// serve serves a session until it ends, or until the server drains it: then it goes on in the background.
func (l *link) serve(conn *grpc.ClientConn, stream worker.Stream, revision uint32) (drained bool) {
	drain, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	s := &session{conn: conn}
	s.Session = worker.New(worker.Config{
		Executor: l.p.Executor, Activities: l.p.Activities, Entities: l.p.Entities, Revision: revision, Clock: l.p.Clock, Logger: l.p.Logger,
		Drain: func() { once.Do(func() { close(drain) }) }, Drained: l.drain, Meters: l.meters, Tracer: engine.NewTracer(l.p.TracerProvider),
	})
	l.enter(s)
	l.meters.Connected()
	l.loops.Go(func() {
		err := s.Run(stream)
		l.leave(s)
		ended <- err
	})
	select {
	case <-drain:
		return true
	case err := <-ended:
		if l.ctx.Err() == nil && !l.isLeaving() {
			l.p.Logger.Warn("session with the server has ended, connecting again", "server", conn.Target(), "error", err)
		}
		return false
	}
}

// drain notes that an operator has drained the worker, which is said in all further sessions. ended means that
// nothing is under way any more.
func (l *link) drain(ended bool) {
	l.mu.Lock()
	first := !l.hello.GetDrained()
	if first {
		l.hello = proto.CloneOf(l.hello) // a session that is being opened may be sending it
		l.hello.Drained = true
	}
	l.mu.Unlock()
	if first {
		l.p.Logger.Info("worker drained by an operator, it runs nothing until its program is started again", "worker", l.p.WorkerName)
	}
	if ended {
		l.isIdle.Do(func() { close(l.idle) })
	}
}

// Count has what the worker knows of the counters of its engine.
func (l *link) Count() *engine.Counters { return &l.meters.Count }

// load returns what is under way and in memory, and whether there is a session.
func (l *link) load() (now worker.Load, connected bool) {
	l.mu.Lock()
	sessions := slices.Clone(l.sessions)
	l.mu.Unlock()
	for _, s := range sessions {
		one := s.Load()
		now.Turns, now.Activities, now.Cached = now.Turns+one.Turns, now.Activities+one.Activities, now.Cached+one.Cached
	}
	return now, len(sessions) > 0
}

// Drained is closed when an operator has drained the worker and nothing is under way any more.
func (l *link) Drained() <-chan struct{} { return l.idle }

func (l *link) isLeaving() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaving
}

// enter makes a session the current one.
func (l *link) enter(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions = append(l.sessions, s)
	close(l.changed)
	l.changed = make(chan struct{})
	if l.leaving {
		s.Leave()
	}
}

// leave forgets a session that has ended.
func (l *link) leave(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, other := range l.sessions {
		if other == s {
			l.sessions = append(l.sessions[:i:i], l.sessions[i+1:]...)
		}
	}
	l.ended = append(slices.DeleteFunc(l.ended, (*session).idle), s)
	close(l.changed)
	l.changed = make(chan struct{})
}

// current returns the session that requests are made with. It waits for one until ctx ends.
func (l *link) current(ctx context.Context) (*session, error) {
	for {
		l.mu.Lock()
		var s *session
		if n := len(l.sessions); n > 0 {
			s = l.sessions[n-1]
		}
		changed := l.changed
		l.mu.Unlock()
		if s != nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("remote: no connection to a server: %w", ctx.Err())
		case <-l.ctx.Done():
			return nil, fmt.Errorf("remote: the engine is closed: %w", ErrUnreachable)
		}
	}
}

// learn tells the server of an event that an orchestration waits for.
func (l *link) learn(route, event string, s *schema.Schema) string {
	if s == nil {
		return ""
	}
	l.mu.Lock()
	sessions := l.sessions
	l.mu.Unlock()
	for _, session := range sessions {
		session.Awaits(&workerpb.AwaitedEvent{Orchestration: route, Event: event, Schema: s.JSON()})
	}
	return catalog.ID(s)
}

// Start starts instances. It is tried again when the connection breaks: then an instance that it has
// started itself may be reported as existing.
func (l *link) Start(ctx context.Context, starts ...engine.Start) ([]engine.Started, error) {
	if len(starts) == 0 {
		return nil, nil
	}
	r := &workerpb.Request{Trace: workerlink.EncodeTrace(ctx)}
	again, size := true, 0
	for i := range starts {
		s := &starts[i]
		size += len(s.Input)
		again = again && workerlink.EncodeIfExists(s) == int32(engine.Return)
		r.Starts = append(r.Starts, workerlink.EncodeStart(s))
	}
	if size > maxStart {
		return nil, fmt.Errorf("remote: start: inputs have %d bytes, at most %d are allowed: %w", size, maxStart, abide.ErrInvalid)
	}
	reply, err := l.request(ctx, r, again)
	if err != nil {
		return nil, err
	}
	if len(reply.GetStarted()) != len(starts) {
		return nil, fmt.Errorf("remote: start: the server answered for %d instances of %d", len(reply.GetStarted()), len(starts))
	}
	started := make([]engine.Started, len(starts))
	for i, s := range reply.GetStarted() {
		started[i] = engine.Started{Ref: starts[i].Ref, Existed: s.GetExisted(), Unserved: s.GetUnserved(), Revision: s.GetRevision()}
	}
	return started, nil
}

// Await returns the state of an instance as soon as its revision is greater than after.
func (l *link) Await(ctx context.Context, ref engine.Ref, after int64) (engine.Info, error) {
	reply, err := l.request(ctx, &workerpb.Request{Wait: &workerpb.Wait{Tenant: ref.Tenant, Id: ref.ID, After: after}}, true)
	if err != nil {
		return engine.Info{}, err
	}
	return engine.DecodeInfo(reply.GetInstance())
}

// request makes a request. One that may be made twice is made again if the connection breaks.
func (l *link) request(ctx context.Context, r *workerpb.Request, again bool) (*workerpb.Reply, error) {
	for {
		s, err := l.current(ctx)
		if err != nil {
			return nil, err
		}
		reply, err := s.Request(ctx, r)
		switch {
		case errors.Is(err, worker.ErrEnded) && again:
			r = proto.CloneOf(r) // the session may still be sending the other one
			for _, start := range r.GetStarts() {
				start.NewId = false // this one may have started it
			}
			continue
		case err != nil:
			return nil, fmt.Errorf("remote: %w", err)
		case reply.GetStatus() != 0:
			return nil, failure(int(reply.GetStatus()), reply.GetProblem())
		}
		return reply, nil
	}
}

// Transport carries all other calls, by the HTTP API, over the same connection.
func (l *link) Transport() any {
	c := httpOver(&tunnel{l})
	c.reached.Store(true)
	return &transport{c: c, clock: base.System{}}
}

var _ abide.Transport = (*transport)(nil)

// Done is closed when the link is closed.
func (l *link) Done() <-chan struct{} { return l.done }

// Close has the server send nothing new, waits until what is under way is done or ctx ends, and closes
// the connections.
func (l *link) Close(ctx context.Context) error {
	var err error
	l.close.Do(func() {
		l.mu.Lock()
		l.leaving = true
		for _, s := range l.sessions {
			s.Leave()
		}
		l.mu.Unlock()
		err = l.drained(ctx)
		l.stop()
		l.unobserve()
		l.mu.Lock()
		ended := append(slices.Clone(l.ended), l.sessions...)
		l.mu.Unlock()
		for _, s := range ended {
			select {
			case <-s.Returned():
			case <-ctx.Done():
				err = fmt.Errorf("remote: close: code was still running: %w", ctx.Err())
			}
		}
		for _, conn := range l.conns {
			_ = conn.Close() // nothing is left to be sent
		}
		l.loops.Wait()
		close(l.done)
	})
	return err
}

// drained waits until no session is left, or ctx ends.
func (l *link) drained(ctx context.Context) error {
	for {
		l.mu.Lock()
		n, changed := len(l.sessions), l.changed
		l.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("remote: close: work was still under way: %w", ctx.Err())
		}
	}
}
