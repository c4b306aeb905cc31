package durabletask

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
)

// TestHello: an instance runs an activity and ends, and its history has the numbers of the SDK.
func TestHello(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	client, _ := b.dial()
	started, err := client.StartInstance(b.in("hub"), &pb.CreateInstanceRequest{InstanceId: "a", Name: "hello", Input: wrapperspb.String(`"x"`), Tags: map[string]string{"tier": "gold"}})
	check.OK(t, err)
	check.Equal(t, "ID", started.GetInstanceId(), "a")
	p := b.work("hub", &pb.GetWorkItemsRequest{}) // after the start: it learns of the name from the hub
	turn, token := p.turn()
	check.Equal(t, "past events", len(turn.GetPastEvents()), 0)
	begun := turn.GetNewEvents()[1].GetExecutionStarted()
	check.Equal(t, "input", begun.GetInput().GetValue(), `"x"`)
	check.Equal(t, "tag", begun.GetTags()["tier"], "gold")
	p.decide(token, schedule(7, "greet", `"y"`))
	activity, token := p.activity()
	check.Equal(t, "task ID", activity.GetTaskId(), 7)
	check.Equal(t, "input of the activity", activity.GetInput().GetValue(), `"y"`)
	_, err = p.client.CompleteActivityTask(b.in("hub"), &pb.ActivityResponse{CompletionToken: token, Result: wrapperspb.String(`"z"`)})
	check.OK(t, err)
	turn, token = p.turn()
	check.Equal(t, "event ID of the task", turn.GetPastEvents()[2].GetEventId(), 7)
	check.Equal(t, "task that is answered", turn.GetNewEvents()[1].GetTaskCompleted().GetTaskScheduledId(), 7)
	p.decide(token, completed(8, `"done"`))
	ended, err := client.WaitForInstanceCompletion(b.in("hub"), &pb.GetInstanceRequest{InstanceId: "a", GetInputsAndOutputs: true})
	check.OK(t, err)
	state := ended.GetOrchestrationState()
	check.Equal(t, "status", state.GetOrchestrationStatus(), pb.OrchestrationStatus_ORCHESTRATION_STATUS_COMPLETED)
	check.Equal(t, "output", state.GetOutput().GetValue(), `"done"`)
	check.Equal(t, "input of the instance", state.GetInput().GetValue(), `"x"`)
	info, err := b.engine.Get(t.Context(), abide.Ref{Tenant: "hub", ID: "a"})
	check.OK(t, err)
	check.Equal(t, "status natively", info.Status, abide.Completed)
	none, err := client.GetInstance(b.in("other"), &pb.GetInstanceRequest{InstanceId: "a"})
	check.OK(t, err)
	check.Equal(t, "the instance is in another hub", none.GetExists(), false)
}

// TestLostWorker: what a worker has that is cut off is run by another one.
func TestLostWorker(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	client, _ := b.dial()
	_, err := client.StartInstance(b.in("hub"), &pb.CreateInstanceRequest{InstanceId: "a", Name: "hello"})
	check.OK(t, err)
	first := b.work("hub", &pb.GetWorkItemsRequest{})
	_, _ = first.turn()
	first.shut()
	second := b.work("hub", &pb.GetWorkItemsRequest{})
	_, token := second.turn()
	second.decide(token, schedule(0, "greet", "1"))
	_, _ = second.activity()
	second.shut()
	third := b.work("hub", &pb.GetWorkItemsRequest{})
	_, token = third.activity()
	_, err = third.client.CompleteActivityTask(b.in("hub"), &pb.ActivityResponse{CompletionToken: token})
	check.OK(t, err)
	_, token = third.turn()
	third.decide(token, completed(1, "2"))
	ended, err := client.WaitForInstanceCompletion(b.in("hub"), &pb.GetInstanceRequest{InstanceId: "a", GetInputsAndOutputs: true})
	check.OK(t, err)
	check.Equal(t, "output", ended.GetOrchestrationState().GetOutput().GetValue(), "2")
}

// TestCompletionAfterTheStream: a worker that shuts down ends its stream and then completes what it has.
func TestCompletionAfterTheStream(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	client, _ := b.dial()
	p := b.work("hub", &pb.GetWorkItemsRequest{})
	_, err := client.StartInstance(b.in("hub"), &pb.CreateInstanceRequest{InstanceId: "a", Name: "hello"})
	check.OK(t, err)
	_, token := p.turn()
	p.cancel()
	p.decide(token, completed(0, "1"))
	ended, err := client.WaitForInstanceCompletion(b.in("hub"), &pb.GetInstanceRequest{InstanceId: "a", GetInputsAndOutputs: true})
	check.OK(t, err)
	check.Equal(t, "output", ended.GetOrchestrationState().GetOutput().GetValue(), "1")
	_, err = p.client.CompleteOrchestratorTask(b.in("hub"), &pb.OrchestratorResponse{CompletionToken: token})
	check.Equal(t, "code of a second completion", status.Code(err), codes.NotFound)
}

// TestTokensOfAnotherHub: a work item is completed from its own task hub only.
func TestTokensOfAnotherHub(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	client, _ := b.dial()
	p := b.work("hub", &pb.GetWorkItemsRequest{})
	_, err := client.StartInstance(b.in("hub"), &pb.CreateInstanceRequest{InstanceId: "a", Name: "hello"})
	check.OK(t, err)
	_, token := p.turn()
	_, err = client.CompleteOrchestratorTask(b.in("other"), &pb.OrchestratorResponse{CompletionToken: token})
	check.Equal(t, "code from another hub", status.Code(err), codes.NotFound)
	p.decide(token, completed(0, "1"))
}

