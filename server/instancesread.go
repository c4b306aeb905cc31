package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/api"
	"github.com/abidehq/abide/server/auth"
)

// maxWait is the longest that a request waits for something to happen. Who wants to wait
// longer asks again.
const maxWait = time.Minute

// waitFor is how long to wait, in a query.
type waitFor struct{ d time.Duration }

// UnmarshalText reads what [api.ParseDuration] reads.
func (w *waitFor) UnmarshalText(text []byte) (err error) {
	w.d, err = api.ParseDuration(string(text))
	if err == nil && w.d < 0 {
		err = fmt.Errorf("%q is negative", text)
	}
	return err
}

type writerKey struct{}

// keepWriter is for requests with a body that wait before they answer: see noReadDeadline.
func keepWriter(ctx huma.Context, next func(huma.Context)) {
	_, w := humago.Unwrap(ctx)
	next(huma.WithValue(ctx, writerKey{}, w))
}

// noReadDeadline takes back the time that the body had to arrive. It is here, and a
// connection on which time is up counts as one that has broken.
func noReadDeadline(ctx context.Context) {
	if w, ok := ctx.Value(writerKey{}).(http.ResponseWriter); ok {
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // what has no deadline needs none taken back
	}
}

// patiently calls f with a context that ends when a request has waited long enough, or when
// the server is about to stop. Then it returns late.
func (s *Server) patiently(ctx context.Context, d time.Duration, f func(ctx context.Context) (abide.Info, error)) (info abide.Info, late bool, err error) {
	short, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.clock.AfterFunc(min(d, maxWait), cancel)()
	defer context.AfterFunc(s.live.draining, cancel)()
	info, err = f(short)
	if err != nil && short.Err() != nil && ctx.Err() == nil {
		return info, true, nil
	}
	return info, false, err
}

// ended returns the state of an instance when it has ended or stalled, or after a wait.
func (s *Server) ended(ctx context.Context, ref abide.Ref, wait time.Duration) (abide.Info, error) {
	info, err := s.engine.Get(ctx, ref)
	if err != nil || wait <= 0 {
		return info, err
	}
	last := info
	info, late, err := s.patiently(ctx, wait, func(ctx context.Context) (abide.Info, error) {
		for last.Status != abide.Stalled && !last.Status.Ended() {
			next, err := s.engine.WaitChange(ctx, ref, last.Revision)
			if err != nil {
				return last, err
			}
			last = next
		}
		return last, nil
	})
	if late {
		return last, nil
	}
	return info, err
}

type instancesQuery struct {
	PageSize       int      `query:"page_size" minimum:"1" maximum:"10000" default:"100" doc:"How many there are on a page at most."`
	PageToken      string   `query:"page_token" doc:"The next_page_token of the page before."`
	Tenant         string   `query:"tenant" doc:"Of one tenant."`
	Orchestrations []string `query:"orchestration,explode" doc:"Of one of these orchestrations; can be repeated."`
	Statuses       []string `query:"status" enum:"pending,running,suspended,stalled,completed,failed,cancelled,terminated,continued" doc:"With one of these statuses."`
	From           when     `query:"from" doc:"Started at that time or later."`
	To             when     `query:"to" doc:"Started before that time."`
	Tags           []string `query:"tag,explode" doc:"With that tag, as name=value, with %, = and : in the name as %25, %3D and %3A; can be repeated."`
	Prefix         string   `query:"prefix" doc:"Whose ID begins with that."`
	Parent         string   `query:"parent" doc:"The children of the instance with that ID."`
	Build          string   `query:"build" doc:"Pinned to that build."`
	Latest         bool     `query:"latest" doc:"The latest first."`
}

func (q *instancesQuery) filter(ctx context.Context, now time.Time) (abide.Filter, error) {
	f := abide.Filter{
		Orchestrations: q.Orchestrations, From: q.From.at(now), To: q.To.at(now), Prefix: q.Prefix, Parent: q.Parent, Build: q.Build,
		Descending: q.Latest, Limit: q.PageSize, Cursor: q.PageToken,
	}
	name, err := scope(ctx, q.Tenant)
	if err != nil {
		return f, err
	}
	if name != "" {
		f.Tenant = &name
	}
	for _, status := range q.Statuses {
		f.Statuses = append(f.Statuses, abide.Status(status))
	}
	for _, tag := range q.Tags {
		name, value, err := api.Tag(tag)
		if err != nil {
			return f, newProblem(http.StatusBadRequest, api.CodeInvalid, "invalid request", err.Error())
		}
		if f.Tags == nil {
			f.Tags = map[string]string{}
		}
		f.Tags[name] = value
	}
	return f, nil
}

