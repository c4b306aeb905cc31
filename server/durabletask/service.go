package durabletask

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/dial"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/grpcserve"
	"github.com/abidehq/abide/store"
)

// Config is what a service is made of.
type Config struct {
	// Engine is that of the server: the code of workers runs on its store, and what they change is
	// among its changes.
	Engine *abide.Engine

	// Auth says who may call: clients with the role operate, or read for what changes nothing, workers
	// with the role worker, and those on this machine where nobody has to prove who they are. Nil means
	// everybody.
	Auth *auth.Guard

	// MaxWorkers is how many workers may be connected. 0 means 10,000.
	MaxWorkers int

	// MaxSlots is how many turns, and how many activities, a worker may have at a time. One that asks
	// for more gets so many. 0 means 10,000.
	MaxSlots int

	// Retention is how long an ended instance is kept.
	Retention time.Duration

	// Drain is how long a worker whose stream has ended may take to complete what it has begun.
	// 0 means 30 s.
	Drain time.Duration

	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	Logger         *slog.Logger
	Clock          clock.Clock
}

// Service is the backend of Durable Task SDKs.
type Service struct {
	pb.UnimplementedTaskHubSidecarServiceServer

	cfg    Config
	store  store.Store
	client *engine.Client

	prefix string // of the tokens of this process
	last   atomic.Uint64

	mu       sync.Mutex
	hubs     map[string]*hub  // by tenant
	items    map[string]*item // by token
	keyed    map[itemKey][]*item
	workers  int
	stopping bool
	stop     chan struct{} // closed when the service stops

	running sync.WaitGroup // sessions, and what hubs watch
}

var _ pb.TaskHubSidecarServiceServer = (*Service)(nil)

// New returns a service. It serves once it is registered with a gRPC server.
func New(cfg Config) *Service {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = base.System{}
	}
	setDefault(&cfg.MaxWorkers, 10_000)
	setDefault(&cfg.MaxSlots, 10_000)
	setDefault(&cfg.Drain, 30*time.Second)
	var prefix [8]byte
	rand.Read(prefix[:])
	s := &Service{
		cfg: cfg, store: dial.Observed(cfg.Engine), prefix: hex.EncodeToString(prefix[:]) + "-",
		hubs: map[string]*hub{}, items: map[string]*item{}, keyed: map[itemKey][]*item{}, stop: make(chan struct{}),
	}
	s.client = engine.NewClient(s.store, cfg.Clock)
	return s
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Register adds the service to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) { pb.RegisterTaskHubSidecarServiceServer(r, s) }

