package durabletask

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/server/auth"
)

// start starts an instance.
func (b *backend) start(id, name, version string) {
	b.t.Helper()
	client, shut := b.dial()
	defer shut()
	_, err := client.StartInstance(b.in("hub"), &pb.CreateInstanceRequest{InstanceId: id, Name: name, Version: optional(version)})
	check.OK(b.t, err)
}

// result waits until an instance has completed with an output.
func (b *backend) result(id, want string) {
	b.t.Helper()
	client, shut := b.dial()
	defer shut()
	r, err := client.WaitForInstanceCompletion(b.in("hub"), &pb.GetInstanceRequest{InstanceId: id, GetInputsAndOutputs: true})
	check.OK(b.t, err)
	check.Equal(b.t, "output", r.GetOrchestrationState().GetOutput().GetValue(), want)
}

// perform answers an activity.
func (p *program) perform(token, result string) {
	p.b.t.Helper()
	_, err := p.client.CompleteActivityTask(p.b.in(p.hub), &pb.ActivityResponse{CompletionToken: token, Result: wrapperspb.String(result)})
	check.OK(p.b.t, err)
}

// greets answers a work item of an orchestration with one activity, and reports whether it has ended. The first turn
// may be delivered twice: once with the start, which does not wait for it for long.
func (p *program) greets(item *pb.WorkItem) (ended bool) {
	p.b.t.Helper()
	turn := item.GetOrchestratorRequest()
	switch {
	case turn == nil:
		p.perform(item.GetCompletionToken(), "1")
	case len(turn.GetPastEvents()) == 0:
		p.decide(item.GetCompletionToken(), schedule(0, "greet", "1"))
	default:
		p.decide(item.GetCompletionToken(), completed(1, "1"))
		return true
	}
	return false
}

// TestAbandoned: a turn and an activity that a worker gives back are delivered again.
func TestAbandoned(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.start("a", "flow", "")
	p := b.work("hub", &pb.GetWorkItemsRequest{})
	_, token := p.turn()
	_, err := p.client.AbandonTaskOrchestratorWorkItem(b.in("hub"), &pb.AbandonOrchestrationTaskRequest{CompletionToken: token})
	check.OK(t, err)
	_, again := p.turn()
	if again == token {
		t.Error("the turn has the same token again")
	}
	p.decide(again, schedule(0, "greet", "1"))
	_, token = p.activity()
	_, err = p.client.AbandonTaskActivityWorkItem(b.in("hub"), &pb.AbandonActivityTaskRequest{CompletionToken: token})
	check.OK(t, err)
	_, token = p.activity()
	p.perform(token, "2")
	_, token = p.turn()
	p.decide(token, completed(1, "3"))
	b.result("a", "3")
}

// TestFilters: a worker is sent what its filters name, by name and version, and an activity without a version has
// that of its orchestration.
func TestFilters(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	of := func(version string) *program {
		return b.work("hub", &pb.GetWorkItemsRequest{WorkItemFilters: &pb.WorkItemFilters{
			Orchestrations: []*pb.OrchestrationFilter{{Name: "flow", Versions: []string{version}}},
			Activities:     []*pb.ActivityFilter{{Name: "greet", Versions: []string{version}}},
		}})
	}
	one, two := of("1"), of("2")
	b.start("other", "another", "1")
	for i, p := range []*program{two, one, two, one} {
		id := fmt.Sprint("i", i)
		b.start(id, "flow", fmt.Sprint(2-i%2))
		for ended := false; !ended; {
			item := p.next()
			instance := cmp.Or(item.GetOrchestratorRequest().GetInstanceId(), item.GetActivityRequest().GetOrchestrationInstance().GetInstanceId())
			check.Equal(t, "instance", instance, id)
			ended = p.greets(item)
		}
		b.result(id, "1")
	}
	info, err := b.engine.Get(t.Context(), abide.Ref{Tenant: "hub", ID: "other"})
	check.OK(t, err)
	check.Equal(t, "status of what no filter names", info.Status, abide.Pending)
}