// TestEntity: a signal reaches an entity, whose state is kept, and an operation of an orchestration is answered.
func TestEntity(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	client, _ := b.dial()
	p := b.work("hub", &pb.GetWorkItemsRequest{})
	_, err := client.SignalEntity(b.in("hub"), &pb.SignalEntityRequest{InstanceId: "@Counter@a", Name: "add", Input: wrapperspb.String("2"), RequestId: "r1"})
	check.OK(t, err)
	batch := p.next()
	request := batch.GetEntityRequest()
	check.Equal(t, "entity", request.GetInstanceId(), "@counter@a")
	check.Equal(t, "operation", request.GetOperations()[0].GetOperation(), "add")
	check.Equal(t, "it has a state", request.GetEntityState() != nil, false)
	success := &pb.OperationResult{ResultType: &pb.OperationResult_Success{Success: &pb.OperationResultSuccess{Result: wrapperspb.String("2")}}}
	_, err = p.client.CompleteEntityTask(b.in("hub"), &pb.EntityBatchResult{
		CompletionToken: batch.GetCompletionToken(), EntityState: wrapperspb.String("2"), Results: []*pb.OperationResult{success},
	})
	check.OK(t, err)
	_, err = client.StartInstance(b.in("hub"), &pb.CreateInstanceRequest{InstanceId: "a", Name: "caller"})
	check.OK(t, err)
	_, token := p.turn()
	p.decide(token, &pb.OrchestratorAction{Id: 3, OrchestratorActionType: &pb.OrchestratorAction_SendEntityMessage{SendEntityMessage: &pb.SendEntityMessageAction{
		EntityMessageType: &pb.SendEntityMessageAction_EntityOperationCalled{EntityOperationCalled: &pb.EntityOperationCalledEvent{
			RequestId: "call-1", Operation: "get", TargetInstanceId: wrapperspb.String("@counter@a"),
		}},
	}}})
	batch = p.next()
	check.Equal(t, "state", batch.GetEntityRequest().GetEntityState().GetValue(), "2")
	_, err = p.client.CompleteEntityTask(b.in("hub"), &pb.EntityBatchResult{
		CompletionToken: batch.GetCompletionToken(), EntityState: wrapperspb.String("2"), Results: []*pb.OperationResult{success},
	})
	check.OK(t, err)
	turn, token := p.turn()
	check.Equal(t, "event of the call", turn.GetPastEvents()[2].GetEntityOperationCalled().GetRequestId(), "call-1")
	answer := turn.GetNewEvents()[1].GetEntityOperationCompleted()
	check.Equal(t, "answered request", answer.GetRequestId(), "call-1")
	check.Equal(t, "answer", answer.GetOutput().GetValue(), "2")
	p.decide(token, completed(4, "2"))
	_, err = client.SignalEntity(b.in("hub"), &pb.SignalEntityRequest{InstanceId: "@counter@" + strings.Repeat("a", 100), Name: "add"})
	check.Equal(t, "code for a long ID", status.Code(err), codes.InvalidArgument)
}

// TestIDsByTheTimeOfTheEnd: a page is filled although instances before it do not match.
func TestIDsByTheTimeOfTheEnd(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	client, _ := b.dial()
	p := b.work("hub", &pb.GetWorkItemsRequest{})
	go func() { // until the stream ends; a turn may come twice
		for item, err := p.stream.Recv(); err == nil; item, err = p.stream.Recv() {
			_, _ = p.client.CompleteOrchestratorTask(b.in("hub"), &pb.OrchestratorResponse{
				CompletionToken: item.GetCompletionToken(), Actions: []*pb.OrchestratorAction{completed(0, "1")},
			})
		}
	}()
	var middle time.Time
	for i := range 6 {
		_, err := client.StartInstance(b.in("hub"), &pb.CreateInstanceRequest{InstanceId: strconv.Itoa(i), Name: "hello"})
		check.OK(t, err)
		ended, err := client.WaitForInstanceCompletion(b.in("hub"), &pb.GetInstanceRequest{InstanceId: strconv.Itoa(i)})
		check.OK(t, err)
		if i == 3 {
			middle = ended.GetOrchestrationState().GetCompletedTimestamp().AsTime()
		}
	}
	list, err := client.ListInstanceIds(b.in("hub"), &pb.ListInstanceIdsRequest{CompletedTimeFrom: timestamppb.New(middle), PageSize: 2})
	check.OK(t, err)
	check.Equal(t, "IDs on the first page", len(list.GetInstanceIds()), 2)
	rest, err := client.ListInstanceIds(b.in("hub"), &pb.ListInstanceIdsRequest{CompletedTimeFrom: timestamppb.New(middle), LastInstanceKey: list.GetLastInstanceKey()})
	check.OK(t, err)
	ids := append(list.GetInstanceIds(), rest.GetInstanceIds()...)
	check.Equal(t, "the last ID", ids[len(ids)-1], "5")
	check.Equal(t, "the fourth was listed", slices.Contains(ids, "3"), true)
}