// Stop ends the streams of all workers, which connect again elsewhere, and waits until what they have begun is
// completed or given back, or ctx ends.
func (s *Service) Stop(ctx context.Context) {
	s.mu.Lock()
	if !s.stopping {
		s.stopping = true
		close(s.stop)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// hub returns a task hub.
func (s *Service) hub(tenant string) *hub {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hubs[tenant]
	if h == nil {
		h = &hub{s: s, tenant: tenant, changed: make(chan struct{}), adding: make(chan struct{}, 1)}
		s.hubs[tenant] = h
	}
	return h
}

// keep and forget say by which token an item is completed.
func (s *Service) keep(i *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items[i.token] = i
	s.keyed[i.key] = append(s.keyed[i.key], i)
}

func (s *Service) forget(i *item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(i)
}

// drop forgets an item. mu is held.
func (s *Service) drop(i *item) {
	delete(s.items, i.token)
	others := slices.DeleteFunc(s.keyed[i.key], func(other *item) bool { return other == i })
	if len(others) == 0 {
		delete(s.keyed, i.key)
		return
	}
	s.keyed[i.key] = others
}

// find returns the item of a token. An SDK that has none is taken to mean the oldest of that name, sent over the same
// connection if there is one. mu is held.
func (s *Service) find(ctx context.Context, token string, key itemKey) *item {
	if token != "" {
		return s.items[token]
	}
	list, conn := s.keyed[key], grpcserve.Disconnected(ctx)
	if i := slices.IndexFunc(list, func(i *item) bool { return i.s.conn == conn }); i >= 0 {
		return list[i]
	}
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// callPath stands for a call where a guard asks for the path of a request.
var callPath = &url.URL{Path: "/TaskHubSidecarService"}

// enter returns the task hub of a call, whose caller must have a role.
func (s *Service) enter(ctx context.Context, role auth.Role) (*hub, auth.Identity, error) {
	name := abide.DefaultTenant
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		if v := md.Get("taskhub"); len(v) > 0 && v[0] != "" {
			name = v[0]
		}
	}
	who := auth.Identity{Kind: auth.Local, Subject: "anonymous", Role: auth.Admin}
	if s.cfg.Auth != nil {
		r := grpcserve.Request(ctx, callPath)
		var err error
		if who, err = s.cfg.Auth.Identify(r); err != nil {
			s.cfg.Logger.Warn("call refused", "remote", r.RemoteAddr, "error", err)
			return nil, who, grpcserve.Refusal(err)
		}
	}
	if who.Kind != auth.Local && !who.Role.Includes(role) {
		return nil, who, status.Errorf(codes.PermissionDenied, "the role %s may not do this; it needs the role %s", who.Role, role)
	}
	if !who.Allows(name) {
		return nil, who, status.Errorf(codes.PermissionDenied, "%s has no access to task hub %q", who.Name, name)
	}
	tenant := name
	if tenant == abide.DefaultTenant {
		tenant = ""
	}
	if err := engine.CheckRef(Ref{Tenant: tenant, ID: "x"}); err != nil {
		return nil, who, status.Errorf(codes.InvalidArgument, "task hub: %v", err)
	}
	return s.hub(tenant), who, nil
}

// Hello answers a client or worker that wants to know whether the backend is there.
func (s *Service) Hello(ctx context.Context, _ *emptypb.Empty) (*emptypb.Empty, error) {
	_, _, err := s.enter(ctx, auth.Read)
	return &emptypb.Empty{}, err
}

// worker is what is known of a worker.
type worker struct{ name, host, runtime string }

// workerOf returns what is known of the worker that makes a call.
func workerOf(ctx context.Context) worker {
	w := worker{}
	if p, ok := peer.FromContext(ctx); ok {
		w.host = p.Addr.String()
		if i := strings.LastIndexByte(w.host, ':'); i > 0 {
			w.host = w.host[:i]
		}
		w.name = p.Addr.String()
	}
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		w.runtime = runtimeOf(append(md.Get("x-user-agent"), md.Get("user-agent")...))
		if v := md.Get("workerid"); len(v) > 0 && v[0] != "" {
			w.name = v[0]
		}
	}
	w.name = w.runtime + " " + w.name
	return w
}

// runtimes are the languages of SDKs, by the names by which these, and their gRPC libraries, introduce themselves.
var runtimes = []struct{ agent, language string }{
	{"durabletask-js", "JavaScript"}, {"durabletask-python", "Python"}, {"durabletask-java", "Java"}, {"durabletask-dotnet", ".NET"},
	{"microsoft.durabletask", ".NET"}, {"durabletask-go", goRuntime},
	{"grpc-node", "JavaScript"}, {"grpc-python", "Python"}, {"grpc-java", "Java"}, {"grpc-dotnet", ".NET"}, {"grpc-go", goRuntime},
}

// goRuntime is the SDK for Go.
const goRuntime = "Go, Durable Task"

// maxVersion is how much is kept of the version of an SDK.
const maxVersion = 32

// runtimeOf returns the language of an SDK, with its version if it says so.
func runtimeOf(agents []string) string {
	for _, known := range runtimes {
		for _, agent := range agents {
			for word := range strings.FieldsSeq(agent) {
				name, version, _ := strings.Cut(word, "/")
				if !strings.Contains(strings.ToLower(name), known.agent) {
					continue
				}
				if strings.HasPrefix(known.agent, "grpc") || version == "" || len(version) > maxVersion {
					return known.language
				}
				return known.language + " " + version
			}
		}
	}
	return "Durable Task"
}

// GetWorkItems is the stream of a worker.
func (s *Service) GetWorkItems(r *pb.GetWorkItemsRequest, stream pb.TaskHubSidecarService_GetWorkItemsServer) error {
	ctx := stream.Context()
	h, who, err := s.enter(ctx, auth.Worker)
	if err != nil {
		return err
	}
	if err := checkFilters(r.GetWorkItemFilters()); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.admit(); err != nil {
		return err
	}
	defer s.release()
	w := &session{
		s: s, hub: h, filters: r.GetWorkItemFilters(), serves: who.Serves, conn: grpcserve.Disconnected(ctx), wake: make(chan struct{}, 1), pending: map[string]*item{},
	}
	for _, c := range r.GetCapabilities() {
		w.streams = w.streams || c == pb.WorkerCapability_WORKER_CAPABILITY_HISTORY_STREAMING
	}
	if err := h.enter(ctx, w); err != nil {
		return asStatus(err)
	}
	of := workerOf(ctx)
	if w.engine, err = engine.New(w.config(r, of)); err != nil {
		h.leave(w)
		return status.Error(codes.InvalidArgument, err.Error())
	}
	w.ready.Store(true)
	s.cfg.Logger.Info("worker connected", "worker", of.name, "hub", h.tenant, "by", who.Subject, "runtime", of.runtime)
	stopped, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { w.engine.StopClaiming() })()
	go func() {
		select {
		case <-s.stop:
			cancel()
		case <-stopped.Done():
		}
	}()
	err = w.send(stopped, stream)
	w.ready.Store(false)
	h.leave(w)
	w.engine.StopClaiming()
	s.running.Go(func() {
		w.finish(grpcserve.Disconnected(ctx), s.drain(ctx, of))
		soon, cancel := context.WithTimeout(context.Background(), s.cfg.Drain)
		defer cancel()
		_ = w.engine.Close(soon) // what the worker has completed is about to be committed, the rest was given back
	})
	s.cfg.Logger.Info("worker left", "worker", of.name, "hub", h.tenant, "error", err)
	if s.isStopping() {
		return status.Error(codes.Unavailable, "the server is about to stop")
	}
	return nil
}