// TestConcurrency: a worker never has more in flight than it has asked for.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	p := b.work("hub", &pb.GetWorkItemsRequest{MaxConcurrentOrchestrationWorkItems: 2, MaxConcurrentActivityWorkItems: 3})
	const n = 12
	for i := range n {
		b.start(fmt.Sprint("i", i), "flow", "")
	}
	inFlight := func() (turns, activities int) {
		b.mu.Lock()
		items := slices.Collect(maps.Values(b.items))
		b.mu.Unlock()
		for _, i := range items {
			i.s.mu.Lock()
			switch {
			case i.sent && i.key.kind == turnItem:
				turns++
			case i.sent:
				activities++
			}
			i.s.mu.Unlock()
		}
		return turns, activities
	}
	for ended := 0; ended < n; {
		item := p.next()
		if turns, activities := inFlight(); turns > 2 || activities > 3 {
			t.Fatalf("%d turns and %d activities are in flight", turns, activities)
		}
		if p.greets(item) {
			ended++
		}
	}
}

// TestParts: an answer may come in parts.
func TestParts(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.start("a", "flow", "")
	p := b.work("hub", &pb.GetWorkItemsRequest{})
	_, token := p.turn()
	for i := range int32(3) {
		_, err := p.client.CompleteOrchestratorTask(b.in("hub"), &pb.OrchestratorResponse{
			CompletionToken: token, IsPartial: i < 2, Actions: []*pb.OrchestratorAction{schedule(i, "greet", "1")}, CustomStatus: wrapperspb.String("going"),
		})
		check.OK(t, err)
	}
	for activities := 0; activities < 3; {
		item := p.next()
		if item.GetActivityRequest() == nil {
			p.decide(item.GetCompletionToken())
			continue
		}
		activities++
		p.perform(item.GetCompletionToken(), "1")
	}
	info, err := b.engine.Get(t.Context(), abide.Ref{Tenant: "hub", ID: "a"})
	check.OK(t, err)
	check.Equal(t, "status", info.StatusText, "going")
}

// TestWrongAnswers: an answer of another type is refused, and so are unknown tokens and a second answer.
func TestWrongAnswers(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.start("a", "flow", "")
	p := b.work("hub", &pb.GetWorkItemsRequest{})
	_, token := p.turn()
	_, err := p.client.CompleteActivityTask(b.in("hub"), &pb.ActivityResponse{CompletionToken: token})
	check.Equal(t, "code of an answer of another type", status.Code(err), codes.InvalidArgument)
	_, err = p.client.AbandonTaskActivityWorkItem(b.in("hub"), &pb.AbandonActivityTaskRequest{CompletionToken: token})
	check.Equal(t, "code of what is given back as another type", status.Code(err), codes.InvalidArgument)
	_, err = p.client.CompleteOrchestratorTask(b.in("hub"), &pb.OrchestratorResponse{CompletionToken: "unknown"})
	check.Equal(t, "code of an unknown token", status.Code(err), codes.NotFound)
	p.decide(token, completed(0, "1"))
	_, err = p.client.CompleteOrchestratorTask(b.in("hub"), &pb.OrchestratorResponse{CompletionToken: token})
	check.Equal(t, "code of a second answer", status.Code(err), codes.NotFound)
	b.result("a", "1")
}