func (s *Server) addInstanceReads() {
	c := s.engine
	route(s, auth.Read, huma.Operation{
		OperationID: "list-instances", Method: http.MethodGet, Path: instancesPath, Summary: "List instances", Tags: []string{tagInstances},
		Description: "In the order in which they were started. A page may have fewer than page_size, even none, and still a next_page_token: " +
			"of a filter that few instances match, it has what was found in a short while.",
	}, func(ctx context.Context, in *instancesQuery) (*answer[api.InstanceList], error) {
		f, err := in.filter(ctx, s.clock.Now())
		if err != nil {
			return nil, err
		}
		page, err := c.List(ctx, f)
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.InstanceList{Instances: make([]api.Instance, len(page.Instances)), NextPageToken: page.Next}
		for i := range page.Instances {
			list.Instances[i] = api.FromInfo(&page.Instances[i])
		}
		return &answer[api.InstanceList]{http.StatusOK, list}, nil
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "get-instance", Method: http.MethodGet, Path: instancePath, Summary: "Get an instance", Tags: []string{tagInstances},
		Description: "With wait, the answer waits until the revision is greater than after, or than that of If-None-Match, or until the instance is started. " +
			"When the wait is over, it is the instance as it is, or 304 if If-None-Match names that.",
	}, s.getInstance)
	route(s, auth.Read, huma.Operation{
		OperationID: "get-result", Method: http.MethodGet, Path: instancePath + "/result", Summary: "Get the result of an instance", Tags: []string{tagInstances},
		Description: "Status 202 means that it has not ended yet. If it ended without a result, or has stalled, " +
			"that is a problem with the code instance_failed or instance_stalled, and the instance in it.",
	}, s.getResult)
	route(s, auth.Read, huma.Operation{
		OperationID: "get-history", Method: http.MethodGet, Path: instancePath + "/history", Summary: "Get the history of an instance", Tags: []string{tagInstances},
		Description: "Of the latest execution, or the one before. A long one has several pages.",
	}, s.getHistory)
	route(s, auth.Read, huma.Operation{
		OperationID: "list-waits", Method: http.MethodGet, Path: instancePath + "/waits", Summary: "List what an instance waits for", Tags: []string{tagInstances},
		Description: "Activities, timers, children and events.",
	}, func(ctx context.Context, in *named) (*answer[api.WaitList], error) {
		waits, err := c.Waits(ctx, ref(in.Tenant, in.ID))
		if err != nil {
			return nil, s.problem(err)
		}
		list := api.WaitList{Waits: make([]api.Wait, len(waits))}
		for i := range waits {
			list.Waits[i] = api.FromWait(&waits[i])
		}
		return &answer[api.WaitList]{http.StatusOK, list}, nil
	})
	route(s, auth.Read, huma.Operation{
		OperationID: "get-lease", Method: http.MethodGet, Path: instancePath + "/lease", Summary: "Get the lease of the turn of an instance", Tags: []string{tagInstances},
		Description: "Which worker has claimed its turn, and until when. It outlives a worker that was killed: the instance goes on when it has ended.",
	}, func(ctx context.Context, in *named) (*answer[api.TurnLease], error) {
		lease, err := c.TurnLease(ctx, ref(in.Tenant, in.ID))
		if err != nil {
			return nil, s.problem(err)
		}
		return &answer[api.TurnLease]{http.StatusOK, api.TurnLease{Lease: (*api.Lease)(lease)}}, nil
	})
}

// instanceTag is the ETag of an instance: its revision, and which instance of that ID it is.
func instanceTag(i *abide.Info) string {
	return fmt.Sprintf(`"%d-%x"`, i.Revision, i.StartedAt.UnixMilli())
}