// drain is how long a worker is waited for whose stream has ended. The SDK for Go completes nothing after it has ended
// its stream.
func (s *Service) drain(stream context.Context, w worker) time.Duration {
	if stream.Err() != nil && strings.HasPrefix(w.runtime, goRuntime) {
		return 0
	}
	return s.cfg.Drain
}

func (s *Service) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// admit counts a worker, unless there are too many or the service stops.
func (s *Service) admit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return status.Error(codes.Unavailable, "the server is about to stop")
	}
	if s.workers >= s.cfg.MaxWorkers {
		return status.Errorf(codes.ResourceExhausted, "%d workers are connected, at most so many are allowed", s.workers)
	}
	s.workers++
	s.running.Add(1)
	return nil
}

func (s *Service) release() {
	s.mu.Lock()
	s.workers--
	s.mu.Unlock()
	s.running.Done()
}

// checkFilters returns what is wrong with the filters of a worker.
func checkFilters(f *pb.WorkItemFilters) error {
	n := 0
	check := func(what, name string, versions []string) error {
		n += 1 + len(versions)
		if err := engine.CheckName(what, name); err != nil {
			return err
		}
		for _, version := range versions {
			if err := engine.CheckVersion(version); err != nil {
				return err
			}
		}
		return nil
	}
	for _, o := range f.GetOrchestrations() {
		if err := check("orchestration", o.GetName(), o.GetVersions()); err != nil {
			return err
		}
	}
	for _, a := range f.GetActivities() {
		if err := check("activity", a.GetName(), a.GetVersions()); err != nil {
			return err
		}
	}
	for _, e := range f.GetEntities() {
		if err := check("entity", e.GetName(), nil); err != nil {
			return err
		}
	}
	if n > maxNames {
		return errors.New("the filters of the worker have too many names: more than 10,000")
	}
	return nil
}

// complete passes on the answer to a work item. An SDK that has no completion tokens names it by key.
func (s *Service) complete(ctx context.Context, token string, key itemKey, answer any) (*pb.CompleteTaskResponse, error) {
	h, _, err := s.enter(ctx, auth.Worker)
	if err != nil {
		return nil, err
	}
	key.tenant = h.tenant
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.find(ctx, token, key)
	if i == nil || i.s.hub != h {
		return nil, status.Errorf(codes.NotFound, "there is no work item with the completion token %q: it was completed, given to another worker, or sent by another server", token)
	}
	all, err := i.add(key.kind, answer)
	if err != nil {
		return nil, err
	}
	if all != nil {
		s.drop(i)
		i.answer <- all
	}
	return &pb.CompleteTaskResponse{}, nil
}

// CompleteOrchestratorTask takes what the code of an orchestration has decided.
func (s *Service) CompleteOrchestratorTask(ctx context.Context, r *pb.OrchestratorResponse) (*pb.CompleteTaskResponse, error) {
	return s.complete(ctx, r.GetCompletionToken(), itemKey{kind: turnItem, instance: r.GetInstanceId()}, r)
}

// CompleteActivityTask takes the outcome of an activity.
func (s *Service) CompleteActivityTask(ctx context.Context, r *pb.ActivityResponse) (*pb.CompleteTaskResponse, error) {
	return s.complete(ctx, r.GetCompletionToken(), itemKey{kind: activityItem, instance: r.GetInstanceId(), task: r.GetTaskId()}, r)
}

// AbandonTaskOrchestratorWorkItem takes a turn back.
func (s *Service) AbandonTaskOrchestratorWorkItem(ctx context.Context, r *pb.AbandonOrchestrationTaskRequest) (*pb.AbandonOrchestrationTaskResponse, error) {
	_, err := s.complete(ctx, r.GetCompletionToken(), itemKey{kind: turnItem}, abandoned{})
	return &pb.AbandonOrchestrationTaskResponse{}, err
}

// AbandonTaskActivityWorkItem takes an activity back.
func (s *Service) AbandonTaskActivityWorkItem(ctx context.Context, r *pb.AbandonActivityTaskRequest) (*pb.AbandonActivityTaskResponse, error) {
	_, err := s.complete(ctx, r.GetCompletionToken(), itemKey{kind: activityItem}, abandoned{})
	return &pb.AbandonActivityTaskResponse{}, err
}

// asStatus returns an error of the engine as gRPC has it.
func asStatus(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, engine.ErrNotFound):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, engine.ErrExists):
		return status.Error(codes.AlreadyExists, err.Error())
	case errors.Is(err, engine.ErrInvalid):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, engine.ErrState):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, engine.ErrBusy), errors.Is(err, engine.ErrQuota):
		return status.Error(codes.ResourceExhausted, err.Error())
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}