// TestWithoutTokens: a worker that knows no completion tokens names what it answers.
func TestWithoutTokens(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.start("a", "flow", "")
	p := b.work("hub", &pb.GetWorkItemsRequest{})
	answer := func(actions ...*pb.OrchestratorAction) error {
		_, err := p.client.CompleteOrchestratorTask(b.in("hub"), &pb.OrchestratorResponse{InstanceId: "a", Actions: actions})
		return err
	}
	_, _ = p.turn()
	check.OK(t, answer(schedule(1, "greet", "1"), schedule(0, "greet", "0")))
	for results := 0; results < 2; {
		item := p.next()
		if task := item.GetActivityRequest(); task != nil {
			check.Equal(t, "input", task.GetInput().GetValue(), fmt.Sprint(task.GetTaskId()))
			_, err := p.client.CompleteActivityTask(b.in("hub"), &pb.ActivityResponse{InstanceId: "a", TaskId: task.GetTaskId(), Result: task.GetInput()})
			check.OK(t, err)
			continue
		}
		for _, e := range item.GetOrchestratorRequest().GetNewEvents() {
			if done := e.GetTaskCompleted(); done != nil {
				results++
				check.Equal(t, "result", done.GetResult().GetValue(), fmt.Sprint(done.GetTaskScheduledId()))
			}
		}
		check.OK(t, answer())
	}
	check.Equal(t, "code if nothing is in flight", status.Code(answer()), codes.NotFound)
}

// TestStalls: what this release does not support, and what is too large, stalls an instance with the reason. It goes
// on when it is resumed and a worker answers properly.
func TestStalls(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", engine.MaxPayload+1)
	for name, c := range map[string]struct {
		answer *pb.OrchestratorResponse
		reason string
	}{
		"unknown action": {&pb.OrchestratorResponse{Actions: []*pb.OrchestratorAction{{Id: 0}}}, "does not support"},
		"custom status":  {&pb.OrchestratorResponse{CustomStatus: wrapperspb.String(large[:maxCustomStatus+1])}, "custom status"},
		"payload":        {&pb.OrchestratorResponse{Actions: []*pb.OrchestratorAction{schedule(0, "greet", large)}}, "payload"},
		"name":           {&pb.OrchestratorResponse{Actions: []*pb.OrchestratorAction{schedule(0, large[:10_000], "1")}}, "name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t)
			b.start("a", "flow", "")
			p := b.work("hub", &pb.GetWorkItemsRequest{})
			_, token := p.turn()
			c.answer.CompletionToken = token
			_, err := p.client.CompleteOrchestratorTask(b.in("hub"), c.answer)
			check.OK(t, err)
			ref := abide.Ref{Tenant: "hub", ID: "a"}
			check.Eventually(t, "it has stalled", func() bool {
				info, err := b.engine.Get(t.Context(), ref)
				check.OK(t, err)
				return info.Status == abide.Stalled && strings.Contains(info.Reason, c.reason)
			})
			resumed := make(chan error, 1)
			go func() { resumed <- b.engine.Resume(b.in("hub"), ref) }()
			_, token = p.turn()
			p.decide(token, completed(0, "1"))
			check.OK(t, <-resumed)
			b.result("a", "1")
		})
	}
}

// TestCarryOver: the next execution receives the events that the code hands on.
func TestCarryOver(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.start("a", "flow", "")
	p := b.work("hub", &pb.GetWorkItemsRequest{})
	_, token := p.turn()
	p.decide(token, &pb.OrchestratorAction{OrchestratorActionType: &pb.OrchestratorAction_CompleteOrchestration{CompleteOrchestration: &pb.CompleteOrchestrationAction{
		OrchestrationStatus: pb.OrchestrationStatus_ORCHESTRATION_STATUS_CONTINUED_AS_NEW, Result: wrapperspb.String("again"),
		CarryoverEvents: []*pb.HistoryEvent{{EventType: &pb.HistoryEvent_EventRaised{EventRaised: &pb.EventRaisedEvent{Name: "E", Input: wrapperspb.String("kept")}}}},
	}}})
	turn, token := p.turn()
	var raised, input string
	for _, e := range append(turn.GetPastEvents(), turn.GetNewEvents()...) {
		input += e.GetExecutionStarted().GetInput().GetValue()
		raised += e.GetEventRaised().GetName() + e.GetEventRaised().GetInput().GetValue()
	}
	check.Equal(t, "input", input, "again")
	check.Equal(t, "event", raised, "Ekept")
	p.decide(token, completed(0, "1"))
	b.result("a", "1")
}

