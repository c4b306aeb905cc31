package workers_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/internal/worker"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/workers"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// bubble is a server in virtual time. The messages of its workers are encoded and pass through channels.
type bubble struct {
	*testing.T
	store   store.Store
	engine  *abide.Engine
	client  *engine.Client
	service *workers.Service
	lines   *lines
}

// inBubble runs f in virtual time.
func inBubble(t *testing.T, change func(*workers.Config), f func(b *bubble)) {
	t.Helper()
	t.Parallel()
	inOneBubble(t, change, f)
}

// inOneBubble is inBubble for a test that has several, one after the other.
func inOneBubble(t *testing.T, change func(*workers.Config), f func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(memstore.Options{})
		b := &bubble{T: t, store: st, lines: &lines{}}
		var err error
		b.engine, err = abide.New(st, abide.Config{Logger: quiet(), Unlisted: true})
		check.OK(t, err)
		b.client = engine.NewClient(st, base.System{})
		b.serve(change)
		defer func() {
			b.service.Stop(context.Background())
			check.OK(t, b.engine.Close())
			check.OK(t, st.Close())
		}()
		f(b)
	})
}

// serve makes the service anew, which has no workers yet.
func (b *bubble) serve(change func(*workers.Config)) {
	cfg := workers.Config{Engine: b.engine, Version: "v0-test", Logger: slog.New(slog.NewTextHandler(b.lines, nil)), Problem: problemOf}
	if change != nil {
		change(&cfg)
	}
	b.service = workers.New(cfg)
}

func problemOf(err error) *api.Problem {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p
	}
	return &api.Problem{Status: http.StatusInternalServerError, Detail: err.Error()}
}

// program is what a worker runs.
type program struct {
	code     engine.Code
	acts     map[string]engine.Activity
	entities map[string]engine.EntityCode
	hello    *workerpb.Hello // with what is not told from the rest
	token    string
	tracer   trace.Tracer
}

// wires change what travels, as it is encoded. Nil changes nothing.
type wires struct{ up, down func(data []byte) []byte }

// joined is a worker that is connected.
type joined struct {
	*worker.Session
	b       *bubble
	welcome *workerpb.Welcome
	leave   context.CancelFunc
	ended   chan error // of the server's end
}

// join connects a worker, which leaves when the test ends.
func (b *bubble) join(p program, w wires) *joined {
	b.Helper()
	hello := p.hello
	if hello == nil {
		hello = &workerpb.Hello{}
	}
	hello.Protocol = workerlink.Protocol
	hello.Orchestrations = slices.Sorted(maps.Keys(p.code))
	hello.Activities = slices.Sorted(maps.Keys(p.acts))
	hello.Entities = slices.Sorted(maps.Keys(p.entities))
	for _, name := range hello.GetOrchestrations() {
		hello.Signatures = append(hello.Signatures, &workerpb.Signature{Name: name})
	}
	ctx, leave := context.WithCancel(b.Context())
	up, down := make(chan []byte), make(chan []byte)
	j := &joined{b: b, leave: leave, ended: make(chan error, 1)}
	asked := metadata.NewIncomingContext(ctx, metadata.Pairs("authorization", "Bearer "+p.token))
	go func() { j.ended <- b.service.Work(&serverEnd{end{ctx: asked, out: down, in: up, change: w.down}}) }()
	there := &workerEnd{end{ctx: ctx, out: up, in: down, change: w.up}}
	var err error
	j.welcome, err = worker.Greet(there, hello)
	check.OK(b.T, err)
	j.Session = worker.New(worker.Config{Executor: p.code, Activities: p.acts, Entities: p.entities, Revision: j.welcome.GetRevision(), Clock: base.System{}, Logger: quiet(), Tracer: p.tracer})
	go func() { _ = j.Run(there) }()
	b.Cleanup(leave)
	return j
}

// gone disconnects the worker.
func (j *joined) gone() {
	j.b.Helper()
	j.leave()
	<-j.Returned()
	synctest.Wait()
}

// connected checks that the session of a worker has not ended.
func (j *joined) connected() {
	j.b.Helper()
	synctest.Wait()
	select {
	case err := <-j.ended:
		j.b.Fatalf("the session of the worker has ended: %v", err)
	default:
	}
}

// end is an end of a connection.
type end struct {
	grpc.ServerStream
	ctx    context.Context //nolint:containedctx // of the stream
	out    chan<- []byte
	in     <-chan []byte
	change func([]byte) []byte
}

func (e *end) Context() context.Context { return e.ctx }

func (e *end) send(m proto.Message) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	if e.change != nil {
		data = e.change(data)
	}
	select {
	case e.out <- data:
		return nil
	case <-e.ctx.Done():
		return e.ctx.Err()
	}
}

func (e *end) receive(m proto.Message) error {
	select {
	case data := <-e.in:
		return proto.Unmarshal(data, m)
	case <-e.ctx.Done():
		return io.EOF
	}
}

type serverEnd struct{ end }

func (e *serverEnd) Send(m *workerpb.ToWorker) error { return e.send(m) }

func (e *serverEnd) Recv() (*workerpb.FromWorker, error) {
	m := &workerpb.FromWorker{}
	return m, e.receive(m)
}

type workerEnd struct{ end }

func (e *workerEnd) Send(m *workerpb.FromWorker) error { return e.send(m) }

func (e *workerEnd) Recv() (*workerpb.ToWorker, error) {
	m := &workerpb.ToWorker{}
	return m, e.receive(m)
}

// lines are those of a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with returns the lines that have all of these words.
func (l *lines) with(words ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			found = append(found, line)
		}
	}
	return found
}

// begin starts an instance.
func (b *bubble) begin(id, name, input string) {
	b.Helper()
	_, err := b.client.Start(b.Context(), engine.Start{Ref: engine.Ref{ID: id}, Name: name, Input: []byte(input), Unchecked: true})
	check.OK(b.T, err)
}

func (b *bubble) raise(id, name, data string) {
	b.Helper()
	_, err := b.client.Raise(b.Context(), engine.Raise{Ref: engine.Ref{ID: id}, Name: name, Data: []byte(data)})
	check.OK(b.T, err)
}

// pass lets time pass, and what happens then come to rest.
func (*bubble) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (b *bubble) info(id string) engine.Info {
	b.Helper()
	info, err := b.client.Get(b.Context(), engine.Ref{ID: id})
	check.OK(b.T, err)
	return info
}

// result waits until an instance has completed, for an hour at most.
func (b *bubble) result(id string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	info, err := b.client.Await(ctx, engine.Ref{ID: id}, 0)
	for err == nil && !info.Status.Ended() {
		info, err = b.client.Await(ctx, engine.Ref{ID: id}, info.Revision)
	}
	if err != nil || info.Status != engine.Completed {
		b.Fatalf("%s: %v, %s %s %+v; the log: %s", id, err, b.info(id).Status, b.info(id).Reason, info.Failure, b.lines.with(""))
	}
	return string(info.Result)
}

// flow is code for all instances of an orchestration.
func flow(code func(c *replay.Context, input []byte) ([]byte, *history.Failure)) func(engine.Ref) replay.Code {
	return func(engine.Ref) replay.Code {
		return func(c *replay.Context, input []byte) replay.Outcome {
			data, failure := code(c, input)
			return replay.Outcome{Data: data, Failure: failure}
		}
	}
}
