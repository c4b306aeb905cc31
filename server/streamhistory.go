package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

const (
	// followLeast and followMost are how long a stream of a history waits between two looks
	// at it: the longer the less happens. Not each turn changes the instance's record, so
	// there is nothing else that would tell.
	followLeast = 250 * time.Millisecond
	followMost  = 2 * time.Second

	// followBytes is about how much of a history is read at once.
	followBytes = 1 << 20
)

func (s *Server) addHistoryStream() {
	route(s, auth.Read, huma.Operation{
		OperationID: "stream-history", Method: http.MethodGet, Path: instancePath + "/history/stream", Summary: "Follow the history of an instance", Tags: []string{tagInstances},
		Description: "Server-sent events. An event of the history is an event of the type event, its data is as in the history, and its ID is execution.event. " +
			"The stream begins with the first event of the latest execution, or after the one that Last-Event-ID or after names, and continues with the executions that follow. " +
			"An event of the type missed means that what comes next does not follow what came before: the history is not kept any more, or the instance was restarted. " +
			"An event of the type end is the last one: the instance has ended, or was deleted.",
		Responses: s.eventsSchema("Events of the types event, missed and end."),
	}, func(ctx context.Context, in *struct {
		Tenant string `path:"tenant"`
		ID     string `path:"id"`
		After  string `query:"after" doc:"The ID of the event to go on after."`
		Last   string `header:"Last-Event-ID" doc:"The same; it counts if both are given."`
	}) (*huma.StreamResponse, error) {
		f := &follower{s: s, ref: ref(in.Tenant, in.ID)}
		if last := lastEvent(in.Last, in.After); last != "" {
			var err error
			if f.at, err = parsePosition(last); err != nil {
				return nil, newProblem(http.StatusBadRequest, api.CodeInvalid, "invalid request", err.Error())
			}
		}
		info, err := s.engine.Get(ctx, f.ref)
		if err != nil {
			return nil, s.problem(err)
		}
		f.begin(&info)
		return s.stream(f.run)
	})
}

// follower reads the history of an instance as it grows.
type follower struct {
	s       *Server
	ref     abide.Ref
	at      position
	missed  bool      // what comes next does not follow what came before
	started time.Time // of the instance that is followed
}

// begin finds the place to begin at.
func (f *follower) begin(info *abide.Info) {
	if f.at.execution > 0 {
		return
	}
	f.at, f.started = position{info.Execution, 0}, info.StartedAt
}

// run sends events until the instance has ended.
func (f *follower) run(ctx context.Context, st *stream) {
	st.open()
	pause := followLeast
	for ctx.Err() == nil {
		info, err := f.s.engine.Get(ctx, f.ref)
		if err == nil {
			before := f.at
			err = f.catchUp(ctx, &info, st)
			if f.at != before {
				pause = followLeast
			}
		}
		switch {
		case errors.Is(err, abide.ErrNotFound): // it was deleted
			f.send(st, "end", "", api.HistoryEnd{Status: "deleted", Execution: f.at.execution})
			return
		case err != nil:
			if ctx.Err() == nil {
				f.s.log.Warn("history stream ended", "tenant", f.ref.Tenant, "instance", f.ref.ID, "error", err)
			}
			return
		case info.Status.Ended():
			f.send(st, "end", "", api.HistoryEnd{Status: string(info.Status), Execution: info.Execution})
			return
		}
		_, _, err = f.s.patiently(ctx, pause, func(ctx context.Context) (abide.Info, error) {
			return f.s.engine.WaitChange(ctx, f.ref, info.Revision)
		})
		if err != nil && !errors.Is(err, abide.ErrNotFound) {
			return
		}
		pause = min(2*pause, followMost)
	}
}

// catchUp sends what there is. What was true of the instance before is what it has come to
// at least.
func (f *follower) catchUp(ctx context.Context, info *abide.Info, st *stream) error {
	if !f.started.Equal(info.StartedAt) && !f.started.IsZero() { // it was restarted
		f.at, f.missed = position{info.Execution, 0}, true
	}
	f.started = info.StartedAt
	for ctx.Err() == nil {
		if f.at.execution > info.Execution || f.at.execution < info.Execution-1 { // it is not kept
			f.at, f.missed = position{max(info.Execution-1, 1), 0}, true
		}
		part, more, err := f.s.engine.HistoryPart(ctx, f.ref, abide.HistoryRange{Execution: f.at.execution, After: f.at.event, MaxBytes: followBytes})
		if errors.Is(err, abide.ErrNotFound) {
			// Either it is gone, or the history is another one.
			if *info, err = f.s.engine.Get(ctx, f.ref); err != nil {
				return err
			}
			f.at, f.missed, f.started = position{info.Execution, 0}, true, info.StartedAt
			if part, more, err = f.s.engine.HistoryPart(ctx, f.ref, abide.HistoryRange{Execution: f.at.execution, After: 0, MaxBytes: followBytes}); errors.Is(err, abide.ErrNotFound) {
				return nil // and once more another one: the next look will tell
			}
		}
		if err != nil {
			return err
		}
		for i := range part.Events {
			if f.missed {
				f.send(st, "missed", "", struct{}{})
				f.missed = false
			}
			e := api.HistoryEvent{Event: part.Events[i]}
			f.at.event = int(e.ID)
			f.send(st, "event", f.at.String(), e)
		}
		if more {
			continue
		}
		if f.at.execution >= info.Execution {
			return nil
		}
		f.at = position{f.at.execution + 1, 0}
	}
	return nil
}

func (f *follower) send(st *stream, name, id string, data any) {
	frame, err := event(name, id, data)
	if err != nil {
		f.s.log.Error("history event not encoded", "tenant", f.ref.Tenant, "instance", f.ref.ID, "error", err)
		st.stop()
		return
	}
	st.send(frame)
}