// TestHistoryStreaming: a long history is left to workers that can read it by themselves, and to no others, and is the
// same for both.
func TestHistoryStreaming(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	b.start("a", "flow", "")
	p := b.work("hub", &pb.GetWorkItemsRequest{})
	_, token := p.turn()
	p.decide(token, schedule(0, "greet", strings.Repeat("x", streamAbove)))
	_, token = p.activity()
	p.perform(token, "1")
	turn, _ := p.turn()
	check.Equal(t, "streaming without the capability", turn.GetRequiresHistoryStreaming(), false)
	past := turn.GetPastEvents()
	p.shut()
	can := b.work("hub", &pb.GetWorkItemsRequest{Capabilities: []pb.WorkerCapability{pb.WorkerCapability_WORKER_CAPABILITY_HISTORY_STREAMING}})
	turn, token = can.turn()
	check.Equal(t, "streaming with the capability", turn.GetRequiresHistoryStreaming(), true)
	check.Equal(t, "past events that are sent", len(turn.GetPastEvents()), 0)
	stream, err := can.client.StreamInstanceHistory(b.in("hub"), &pb.StreamInstanceHistoryRequest{InstanceId: "a", ForWorkItemProcessing: true})
	check.OK(t, err)
	var read []*pb.HistoryEvent
	for {
		chunk, err := stream.Recv()
		if err != nil {
			break
		}
		read = append(read, chunk.GetEvents()...)
	}
	check.Equal(t, "events", len(read), len(past))
	for i := range past {
		if !proto.Equal(read[i], past[i]) {
			t.Errorf("event %d is %v, want %v", i, read[i], past[i])
		}
	}
	can.decide(token, completed(1, "1"))
	b.result("a", "1")
}

// TestTwoServices: a name that is first used by way of one service is served by a worker at the other at once.
func TestTwoServices(t *testing.T) {
	t.Parallel()
	one := newBackend(t)
	two := one.another()
	p := two.work("hub", &pb.GetWorkItemsRequest{})
	for i := range 3 {
		one.start(fmt.Sprint("i", i), fmt.Sprint("new", i), "")
		_, token := p.turn()
		p.decide(token, completed(0, "1"))
		one.result(fmt.Sprint("i", i), "1")
	}
}

// TestRoles: operators do not work, readers do not change anything, and a token of one hub is for no other.
func TestRoles(t *testing.T) {
	t.Parallel()
	b := newBackend(t, func(c *Config) {
		guard, err := auth.New(auth.Config{Store: c.Engine.Store(), Logger: c.Logger})
		check.OK(t, err)
		c.Auth = guard
	})
	as := func(hub string, role auth.Role, tenants ...string) context.Context {
		_, secret, err := b.cfg.Auth.CreateToken(auth.With(t.Context(), auth.Identity{Role: auth.Admin}), auth.NewToken{Name: "test", Role: role, Tenants: tenants})
		check.OK(t, err)
		return metadata.AppendToOutgoingContext(b.in(hub), "authorization", "Bearer "+secret)
	}
	client, _ := b.dial()
	start := func(ctx context.Context, id string) error {
		_, err := client.StartInstance(ctx, &pb.CreateInstanceRequest{InstanceId: id, Name: "flow"})
		return err
	}
	get := func(ctx context.Context) error {
		_, err := client.GetInstance(ctx, &pb.GetInstanceRequest{InstanceId: "a"})
		return err
	}
	work := func(ctx context.Context) error {
		stream, err := client.GetWorkItems(ctx, &pb.GetWorkItemsRequest{})
		check.OK(t, err)
		_, err = stream.Recv()
		return err
	}
	check.OK(t, start(as("hub", auth.Operate, "hub"), "a"))
	check.OK(t, get(as("hub", auth.Read, "hub")))
	check.OK(t, work(as("hub", auth.Worker, "hub")))
	for name, err := range map[string]error{
		"work for an operator":       work(as("hub", auth.Operate)),
		"a start by a reader":        start(as("hub", auth.Read), "c"),
		"work for a reader":          work(as("hub", auth.Read)),
		"a start in another hub":     start(as("other", auth.Operate, "hub"), "d"),
		"a look into another hub":    get(as("other", auth.Operate, "hub")),
		"work of another hub":        work(as("other", auth.Worker, "hub")),
		"a look into the default":    get(as("default", auth.Operate, "hub")),
		"a look into another's work": get(as("hub", auth.Read, "other")),
	} {
		check.Equal(t, name, status.Code(err), codes.PermissionDenied)
	}
	check.Equal(t, "a wrong token", status.Code(get(metadata.AppendToOutgoingContext(b.in("hub"), "authorization", "Bearer wrong"))), codes.Unauthenticated)
}