// revisionOf returns the revision in an ETag, or 0.
func revisionOf(tag string) int64 {
	text, _, _ := strings.Cut(strings.TrimPrefix(strings.Trim(tag, " "), `"`), "-")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func (s *Server) getInstance(ctx context.Context, in *struct {
	Tenant string  `path:"tenant"`
	ID     string  `path:"id"`
	Wait   waitFor `query:"wait" doc:"How long to wait for a change, such as 30s; a minute at most."`
	After  int64   `query:"after" minimum:"0" doc:"The revision that is known."`
	Known  string  `header:"If-None-Match" doc:"The ETag that is known."`
}) (*tagged[*api.Instance], error) {
	ref := ref(in.Tenant, in.ID)
	after := in.After
	if after == 0 {
		after = revisionOf(in.Known)
	}
	info, err := s.engine.Get(ctx, ref)
	waits := err == nil && info.Revision <= after && (in.Known == "" || in.Known == instanceTag(&info)) ||
		errors.Is(err, abide.ErrNotFound) && after == 0 // it may be started yet
	if waits && in.Wait.d > 0 {
		next, late, err2 := s.patiently(ctx, in.Wait.d, func(ctx context.Context) (abide.Info, error) {
			return s.engine.WaitChange(ctx, ref, after)
		})
		if !late {
			info, err = next, err2
		}
	}
	if err != nil {
		return nil, s.problem(err)
	}
	out := &tagged[*api.Instance]{Status: http.StatusOK, ETag: instanceTag(&info)}
	if in.Known == out.ETag {
		out.Status = http.StatusNotModified
		return out, nil
	}
	body := api.FromInfo(&info)
	out.Body = &body
	return out, nil
}

func (s *Server) getResult(ctx context.Context, in *struct {
	Tenant string  `path:"tenant"`
	ID     string  `path:"id"`
	Wait   waitFor `query:"wait" doc:"How long to wait for it, such as 30s; a minute at most."`
}) (*answer[api.Result], error) {
	info, err := s.ended(ctx, ref(in.Tenant, in.ID), in.Wait.d)
	if err != nil {
		return nil, s.problem(err)
	}
	out := &answer[api.Result]{http.StatusOK, api.Result{Tenant: in.Tenant, ID: in.ID, Status: string(info.Status), Result: api.FromPayload(info.Result)}}
	_, err = abide.ResultOf[abide.None](info)
	var failed *abide.InstanceError
	switch {
	case errors.As(err, &failed):
		p := &api.InstanceProblem{Instance: api.FromInfo(&info)}
		p.Problem = *newProblem(http.StatusConflict, api.CodeFailed, "instance ended without a result", err.Error())
		if info.Status == abide.Stalled {
			p.Code, p.Title = api.CodeStalled, "the instance has stalled"
		}
		return nil, p
	case !info.Status.Ended():
		out.Status = http.StatusAccepted
	}
	return out, nil
}

// historyBytes is about how much of a history there is on a page.
const historyBytes = 4 << 20

func (s *Server) getHistory(ctx context.Context, in *struct {
	Tenant    string `path:"tenant"`
	ID        string `path:"id"`
	Execution int    `query:"execution" minimum:"0" doc:"The execution, or 0 for the latest one."`
	PageToken string `query:"page_token" doc:"The next_page_token of the page before."`
}) (*answer[api.History], error) {
	execution, after := in.Execution, 0
	if in.PageToken != "" {
		at, err := parsePosition(in.PageToken)
		if err != nil || in.Execution > 0 && in.Execution != at.execution {
			return nil, newProblem(http.StatusBadRequest, api.CodeInvalid, "invalid request", "page_token is not one of this history")
		}
		execution, after = at.execution, at.event
	}
	part, more, err := s.engine.HistoryPart(ctx, ref(in.Tenant, in.ID), abide.HistoryRange{Execution: execution, After: after, MaxBytes: historyBytes})
	if err != nil {
		return nil, s.problem(err)
	}
	out := api.FromHistory(&part)
	if more {
		out.NextPageToken = position{part.Execution, int(part.Events[len(part.Events)-1].ID)}.String()
	}
	return &answer[api.History]{http.StatusOK, out}, nil
}

// position is a place in the history of an instance: after an event of an execution.
type position struct{ execution, event int }

func (p position) String() string { return fmt.Sprintf("%d.%d", p.execution, p.event) }

func parsePosition(text string) (p position, err error) {
	execution, event, ok := strings.Cut(text, ".")
	if p.execution, err = strconv.Atoi(execution); err == nil {
		p.event, err = strconv.Atoi(event)
	}
	if !ok || err != nil || p.execution < 1 || p.event < 0 {
		return p, fmt.Errorf("%q is not a place in a history; it looks like 1.42", text)
	}
	return p, nil
}
