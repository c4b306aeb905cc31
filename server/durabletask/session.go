package durabletask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/abidehq/abide/history"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
	"github.com/abidehq/abide/internal/engine"
)

// session is a worker: a stream of work items, and the engine whose code it runs.
type session struct {
	s       *Service
	hub     *hub
	filters *pb.WorkItemFilters // nil: everything
	streams bool                // the worker can read histories by itself
	conn    <-chan struct{}     // closed with its connection, and which of them it is
	serves  func(name string) bool

	engine *engine.Engine
	ready  atomic.Bool // the engine is there

	mu      sync.Mutex
	unsent  []*pb.WorkItem
	wake    chan struct{} // capacity 1
	pending map[string]*item
	room    [3]int // how many more items of each kind the worker may be sent
	lost    bool
	idle    chan struct{} // closed when the stream has ended and nothing is pending
}

// item is a work item that the worker has, or is about to be sent.
type item struct {
	s     *session
	token string
	key   itemKey

	sent   bool     // it takes room; mu of the session
	answer chan any // capacity 1: an item is answered once
	gone   chan struct{}

	parts   int                      // of the answer so far; mu of the service
	partial *pb.OrchestratorResponse // what they say; mu of the service
}

// itemKey is how an SDK without completion tokens names a work item.
type itemKey struct {
	tenant, instance string
	kind             itemKind
	task             int32 // of an activity
}

// itemKind is what a work item is.
type itemKind byte

const (
	turnItem itemKind = iota
	activityItem
	entityItem
)

// keyOf returns the key of a work item.
func keyOf(tenant string, w *pb.WorkItem) itemKey {
	if a := w.GetActivityRequest(); a != nil {
		return itemKey{tenant: tenant, kind: activityItem, instance: a.GetOrchestrationInstance().GetInstanceId(), task: a.GetTaskId()}
	}
	if e := w.GetEntityRequest(); e != nil {
		return itemKey{tenant: tenant, kind: entityItem, instance: e.GetInstanceId()}
	}
	return itemKey{tenant: tenant, kind: turnItem, instance: w.GetOrchestratorRequest().GetInstanceId()}
}

// abandoned is the answer of a worker that gives a work item back.
type abandoned struct{}

// errAbandoned and errGone mean that a turn is to be tried again, by this worker or another one.
var (
	errAbandoned = fmt.Errorf("the worker has given the work item back: %w", engine.ErrUnavailable)
	errGone      = fmt.Errorf("the worker is gone: %w", engine.ErrUnavailable)
)

// maxParts is how many messages one answer may have.
const maxParts = 1_024

// begin sends a work item.
func (s *session) begin(w *pb.WorkItem) *item {
	i := &item{s: s, token: s.s.newToken(), key: keyOf(s.hub.tenant, w), answer: make(chan any, 1), gone: make(chan struct{})}
	w.CompletionToken = i.token
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost {
		close(i.gone)
		return i
	}
	s.pending[i.token] = i
	s.unsent = append(s.unsent, w)
	s.s.keep(i)
	s.awake()
	return i
}

// awake has send look for items.
func (s *session) awake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// take returns the items for which the worker has room. The engine may run a few more turns than it has slots, those
// of instances that start, and the code of some is not waited for.
func (s *session) take() (items []*pb.WorkItem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var later []*pb.WorkItem
	for _, w := range s.unsent {
		i := s.pending[w.GetCompletionToken()]
		switch {
		case i == nil: // nothing waits for it any more
		case s.room[i.key.kind] == 0:
			later = append(later, w)
		default:
			s.room[i.key.kind]--
			i.sent = true
			items = append(items, w)
		}
	}
	s.unsent = later
	return items
}

