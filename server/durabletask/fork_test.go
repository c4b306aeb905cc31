package durabletask

import (
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
)

// TestFork: an instance of an SDK can be forked within a turn. The worker of the fork is told what the code did before,
// and answers with the rest.
func TestFork(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	client, _ := b.dial()
	_, err := client.StartInstance(b.in("hub"), &pb.CreateInstanceRequest{InstanceId: "a", Name: "hello"})
	check.OK(t, err)
	filters := &pb.WorkItemFilters{Orchestrations: []*pb.OrchestrationFilter{{Name: "hello"}}} // and no activities
	p := b.work("hub", &pb.GetWorkItemsRequest{WorkItemFilters: filters})
	_, token := p.turn()
	p.decide(token, schedule(0, "first", "1"), schedule(1, "second", "2"))
	ref := abide.Ref{Tenant: "hub", ID: "a"}
	at := int32(0)
	for at == 0 {
		h, err := b.engine.History(t.Context(), ref, 0)
		check.OK(t, err)
		for _, e := range h.Events {
			if e.Kind == history.ActivityScheduled && e.Name == "first" {
				at = e.ID
			}
		}
		check.OK(t, b.in("hub").Err())
	}
	_, err = b.engine.Fork(t.Context(), ref, int(at), "b")
	check.OK(t, err)
	turn, token := p.turn()
	check.Equal(t, "instance", turn.GetInstanceId(), "b")
	last := turn.GetPastEvents()[len(turn.GetPastEvents())-1]
	check.Equal(t, "what the code did before", last.GetTaskScheduled().GetName(), "first")
	check.Equal(t, "its number", last.GetEventId(), 0)
	check.Equal(t, "the turn begins", turn.GetNewEvents()[0].GetOrchestratorStarted() != nil, true)
	p.decide(token, schedule(1, "other", "2"), completed(2, "3"))
	ended, err := client.WaitForInstanceCompletion(b.in("hub"), &pb.GetInstanceRequest{InstanceId: "b", GetInputsAndOutputs: true})
	check.OK(t, err)
	check.Equal(t, "output", ended.GetOrchestrationState().GetOutput().GetValue(), "3")
}
