package workers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/clock"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/dial"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/workerlink"
	"github.com/abidehq/abide/internal/workerpb"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/server/grpcserve"
	"github.com/abidehq/abide/store"
)

// Config is what a service is made of.
type Config struct {
	// Engine is that of the server: the code of workers runs on its store, and what they change is
	// among its changes.
	Engine *abide.Engine

	// API is the HTTP API, which workers call over their connection.
	API http.Handler

	// Problem returns an error as the API answers it.
	Problem func(err error) *api.Problem

	// Auth says who may connect: those with the role worker, and those on this machine where nobody
	// has to prove who they are. Nil means everybody.
	Auth *auth.Guard

	// TLS is how connections are secured. Nil means not at all.
	TLS *tls.Config

	// MaxWorkers is how many workers may be connected. 0 means 10,000.
	MaxWorkers int

	// WorkerQuota is how many workers that are limited to tenants may be connected for one of them. 0 means any
	// number.
	WorkerQuota int

	// MaxSlots is how many turns, and how many activities, a worker may have at a time. One that asks
	// for more gets so many. 0 means 10,000.
	MaxSlots int

	// Retention is how long an ended instance is kept if a worker does not say it.
	Retention time.Duration

	// Drain is how long what is under way may take to end when a worker leaves or the service stops.
	// 0 means 10 s.
	Drain time.Duration

	// Recheck is how often it is looked whether a worker may still connect: its token may have been
	// revoked. 0 means 30 s.
	Recheck time.Duration

	// KeepAlive is how long a connection may be silent before it is probed, and how long the answer may take
	// then. A worker that is frozen or cut off is lost after the sum. 0 means 10 s, and the least is 1 s.
	KeepAlive time.Duration

	// Register, if not nil, adds services that share the address.
	Register func(grpc.ServiceRegistrar)

	// Version is that of the server, which workers are told.
	Version string

	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	Logger         *slog.Logger
	Clock          clock.Clock
}

// greetWithin is how long a worker may take to say what it runs.
const greetWithin = 10 * time.Second

// Service has workers run code. It is a gRPC server.
type Service struct {
	workerpb.UnimplementedWorkersServer

	cfg   Config
	store store.Store
	peers *engine.Peers // of all engines of workers
	grpc  *grpc.Server

	refusals *refusals

	mu       sync.Mutex
	workers  map[*workerSession]struct{}
	byTenant map[string]int // of those that are limited to tenants
	draining bool

	sessions sync.WaitGroup
}

var _ workerpb.WorkersServer = (*Service)(nil)

// New returns a service that does not serve yet.
func New(cfg Config) *Service {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = base.System{}
	}
	setDefault(&cfg.MaxWorkers, 10_000)
	setDefault(&cfg.MaxSlots, 10_000)
	setDefault(&cfg.Drain, 10*time.Second)
	setDefault(&cfg.Recheck, 30*time.Second)
	setDefault(&cfg.KeepAlive, 10*time.Second)
	s := &Service{cfg: cfg, store: dial.Observed(cfg.Engine), peers: &engine.Peers{}, workers: map[*workerSession]struct{}{}, byTenant: map[string]int{}, refusals: newRefusals(cfg.Logger, cfg.Clock)}
	s.grpc = grpcserve.New(grpcserve.Config{TLS: cfg.TLS, KeepAlive: cfg.KeepAlive, MaxMessage: workerlink.MaxMessage, Window: workerlink.Window})
	workerpb.RegisterWorkersServer(s.grpc, s)
	if cfg.Register != nil {
		cfg.Register(s.grpc)
	}
	return s
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Serve accepts workers until the service is stopped.
func (s *Service) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("workers: %w", err)
	}
	return nil
}

// Stop tells all workers to connect elsewhere, waits until what they run is done or ctx ends, and closes
// their connections.
func (s *Service) Stop(ctx context.Context) {
	s.mu.Lock()
	s.draining = true
	for w := range s.workers {
		if w.ready {
			go w.drain()
		}
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.sessions.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.grpc.Stop()
	<-done
}

// identify returns who makes a call, and refuses those that may not run code.
func (s *Service) identify(ctx context.Context) (*http.Request, auth.Identity, error) {
	r := grpcserve.Request(ctx, workPath)
	if s.cfg.Auth == nil {
		return r, auth.Identity{Kind: auth.Local, Subject: "anonymous", Role: auth.Worker}, nil
	}
	who, err := s.cfg.Auth.Identify(r)
	if err != nil {
		s.refusals.note("worker refused", r.RemoteAddr, err)
		return nil, who, grpcserve.Refusal(err)
	}
	return r, who, nil
}

// mayWork reports why an identity may not run code, or nil.
func mayWork(who *auth.Identity) error {
	if who.Kind == auth.Local || who.Role.Includes(auth.Worker) {
		return nil
	}
	return status.Errorf(codes.PermissionDenied, "the role %s may not run code; a worker needs the role %s", who.Role, auth.Worker)
}

// mayServe reports which of its orchestrations and activities a worker may not serve, or nil.
func mayServe(who *auth.Identity, h *workerpb.Hello) error {
	refuse := func(what, name string) error {
		return status.Errorf(codes.PermissionDenied, "the credentials of the worker do not allow it to serve the %s %q; allowed: %s", what, name, strings.Join(who.Serve, ", "))
	}
	for _, route := range h.GetOrchestrations() {
		if name, _, _ := strings.Cut(route, "@"); !who.Serves(name) {
			return refuse("orchestration", name)
		}
	}
	for _, name := range h.GetActivities() {
		if !who.Serves(name) {
			return refuse("activity", name)
		}
	}
	for _, name := range h.GetEntities() {
		if !who.Serves(name) {
			return refuse("entity", name)
		}
	}
	return nil
}

// enter counts a session, unless there are too many or the service stops.
func (s *Service) enter(w *workerSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return status.Error(codes.Unavailable, "the server is about to stop")
	}
	if len(s.workers) >= s.cfg.MaxWorkers {
		return status.Errorf(codes.ResourceExhausted, "%d workers are connected, at most so many are allowed", len(s.workers))
	}
	for _, tenant := range w.who.Tenants {
		if n := s.byTenant[tenant]; s.cfg.WorkerQuota > 0 && n >= s.cfg.WorkerQuota {
			return status.Errorf(codes.ResourceExhausted, "tenant %s has %d workers connected, which is its worker_quota", tenant, n)
		}
	}
	for _, tenant := range w.who.Tenants {
		s.byTenant[tenant]++
	}
	s.workers[w] = struct{}{}
	s.sessions.Add(1)
	return nil
}

// isReady notes that a worker can be drained, and reports whether it is to be.
func (s *Service) isReady(w *workerSession) (drain bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.ready = true
	return s.draining
}

func (s *Service) leave(w *workerSession) {
	s.mu.Lock()
	delete(s.workers, w)
	for _, tenant := range w.who.Tenants {
		if s.byTenant[tenant]--; s.byTenant[tenant] == 0 {
			delete(s.byTenant, tenant)
		}
	}
	s.mu.Unlock()
	s.sessions.Done()
}
