package durabletask

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/abidehq/abide/history"
	pb "github.com/abidehq/abide/internal/durabletaskpb"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/server/auth"
)

// chunkBytes is about how large a message with a part of a history is.
const chunkBytes = 256 << 10

// StreamInstanceHistory sends the history of the latest execution of an instance. There is none of an instance that
// does not exist.
func (s *Service) StreamInstanceHistory(r *pb.StreamInstanceHistoryRequest, stream pb.TaskHubSidecarService_StreamInstanceHistoryServer) error {
	h, _, err := s.enter(stream.Context(), auth.Read)
	if err != nil {
		return err
	}
	ref := Ref{Tenant: h.tenant, ID: r.GetInstanceId()}
	t := newTranslator(ref)
	turns := false
	for after := int32(0); ; {
		_, part, more, err := s.client.HistoryPart(stream.Context(), ref, 0, after, chunkBytes)
		if errors.Is(err, engine.ErrNotFound) {
			return nil
		}
		if err != nil {
			return asStatus(err)
		}
		chunk := &pb.HistoryChunk{}
		for i := range part {
			e := &part[i]
			if r.GetForWorkItemProcessing() && (e.Kind.Quiet() || e.Kind.Ends()) {
				continue
			}
			if e.Kind == history.TurnStarted && turns && !r.GetForWorkItemProcessing() {
				chunk.Events = append(chunk.Events, t.turnCompleted())
			}
			turns = turns || e.Kind == history.TurnStarted
			if event := t.event(e); event != nil {
				chunk.Events = append(chunk.Events, event)
			}
		}
		if !more && turns && !r.GetForWorkItemProcessing() {
			chunk.Events = append(chunk.Events, t.turnCompleted())
		}
		if err := sendChunk(stream, chunk); err != nil {
			return err
		}
		if !more || len(part) == 0 {
			return nil
		}
		after = part[len(part)-1].ID
	}
}

// turnCompleted returns the event that ends a turn, which Abide's history does not have.
func (t *translator) turnCompleted() *pb.HistoryEvent {
	return &pb.HistoryEvent{
		EventId: outside, Timestamp: stamp(t.now),
		EventType: &pb.HistoryEvent_OrchestratorCompleted{OrchestratorCompleted: &pb.OrchestratorCompletedEvent{}},
	}
}

// sendChunk sends events in messages that clients accept: gRPC's own limit is 4 MiB.
func sendChunk(stream pb.TaskHubSidecarService_StreamInstanceHistoryServer, chunk *pb.HistoryChunk) error {
	part, size := &pb.HistoryChunk{}, 0
	for _, e := range chunk.GetEvents() {
		n := proto.Size(e)
		if size+n > 4*chunkBytes && len(part.GetEvents()) > 0 {
			if err := stream.Send(part); err != nil {
				return err
			}
			part, size = &pb.HistoryChunk{}, 0
		}
		part.Events = append(part.Events, e)
		size += n
	}
	if len(part.GetEvents()) == 0 {
		return nil
	}
	return stream.Send(part)
}