// await returns the answer. Nothing is accepted for the item any more then.
func (i *item) await(ctx context.Context) (any, error) {
	defer i.end()
	select {
	case got := <-i.answer:
		if _, back := got.(abandoned); back {
			return nil, errAbandoned
		}
		return got, nil
	case <-i.gone:
		select {
		case got := <-i.answer: // its worker has left right after
			return got, nil
		default:
			return nil, errGone
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// add takes a part of the answer, and returns all of it once it is complete, nil before. The mu of the service is
// held.
func (i *item) add(kind itemKind, answer any) (any, error) {
	if kind != i.key.kind {
		return nil, status.Error(codes.InvalidArgument, "the work item is of another type than the answer")
	}
	r, ok := answer.(*pb.OrchestratorResponse)
	if !ok {
		return answer, nil
	}
	if i.parts++; i.parts > maxParts {
		return nil, status.Errorf(codes.ResourceExhausted, "the work item was answered in more than %d parts", maxParts)
	}
	if i.partial == nil && !r.GetIsPartial() {
		return r, nil
	}
	if i.partial == nil {
		i.partial = &pb.OrchestratorResponse{}
	}
	i.partial.Actions = append(i.partial.Actions, r.GetActions()...)
	i.partial.CustomStatus = cmp.Or(r.GetCustomStatus(), i.partial.GetCustomStatus())
	i.partial.RequiresHistory = i.partial.GetRequiresHistory() || r.GetRequiresHistory()
	if r.GetIsPartial() {
		return nil, nil
	}
	return i.partial, nil
}

// end forgets the item: nothing is accepted for it any more.
func (i *item) end() {
	i.s.s.forget(i)
	s := i.s
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, i.token)
	if i.sent {
		i.sent = false
		s.room[i.key.kind]++
		s.awake()
	}
	s.noteIdle()
}

// noteIdle closes idle if the stream has ended and nothing is pending.
func (s *session) noteIdle() {
	if s.idle != nil && len(s.pending) == 0 {
		close(s.idle)
		s.idle = nil
	}
}

// send sends work items until ctx ends.
func (s *session) send(ctx context.Context, stream pb.TaskHubSidecarService_GetWorkItemsServer) error {
	for {
		for _, w := range s.take() {
			if err := stream.Send(w); err != nil {
				return err
			}
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// finish lets the worker complete what it has begun, although its stream has ended: an SDK that shuts down closes the
// stream first. It returns when nothing is pending, the connection is closed, or after a while.
func (s *session) finish(disconnected <-chan struct{}, within time.Duration) {
	s.mu.Lock()
	s.dropUnsent()
	idle := make(chan struct{})
	s.idle = idle
	s.noteIdle()
	s.mu.Unlock()
	late := make(chan struct{})
	defer s.s.cfg.Clock.AfterFunc(within, func() { close(late) })()
	select {
	case <-idle:
	case <-disconnected:
	case <-late:
	}
	s.lose()
}

// dropUnsent gives back what the worker was not sent. mu is held.
func (s *session) dropUnsent() {
	for _, w := range s.unsent {
		if i := s.pending[w.GetCompletionToken()]; i != nil {
			delete(s.pending, i.token)
			close(i.gone)
		}
	}
	s.unsent = nil
}

// lose has all that waits for the worker return.
func (s *session) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
	for token, i := range s.pending {
		delete(s.pending, token)
		close(i.gone)
	}
}

// Names are those that the worker serves: what the hub has used, and the filters allow, and what the filters name.
func (s *session) Names() (engine.Found, <-chan struct{}) {
	all, changed := s.hub.get()
	found := engine.Found{Routes: all.Orchestrations, Activities: all.Activities, Entities: all.Entities}
	if s.filters != nil {
		found = engine.Found{}
		for _, f := range s.filters.GetOrchestrations() {
			found.Routes = append(found.Routes, filtered(all.Orchestrations, f.GetName(), f.GetVersions())...)
		}
		for _, f := range s.filters.GetActivities() {
			found.Activities = append(found.Activities, filtered(all.Activities, f.GetName(), f.GetVersions())...)
		}
		for _, f := range s.filters.GetEntities() {
			found.Entities = append(found.Entities, strings.ToLower(f.GetName()))
		}
	}
	return engine.Found{Routes: s.allowed(found.Routes), Activities: s.allowed(found.Activities), Entities: s.allowed(found.Entities)}, changed
}

// allowed returns the routes whose code the worker may run.
func (s *session) allowed(routes []string) []string {
	return slices.DeleteFunc(slices.Clone(routes), func(route string) bool {
		name, _, _ := strings.Cut(route, "@")
		return !s.serves(name)
	})
}

// filtered returns the routes of a name: those of some versions, or of all that are known.
func filtered(known []string, name string, versions []string) (routes []string) {
	for _, version := range versions {
		routes = append(routes, engine.Route(name, version))
	}
	if len(versions) > 0 {
		return routes
	}
	routes = append(routes, name)
	for _, route := range known {
		if strings.HasPrefix(route, name+"@") {
			routes = append(routes, route)
		}
	}
	return routes
}

// abandonedFor is how long an activity that a worker has given back is left alone.
const abandonedFor = time.Second

// activity runs an attempt at an activity.
func (s *session) activity(ctx context.Context, t *engine.Task) ([]byte, *history.Failure) {
	name, _, _ := strings.Cut(t.Name, "@")
	request := &pb.ActivityRequest{
		Name: name, Input: text(t.Input), TaskId: t.Event,
		OrchestrationInstance: &pb.OrchestrationInstance{InstanceId: t.Ref.ID, ExecutionId: wrapperspb.String(executionID(t.Run))},
	}
	if f := t.Foreign; f != nil {
		request.TaskId, request.Version, request.Tags, request.ParentTraceContext = f.ID, optional(f.Version), f.Tags, traceOf(f)
	}
	i := s.begin(&pb.WorkItem{Request: &pb.WorkItem_ActivityRequest{ActivityRequest: request}})
	got, err := i.await(ctx)
	if err != nil {
		if errors.Is(err, errAbandoned) {
			s.pause(ctx, abandonedFor)
		}
		return nil, engine.WorkerGone
	}
	r, ok := got.(*pb.ActivityResponse)
	if !ok {
		return nil, engine.WorkerGone
	}
	if f := activityFailure(r.GetFailureDetails()); f != nil {
		return nil, f
	}
	return payload(r.GetResult()), nil
}

// pause waits, or until ctx ends.
func (s *session) pause(ctx context.Context, d time.Duration) {
	over := make(chan struct{})
	defer s.s.cfg.Clock.AfterFunc(d, func() { close(over) })()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// config returns the configuration of the worker's engine, and keeps how much the worker may have in flight.
func (s *session) config(r *pb.GetWorkItemsRequest, who worker) engine.Config {
	slots := func(asked int32, usual int) int { return min(cmp.Or(int(max(asked, 0)), usual), s.s.cfg.MaxSlots) }
	s.room = [3]int{
		turnItem:     slots(r.GetMaxConcurrentOrchestrationWorkItems(), engine.DefaultTurns),
		activityItem: slots(r.GetMaxConcurrentActivityWorkItems(), engine.DefaultActivities),
		entityItem:   slots(r.GetMaxConcurrentEntityWorkItems(), engine.DefaultTurns),
	}
	return engine.Config{
		Store: s.s.store, Clock: s.s.cfg.Clock, Logger: s.s.cfg.Logger.With("worker", who.name),
		MeterProvider: s.s.cfg.MeterProvider, TracerProvider: s.s.cfg.TracerProvider,
		Executor: s, Discovery: s, Discovered: s.activity, DiscoveredEntity: s.entity, Runtime: who.runtime, FuseWithin: fuseWithin, Tenants: []string{s.hub.tenant},
		MaxTurns: s.room[turnItem], MaxActivities: s.room[activityItem], MaxEntities: s.room[entityItem],
		Retention: s.s.cfg.Retention, WorkerName: who.name,
		Elsewhere: &engine.Worker{Host: who.host, Version: who.runtime, Run: s.s.newToken()},
	}
}

// fuseWithin is how long the start of an instance, or the outcome of an activity, waits for the turn that it causes.
// Code of these SDKs is slower than Go's, and a turn that was not waited for runs twice, although the code is told
// that it is no replay.
const fuseWithin = 500 * time.Millisecond

// newToken returns the token of a work item, which no other process and no other item has.
func (s *Service) newToken() string {
	return s.prefix + strconv.FormatUint(s.last.Add(1), 36)
}
