package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

const (
	instancesPath = "/api/v1/instances"
	instancePath  = instancesPath + "/{tenant}/{id}"
	tagInstances  = "instances"

	// maxPayloadBody is the largest body of a request that brings one payload: as long as
	// one may be, in base64, and what stands around it.
	maxPayloadBody = 4 << 20

	// bulkReadTimeout is how long a body with many things in it may take to arrive.
	bulkReadTimeout = time.Minute
)

// addInstances adds the routes of instances, and of what there is to know about those that
// serve them.
func (s *Server) addInstances() {
	s.addStarts()
	s.addControls()
	s.addInstanceReads()
	s.addChangeStream()
	s.addHistoryStream()
	s.addOrchestrations()
	s.addWorkers()
	s.addBuilds()
	s.addLimits()
	s.addQuarantine()
	s.addEntities()
	s.addStats()
	s.addShards()
	s.addBackups()
}

// rawCodec passes on what a caller of the API sends as it is, whichever codec wrote it.
type rawCodec struct{}

func (rawCodec) Encode(v any) ([]byte, error) { return v.(history.Payload), nil }

func (rawCodec) Decode([]byte, any) error { return errors.ErrUnsupported }

// ref returns which instance a path names.
func ref(tenant, id string) abide.Ref { return abide.Ref{Tenant: tenant, ID: id} }

func (s *Server) addStarts() {
	route(s, auth.Operate, huma.Operation{
		OperationID: "start-instance", Method: http.MethodPost, Path: instancesPath, Summary: "Start an instance", Tags: []string{tagInstances},
		DefaultStatus: http.StatusCreated, MaxBodyBytes: maxPayloadBody, Middlewares: huma.Middlewares{keepWriter},
		Description: "It is durable when the answer arrives. With an id that exists the answer has status 200, unless on_exists says otherwise. " +
			"With wait, the answer waits for the instance to end, and has the instance in it.",
	}, func(ctx context.Context, in *struct {
		Wait waitFor `query:"wait" doc:"How long to wait for the instance to end, such as 30s; a minute at most."`
		Body api.NewInstance
	}) (*answer[api.Started], error) {
		if in.Body.ID == "" {
			in.Body.ID = idempotentID(ctx)
		}
		started, err := s.start(ctx, []api.NewInstance{in.Body})
		if err != nil {
			return nil, err
		}
		out := &answer[api.Started]{http.StatusCreated, started[0]}
		if out.Body.Existed {
			out.Status = http.StatusOK
		}
		if in.Wait.d > 0 {
			noReadDeadline(ctx)
			info, err := s.ended(ctx, ref(out.Body.Tenant, out.Body.ID), in.Wait.d)
			if err != nil {
				return nil, s.problem(err)
			}
			instance := api.FromInfo(&info)
			out.Body.Instance = &instance
		}
		return out, nil
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "start-instances", Method: http.MethodPost, Path: instancesPath + "/bulk", Summary: "Start many instances", Tags: []string{tagInstances},
		DefaultStatus: http.StatusCreated, MaxBodyBytes: maxBulkBody, BodyReadTimeout: bulkReadTimeout,
		Description: "All of them in one commit, or none.",
	}, func(ctx context.Context, in *struct{ Body api.NewInstances }) (*answer[api.StartedList], error) {
		if id := idempotentID(ctx); id != "" {
			for i := range in.Body.Instances {
				if in.Body.Instances[i].ID == "" {
					in.Body.Instances[i].ID = fmt.Sprintf("%s-%d", id, i+1)
				}
			}
		}
		started, err := s.start(ctx, in.Body.Instances)
		if err != nil {
			return nil, err
		}
		return &answer[api.StartedList]{http.StatusCreated, api.StartedList{Instances: started}}, nil
	})
}

// start starts instances, and answers with a problem if it cannot.
func (s *Server) start(ctx context.Context, list []api.NewInstance) ([]api.Started, error) {
	requests := make([]abide.StartRequest, len(list))
	for i := range list {
		if err := tenant(ctx, cmp.Or(list[i].Tenant, abide.DefaultTenant)); err != nil {
			return nil, err
		}
		var err error
		if requests[i], err = s.startRequest(&list[i]); err != nil {
			return nil, s.problem(err)
		}
	}
	done, err := s.engine.Start(ctx, requests...)
	if err != nil {
		return nil, s.problem(err)
	}
	started := make([]api.Started, len(done))
	for i := range done {
		started[i] = api.FromStarted(done[i])
	}
	return started, nil
}

