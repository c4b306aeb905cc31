package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

func (s *Server) addRaises() {
	const description = "It is durable when the answer arrives. The instance need not exist: the event waits for it. " +
		"One for an instance that has ended is refused, and so is one whose payload does not fit the type that the instance waits for. The answer says what the event has found."
	route(s, auth.Operate, huma.Operation{
		OperationID: "raise-event", Method: http.MethodPost, Path: instancePath + "/events/{name}", Summary: "Raise an event", Tags: []string{tagInstances},
		Description: description, MaxBodyBytes: maxPayloadBody,
	}, func(ctx context.Context, in *struct {
		Tenant    string           `path:"tenant"`
		ID        string           `path:"id"`
		Name      string           `path:"name" doc:"The name of the event."`
		IfAwaited bool             `query:"if_awaited" doc:"It is dropped unless the instance waits for it when it arrives."`
		KeepFor   waitFor          `query:"keep_for" doc:"How long it waits for the instance to be started, such as 24h; a week if it is not given."`
		EventID   string           `query:"id" doc:"Raising it a second time with the same one changes nothing, for as long as the first has not reached the instance."`
		MustExist bool             `query:"must_exist" doc:"It is an error if the instance does not exist."`
		Ended     bool             `query:"ignore_ended" doc:"It is dropped if the instance has ended, which is an error otherwise."`
		Unchecked bool             `query:"unchecked" doc:"Raise it whatever the instance is and waits for, with any payload."`
		Body      *json.RawMessage `doc:"What comes with it: any JSON value, or {\"$base64\": \"…\"} for what is not JSON."`
	}) (*answer[api.Raised], error) {
		e := api.NewEvent{
			Tenant: in.Tenant, Instance: in.ID, Name: in.Name, IfAwaited: in.IfAwaited, KeepFor: api.Duration(in.KeepFor.d), ID: in.EventID,
			MustExist: in.MustExist, IgnoreEnded: in.Ended, Unchecked: in.Unchecked,
		}
		if in.Body != nil {
			e.Data = *in.Body
		}
		raised, err := s.raise(ctx, []api.NewEvent{e})
		if err != nil {
			return nil, err
		}
		return &answer[api.Raised]{http.StatusOK, raised[0]}, nil
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "raise-events", Method: http.MethodPost, Path: instancesPath + "/events", Summary: "Raise many events", Tags: []string{tagInstances},
		Description: "All of them in one commit, or none.", MaxBodyBytes: maxBulkBody, BodyReadTimeout: bulkReadTimeout,
	}, func(ctx context.Context, in *struct{ Body api.NewEvents }) (*answer[api.RaisedList], error) {
		raised, err := s.raise(ctx, in.Body.Events)
		if err != nil {
			return nil, err
		}
		return &answer[api.RaisedList]{http.StatusOK, api.RaisedList{Events: raised}}, nil
	})
}

// raise raises events, and answers with a problem if it cannot.
func (s *Server) raise(ctx context.Context, list []api.NewEvent) ([]api.Raised, error) {
	key := idempotentID(ctx)
	requests := make([]abide.RaiseRequest, len(list))
	for i, e := range list {
		if err := tenant(ctx, cmp.Or(e.Tenant, abide.DefaultTenant)); err != nil {
			return nil, err
		}
		data, err := api.Payload(e.Data)
		if err != nil {
			return nil, s.problem(fmt.Errorf("data: %w", err))
		}
		if e.ID == "" && key != "" {
			e.ID = fmt.Sprintf("%s-%d", key, i+1)
		}
		opts := []abide.RaiseOption{abide.Tenant(e.Tenant), abide.ID(e.ID), abide.KeepFor(time.Duration(e.KeepFor))}
		if e.IfAwaited {
			opts = append(opts, abide.IfAwaited())
		}
		if e.MustExist {
			opts = append(opts, abide.MustExist())
		}
		if e.IgnoreEnded {
			opts = append(opts, abide.IgnoreEnded())
		}
		if e.Unchecked {
			opts = append(opts, abide.Unchecked())
		}
		if requests[i], err = abide.NewEvent[history.Payload](e.Name).Prepare(s.engine.WithCodec(rawCodec{}), e.Instance, data, opts...); err != nil {
			return nil, s.problem(err)
		}
	}
	done, err := s.engine.Raise(ctx, requests...)
	if err != nil {
		return nil, s.problem(err)
	}
	raised := make([]api.Raised, len(done))
	for i := range done {
		raised[i] = api.FromRaised(list[i].Name, &done[i])
	}
	return raised, nil
}

// addCorrections adds the routes for payloads that do not fit their types.
func (s *Server) addCorrections() {
	route(s, auth.Operate, huma.Operation{
		OperationID: "correct-instance", Method: http.MethodPost, Path: instancePath + "/correct", Summary: "Correct a payload", Tags: []string{tagInstances},
		Description: "Replaces the payload of an event, or drops the event, and resumes the instance, which has stalled or is suspended. " +
			"The history keeps both payloads. If the instance stalls again, that is a problem with the code instance_stalled.",
		DefaultStatus: http.StatusNoContent, MaxBodyBytes: maxPayloadBody,
	}, func(ctx context.Context, in *struct {
		Tenant string `path:"tenant"`
		ID     string `path:"id"`
		Body   api.Correction
	}) (*struct{}, error) {
		data, err := api.Payload(in.Body.Data)
		if err != nil {
			return nil, s.problem(fmt.Errorf("data: %w", err))
		}
		return nil, s.problem(s.engine.Correct(ctx, ref(in.Tenant, in.ID), abide.Correction{
			Event: in.Body.Event, Message: in.Body.Message, Data: data, Discard: in.Body.Discard, Unchecked: in.Body.Unchecked,
		}))
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "list-undelivered", Method: http.MethodGet, Path: instancePath + "/undelivered", Summary: "List what an instance has not received", Tags: []string{tagInstances},
		Description: "The input of an instance that has not begun, and events and results that have reached one that is suspended or has stalled.",
	}, func(ctx context.Context, in *named) (*answer[api.UndeliveredList], error) {
		messages, err := s.engine.Undelivered(ctx, ref(in.Tenant, in.ID))
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.UndeliveredList{Messages: make([]api.Undelivered, len(messages))}
		for i := range messages {
			list.Messages[i] = api.FromUndelivered(&messages[i])
		}
		return &answer[api.UndeliveredList]{http.StatusOK, list}, nil
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "list-signatures", Method: http.MethodGet, Path: "/api/v1/signatures", Summary: "List signatures", Tags: []string{"workers"},
		Description: "What workers have published of their orchestrations and activities: the schemas of inputs, results and events, of each of the latest builds.",
	}, func(ctx context.Context, _ *struct{}) (*answer[api.SignatureList], error) {
		signatures, err := s.engine.Signatures(ctx)
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.SignatureList{Signatures: make([]api.Signature, len(signatures))}
		for i := range signatures {
			list.Signatures[i] = api.Signature(signatures[i])
		}
		return &answer[api.SignatureList]{http.StatusOK, list}, nil
	})
}
