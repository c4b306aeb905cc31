package server

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

func (s *Server) addChangeStream() {
	watcher, ok := s.engine.Transport().(abide.Watcher)
	if !ok {
		return
	}
	route(s, auth.Read, huma.Operation{
		OperationID: "stream-instances", Method: http.MethodGet, Path: instancesPath + "/stream", Summary: "Follow instances", Tags: []string{tagInstances},
		Description: "Server-sent events. An instance that was changed by the server's process, through the API or by code that runs there, is an event of the type change. " +
			"The stream begins with what happens from now on, or after the event that Last-Event-ID or after names. " +
			"An event of the type missed means that changes were missed: list the instances again; the stream continues with what happens from then on. " +
			"An instance that is deleted is in each stream of its tenant, whatever else the stream is limited to.",
		Responses: s.eventsSchema("Events of the types change and missed."),
	}, func(ctx context.Context, in *struct {
		Tenant         string   `query:"tenant" doc:"Of one tenant."`
		Orchestrations []string `query:"orchestration,explode" doc:"Of one of these orchestrations; can be repeated."`
		Statuses       []string `query:"status" enum:"pending,running,suspended,stalled,completed,failed,cancelled,terminated,continued" doc:"With one of these statuses."`
		After          string   `query:"after" doc:"The ID of the event to go on after."`
		Last           string   `header:"Last-Event-ID" doc:"The same; it counts if both are given."`
	}) (*huma.StreamResponse, error) {
		who, _ := auth.Of(ctx)
		if in.Tenant != "" {
			if err := tenant(ctx, in.Tenant); err != nil {
				return nil, err
			}
		}
		wants := func(c *abide.Change) bool {
			name := c.Ref.Tenant
			if !who.Allows(name) || in.Tenant != "" && in.Tenant != name {
				return false
			}
			return c.Deleted || (len(in.Orchestrations) == 0 || slices.Contains(in.Orchestrations, c.Orchestration)) &&
				(len(in.Statuses) == 0 || slices.Contains(in.Statuses, string(c.Status)))
		}
		after := lastEvent(in.Last, in.After)
		return s.stream(func(ctx context.Context, st *stream) { s.sendChanges(ctx, st, watcher, after, wants) })
	})
}

// sendChanges sends the changes that a client wants.
func (s *Server) sendChanges(ctx context.Context, st *stream, watcher abide.Watcher, after string, wants func(*abide.Change) bool) {
	opened := false
	for missed := true; missed && ctx.Err() == nil; {
		changes := watcher.Changes(ctx, after) // from now on, so the client can be told so
		if !opened {
			st.open()
			opened = true
		}
		after, missed = "", false
		for c, err := range changes {
			if errors.Is(err, abide.ErrMissed) {
				missed = true
				st.see("")
				st.send([]byte("id\nevent: missed\ndata: {}\n\n")) // there is no place to come back to
				break
			}
			if err != nil {
				return // it is about to stop
			}
			st.see(c.Cursor)
			if !wants(&c) {
				continue
			}
			frame, err := s.live.frames.of(c.Cursor, func() ([]byte, error) { return event("change", c.Cursor, api.FromChange(&c)) })
			if err != nil {
				s.log.Error("change not encoded", "error", err)
				return
			}
			st.send(frame)
		}
	}
}
