package durabletask

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
	"github.com/abidehq/abide/server/grpcserve"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// patient is how long a test waits for what should come soon.
const patient = 30 * time.Second

// backend is a service on a store of its own, behind a real connection.
type backend struct {
	t      *testing.T
	engine *abide.Engine
	*Service
	addr string
}

func newBackend(t *testing.T, change ...func(*Config)) *backend {
	t.Helper()
	st := memstore.New(memstore.Options{})
	t.Cleanup(func() { check.OK(t, st.Close()) })
	return newBackendOn(t, st, change...)
}

// another returns a second service on the same store.
func (b *backend) another() *backend {
	b.t.Helper()
	return newBackendOn(b.t, b.engine.Store())
}

func newBackendOn(t *testing.T, st store.Store, change ...func(*Config)) *backend {
	t.Helper()
	e, err := abide.New(st, abide.Config{Logger: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	cfg := Config{Engine: e, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	b := &backend{t: t, engine: e, Service: New(cfg)}
	server := grpcserve.New(grpcserve.Config{KeepAlive: 10 * time.Second, MaxMessage: 64 << 20, Window: 1 << 20})
	b.Register(server)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.OK(t, err)
	b.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patient)
		defer cancel()
		b.Stop(ctx)
		server.Stop()
		check.OK(t, <-served)
		check.OK(t, e.Close())
	})
	return b
}

// dial returns a connection of its own, and what closes it.
func (b *backend) dial() (pb.TaskHubSidecarServiceClient, func()) {
	b.t.Helper()
	return b.dialAs("durabletask-js/0.3.0")
}

// dialAs returns a connection of an SDK.
func (b *backend) dialAs(agent string) (pb.TaskHubSidecarServiceClient, func()) {
	b.t.Helper()
	conn, err := grpc.NewClient(b.addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(agent))
	check.OK(b.t, err)
	shut := sync.OnceFunc(func() { check.OK(b.t, conn.Close()) })
	b.t.Cleanup(shut)
	return pb.NewTaskHubSidecarServiceClient(conn), shut
}

// in returns a context of calls of a task hub.
func (b *backend) in(hub string) context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), patient)
	b.t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "taskhub", hub)
}

// program is a worker, as an SDK is one: it keeps nothing between turns.
type program struct {
	b      *backend
	client pb.TaskHubSidecarServiceClient
	stream pb.TaskHubSidecarService_GetWorkItemsClient
	hub    string
	cancel context.CancelFunc // ends the stream
	shut   func()             // closes the connection
}

// work connects a worker.
func (b *backend) work(hub string, r *pb.GetWorkItemsRequest) *program {
	b.t.Helper()
	client, shut := b.dial()
	ctx, cancel := context.WithCancel(b.in(hub))
	stream, err := client.GetWorkItems(ctx, r)
	check.OK(b.t, err)
	b.t.Cleanup(cancel)
	return &program{b: b, client: client, stream: stream, hub: hub, cancel: cancel, shut: shut}
}

// next returns the next work item.
func (p *program) next() *pb.WorkItem {
	p.b.t.Helper()
	item, err := p.stream.Recv()
	check.OK(p.b.t, err)
	return item
}

// turn returns the next work item, which is a turn.
func (p *program) turn() (*pb.OrchestratorRequest, string) {
	p.b.t.Helper()
	item := p.next()
	if item.GetOrchestratorRequest() == nil {
		p.b.t.Fatalf("got the work item %v, want a turn", item)
	}
	return item.GetOrchestratorRequest(), item.GetCompletionToken()
}

// activity returns the next work item, which is an activity.
func (p *program) activity() (*pb.ActivityRequest, string) {
	p.b.t.Helper()
	item := p.next()
	if item.GetActivityRequest() == nil {
		p.b.t.Fatalf("got the work item %v, want an activity", item)
	}
	return item.GetActivityRequest(), item.GetCompletionToken()
}

// decide answers a turn.
func (p *program) decide(token string, actions ...*pb.OrchestratorAction) {
	p.b.t.Helper()
	_, err := p.client.CompleteOrchestratorTask(p.b.in(p.hub), &pb.OrchestratorResponse{CompletionToken: token, Actions: actions})
	check.OK(p.b.t, err)
}

// schedule is the action that schedules an activity.
func schedule(id int32, name, input string) *pb.OrchestratorAction {
	return &pb.OrchestratorAction{Id: id, OrchestratorActionType: &pb.OrchestratorAction_ScheduleTask{
		ScheduleTask: &pb.ScheduleTaskAction{Name: name, Input: wrapperspb.String(input)},
	}}
}

// completed is the action that ends an orchestration.
func completed(id int32, result string) *pb.OrchestratorAction {
	return &pb.OrchestratorAction{Id: id, OrchestratorActionType: &pb.OrchestratorAction_CompleteOrchestration{
		CompleteOrchestration: &pb.CompleteOrchestrationAction{
			OrchestrationStatus: pb.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED, Result: wrapperspb.String(result),
		},
	}}
}