func (s *Server) startRequest(n *api.NewInstance) (abide.StartRequest, error) {
	if !n.StartAt.IsZero() && n.Delay != 0 {
		return abide.StartRequest{}, fmt.Errorf("start_at is %v and delay is %v; only one is allowed: %w", n.StartAt, time.Duration(n.Delay), abide.ErrInvalid)
	}
	if n.OnExists != "" && len(n.ReplaceIf) > 0 {
		return abide.StartRequest{}, fmt.Errorf("on_exists is %s and replace_if is %v; only one is allowed: %w", n.OnExists, n.ReplaceIf, abide.ErrInvalid)
	}
	input, err := api.Payload(n.Input)
	if err != nil {
		return abide.StartRequest{}, fmt.Errorf("input: %w", err)
	}
	id := n.ID
	if id == "" {
		id = base.NewID(base.System{}.Now())
	}
	opts := []abide.StartOption{abide.ID(id), abide.Tenant(n.Tenant), abide.StartAt(n.StartAt), abide.StartAfter(time.Duration(n.Delay))}
	for name, value := range n.Tags {
		opts = append(opts, abide.Tag(name, value))
	}
	if n.Unchecked {
		opts = append(opts, abide.Unchecked())
	}
	if n.Priority != 0 {
		opts = append(opts, abide.Priority(n.Priority))
	}
	for i := range n.Limits {
		under, err := n.Limits[i].Under()
		if err != nil {
			return abide.StartRequest{}, err
		}
		opts = append(opts, under)
	}
	switch n.OnExists {
	case api.OnExistsReject:
		opts = append(opts, abide.RejectExisting())
	case api.OnExistsReplace:
		opts = append(opts, abide.ReplaceEnded())
	}
	if len(n.ReplaceIf) > 0 {
		opts = append(opts, abide.ReplaceIf(n.ReplaceIf...))
	}
	o := abide.OrchestrationNamed[history.Payload, abide.None](n.Orchestration, abide.Version(n.Version))
	return o.Prepare(s.engine.WithCodec(rawCodec{}), input, opts...)
}

// verb is something that is done to an instance, and needs no more than a reason.
type verb struct {
	name, summary, description string
	do                         func(ctx context.Context, ref abide.Ref, why string) error
}

func (s *Server) addControls() {
	c := s.engine
	const soon = "It is durable when the answer arrives, and is done soon after."
	const audited = " The reason is in the audit log."
	for _, v := range []verb{
		{"cancel", "Ask an instance to come to an end", "Its code decides how. " + soon, c.Cancel},
		{"suspend", "Have an instance wait until it is resumed", "What reaches it meanwhile is kept. " + soon, c.Suspend},
		{"resume", "Have an instance go on", "One that is suspended, or has stalled and was mended." + audited, func(ctx context.Context, ref abide.Ref, _ string) error { return c.Resume(ctx, ref) }},
		{"rewind", "Rewind an instance that has failed", "It goes on from before its failure: activities whose failures it failed of run again, failed children are rewound too, and its last turn runs again.", c.Rewind},
	} {
		route(s, auth.Operate, huma.Operation{
			OperationID: v.name + "-instance", Method: http.MethodPost, Path: instancePath + "/" + v.name, Summary: v.summary, Tags: []string{tagInstances},
			Description: v.description, DefaultStatus: http.StatusNoContent,
		}, func(ctx context.Context, in *reasoned) (*struct{}, error) {
			why, err := in.why(maxBody) // the engine has a limit of its own
			if err != nil {
				return nil, err
			}
			return nil, s.problem(v.do(ctx, ref(in.Tenant, in.ID), why))
		})
	}
	s.addEnds()
	route(s, auth.Operate, huma.Operation{
		OperationID: "fork-instance", Method: http.MethodPost, Path: instancePath + "/fork", Summary: "Fork an instance", Tags: []string{tagInstances},
		DefaultStatus: http.StatusCreated,
		Description: "A new instance with the history of this one up to an event of its latest execution. From there on it goes its own way. " +
			"No child may be open at that event.",
	}, func(ctx context.Context, in *struct {
		Tenant string `path:"tenant"`
		ID     string `path:"id"`
		Body   api.NewFork
	}) (*answer[api.Forked], error) {
		if in.Body.ID == "" {
			in.Body.ID = idempotentID(ctx)
		}
		made, err := c.Fork(ctx, ref(in.Tenant, in.ID), in.Body.Event, in.Body.ID)
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.Forked]{http.StatusCreated, api.Forked{Tenant: made.Tenant, ID: made.ID}}, nil
	})
	route(s, auth.Operate, huma.Operation{
		OperationID: "move-instance-timer", Method: http.MethodPost, Path: instancePath + "/move-timer", Summary: "Move timers of an instance", Tags: []string{tagInstances},
		Description: "Gives the pending timers of a name another time.", DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, in *struct {
		Tenant string `path:"tenant"`
		ID     string `path:"id"`
		Body   api.TimerMove
	}) (*struct{}, error) {
		return nil, s.problem(c.MoveTimer(ctx, ref(in.Tenant, in.ID), in.Body.Timer, in.Body.At))
	})
	s.addRaises()
	s.addCorrections()
}