// TestStop: workers are told that the server is about to stop, and waits end.
func TestStop(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	client, _ := b.dial()
	p := b.work("hub", &pb.GetWorkItemsRequest{})
	b.start("a", "flow", "")
	_, token := p.turn()
	p.decide(token, schedule(0, "greet", "1"))
	_, token = p.activity()
	p.perform(token, "1")
	_, token = p.turn()
	p.decide(token)
	waited := make(chan error, 1)
	go func() {
		_, err := client.WaitForInstanceCompletion(b.in("hub"), &pb.GetInstanceRequest{InstanceId: "a"})
		waited <- err
	}()
	b.Stop(t.Context())
	_, err := p.stream.Recv()
	check.Equal(t, "code of the stream", status.Code(err), codes.Unavailable)
	check.Equal(t, "code of the wait", status.Code(<-waited), codes.Unavailable)
	late := b.work("hub", &pb.GetWorkItemsRequest{})
	_, err = late.stream.Recv()
	check.Equal(t, "code of a worker that comes late", status.Code(err), codes.Unavailable)
}

// TestVanishingWorkers: workers that connect, ask and vanish leave nothing behind.
func TestVanishingWorkers(t *testing.T) {
	b := newBackend(t)
	b.start("a", "flow", "")
	vanish := func(n int) {
		var all sync.WaitGroup
		most := make(chan struct{}, 10)
		for i := range n {
			most <- struct{}{}
			all.Go(func() {
				defer func() { <-most }()
				client, shut := b.dialAs("durabletask-js/0.3.0")
				defer shut()
				ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "taskhub", "hub"))
				defer cancel()
				stream, err := client.GetWorkItems(ctx, &pb.GetWorkItemsRequest{})
				if err == nil && i%50 == 0 {
					_, _ = stream.Recv() // the turn, once the worker that has it has vanished
				}
			})
		}
		all.Wait()
	}
	gone := func() bool {
		b.mu.Lock()
		workers, items, keyed, h := b.workers, len(b.items), len(b.keyed), b.hubs["hub"]
		b.mu.Unlock()
		h.mu.Lock()
		defer h.mu.Unlock()
		return workers == 0 && items == 0 && keyed == 0 && len(h.sessions) == 0 && h.watching == nil
	}
	vanish(20)
	check.Eventually(t, "the first are forgotten", gone)
	before := runtime.NumGoroutine()
	n := 1_000
	if testenv.Long() {
		n = 10_000
	}
	vanish(n)
	check.Eventually(t, "all are forgotten", gone)
	const few = 10 // of the runtime, and of what runs once in a while
	check.Eventually(t, "their goroutines have ended", func() bool { return runtime.NumGoroutine() <= before+few })
	p := b.work("hub", &pb.GetWorkItemsRequest{})
	_, token := p.turn()
	p.decide(token, completed(0, "1"))
	b.result("a", "1")
}
