package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/registry"
	"github.com/abidehq/abide/server/api"
)

// Engine is the engine of a server: with it, the handles of package abide do what they do
// with an engine in this process, and return the same errors.
//
//	receipt, err := Order.Start(ctx, client.Engine(), order)
//
// A wait goes on until it is over or ctx ends, also while the server is restarted. A start
// is tried again when the connection breaks: it starts one instance all the same, but of an
// instance that it has started itself it may say that it existed. Everything else is tried
// once.
type Engine struct {
	c     *Client
	codec abide.Codec
	clock base.Clock
}

var (
	_ abide.Client  = (*Engine)(nil)
	_ abide.Watcher = (*Engine)(nil)
)

// Engine returns the server's engine.
func (c *Client) Engine() *Engine {
	return &Engine{c: c, codec: abide.JSON, clock: base.System{}}
}

// WithCodec returns the same engine for values that another codec than [abide.JSON] turns
// into bytes. It must be the one of the processes that serve the orchestrations.
func (e *Engine) WithCodec(codec abide.Codec) *Engine {
	other := *e
	other.codec = codec
	return &other
}

// Codec returns how values are turned into bytes.
func (e *Engine) Codec() abide.Codec { return e.codec }

// Start starts instances, all or none, in one commit.
func (e *Engine) Start(ctx context.Context, requests ...abide.StartRequest) ([]abide.Started, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	if len(requests) > engine.MaxBatch {
		return nil, fmt.Errorf("remote: start: %d instances at once, at most %d are allowed: %w", len(requests), engine.MaxBatch, abide.ErrInvalid)
	}
	list := api.NewInstances{Instances: make([]api.NewInstance, len(requests))}
	idempotent := true
	for i, r := range requests {
		s := registry.Start(r)
		idempotent = idempotent && s.IfExists == engine.Return
		n := api.NewInstance{
			Tenant: api.FromTenant(s.Tenant), ID: s.ID, Orchestration: s.Name, Version: s.Version,
			Input: api.FromPayload(s.Input), Tags: s.Tags, StartAt: s.At, Delay: api.Duration(s.After),
		}
		if s.After != 0 { // as an engine does
			n.StartAt = time.Time{}
		}
		switch s.IfExists {
		case engine.Reject:
			n.OnExists = api.OnExistsReject
		case engine.Replace:
			n.OnExists = api.OnExistsReplace
		default:
			n.OnExists = api.OnExistsExisting
		}
		list.Instances[i] = n
	}
	var out api.StartedList
	if err := e.start(ctx, idempotent, list, &out); err != nil {
		return nil, err
	}
	if len(out.Instances) != len(requests) {
		return nil, fmt.Errorf("remote: start: the server answered for %d of %d instances", len(out.Instances), len(requests))
	}
	started := make([]abide.Started, len(out.Instances))
	for i := range out.Instances {
		started[i] = out.Instances[i].Started()
	}
	return started, nil
}

// Raise raises events, all or none, in one commit.
func (e *Engine) Raise(ctx context.Context, requests ...abide.RaiseRequest) error {
	if len(requests) == 0 {
		return nil
	}
	list := api.NewEvents{Events: make([]api.NewEvent, len(requests))}
	for i, req := range requests {
		r := registry.Raise(req)
		if err := engine.CheckRef(r.Ref); err != nil {
			return err
		}
		list.Events[i] = api.NewEvent{
			Tenant: api.FromTenant(r.Tenant), Instance: r.Ref.ID, Name: r.Name, Data: api.FromPayload(r.Data),
			IfAwaited: r.Awaited, KeepFor: api.Duration(r.TTL), ID: r.ID,
		}
	}
	return e.call(ctx, http.MethodPost, "/api/v1/instances/events", nil, list, nil)
}

// Get returns what is true of an instance.
func (e *Engine) Get(ctx context.Context, ref abide.Ref) (abide.Info, error) {
	var out api.Instance
	if err := e.one(ctx, http.MethodGet, ref, "", nil, nil, &out); err != nil {
		return abide.Info{}, err
	}
	return e.info(&out)
}

// Wait returns what is true of an instance when it has ended.
func (e *Engine) Wait(ctx context.Context, ref abide.Ref) (abide.Info, error) {
	info, err := e.Get(ctx, ref)
	for err == nil && !info.Status.Ended() {
		info, err = e.Await(ctx, ref, info.Revision)
	}
	return info, err
}

// Waits returns what an instance waits for right now.
func (e *Engine) Waits(ctx context.Context, ref abide.Ref) ([]abide.Waiting, error) {
	var out api.WaitList
	if err := e.one(ctx, http.MethodGet, ref, "waits", nil, nil, &out); err != nil {
		return nil, err
	}
	waits := make([]abide.Waiting, len(out.Waits))
	for i := range out.Waits {
		waits[i] = out.Waits[i].Waiting()
	}
	return waits, nil
}

// List returns instances in the order in which they were started.
func (e *Engine) List(ctx context.Context, f abide.Filter) (abide.Page, error) {
	q := url.Values{}
	if f.Limit != 0 {
		q.Set("page_size", strconv.Itoa(f.Limit))
	}
	set(q, "page_token", f.Cursor)
	if f.Tenant != nil {
		q.Set("tenant", api.FromTenant(*f.Tenant))
	}
	q["orchestration"] = f.Orchestrations
	statuses := make([]string, len(f.Statuses))
	for i, s := range f.Statuses {
		if !slices.Contains(engine.Statuses, engine.Status(s)) { // or it might be read as two
			return abide.Page{}, fmt.Errorf("remote: list: unknown status %q, known are %v: %w", s, engine.Statuses, abide.ErrInvalid)
		}
		statuses[i] = string(s)
	}
	set(q, "status", strings.Join(statuses, ","))
	setTime(q, "from", f.From)
	setTime(q, "to", f.To)
	for name, value := range f.Tags {
		q.Add("tag", api.FromTag(name, value))
	}
	if f.Descending {
		q.Set("latest", "true")
	}
	var out api.InstanceList
	if err := e.call(ctx, http.MethodGet, "/api/v1/instances", q, nil, &out); err != nil {
		return abide.Page{}, err
	}
	page := abide.Page{Instances: make([]abide.Info, len(out.Instances)), Next: out.NextPageToken}
	for i := range out.Instances {
		var err error
		if page.Instances[i], err = e.info(&out.Instances[i]); err != nil {
			return abide.Page{}, err
		}
	}
	return page, nil
}

// History returns the history of an execution, or of the latest one if execution is 0.
func (e *Engine) History(ctx context.Context, ref abide.Ref, execution int) (abide.History, error) {
	var all abide.History
	for token := ""; ; {
		part, next, err := e.historyPage(ctx, ref, execution, token)
		if err != nil {
			return abide.History{}, err
		}
		if token == "" {
			all = part
		} else {
			all.Events = append(all.Events, part.Events...)
			all.Partial = part.Partial
		}
		if token = next; token == "" {
			return all, nil
		}
		execution = part.Execution // another one may have begun meanwhile
	}
}

func (e *Engine) historyPage(ctx context.Context, ref abide.Ref, execution int, token string) (abide.History, string, error) {
	q := url.Values{}
	if execution != 0 {
		q.Set("execution", strconv.Itoa(execution))
	}
	set(q, "page_token", token)
	var out api.History
	if err := e.one(ctx, http.MethodGet, ref, "history", q, nil, &out); err != nil {
		return abide.History{}, "", err
	}
	return out.History(), out.NextPageToken, nil
}

// Cancel asks an instance to come to an end.
func (e *Engine) Cancel(ctx context.Context, ref abide.Ref, why string) error {
	return e.tell(ctx, ref, "cancel", why)
}

// Terminate ends an instance without asking its code.
func (e *Engine) Terminate(ctx context.Context, ref abide.Ref, why string) error {
	return e.tell(ctx, ref, "terminate", why)
}

// Suspend has an instance wait until it is resumed.
func (e *Engine) Suspend(ctx context.Context, ref abide.Ref, why string) error {
	return e.tell(ctx, ref, "suspend", why)
}

// Resume has a suspended or stalled instance go on.
func (e *Engine) Resume(ctx context.Context, ref abide.Ref) error {
	return e.tell(ctx, ref, "resume", "")
}

// Restart starts an instance that has ended once more, with the same input.
func (e *Engine) Restart(ctx context.Context, ref abide.Ref) error {
	return e.tell(ctx, ref, "restart", "")
}

func (e *Engine) tell(ctx context.Context, ref abide.Ref, verb, why string) error {
	q := url.Values{}
	set(q, "reason", why)
	return e.one(ctx, http.MethodPost, ref, verb, q, nil, nil)
}

// Fork starts a new instance with the history of another one up to an event.
func (e *Engine) Fork(ctx context.Context, from abide.Ref, event int, id string) (abide.Ref, error) {
	var out api.Forked
	if err := e.one(ctx, http.MethodPost, from, "fork", nil, api.NewFork{Event: event, ID: id}, &out); err != nil {
		return abide.Ref{}, err
	}
	return abide.Ref{Tenant: api.Tenant(out.Tenant), ID: out.ID}, nil
}

// MoveTimer gives the pending timers of a name another time.
func (e *Engine) MoveTimer(ctx context.Context, ref abide.Ref, timer string, at time.Time) error {
	return e.one(ctx, http.MethodPost, ref, "move-timer", nil, api.TimerMove{Timer: timer, At: at}, nil)
}

// Delete removes an instance that has ended, with its history.
func (e *Engine) Delete(ctx context.Context, ref abide.Ref) error {
	return e.one(ctx, http.MethodDelete, ref, "", nil, nil, nil)
}

// Workers returns the processes that serve something.
func (e *Engine) Workers(ctx context.Context) ([]abide.Worker, error) {
	var out api.WorkerList
	if err := e.call(ctx, http.MethodGet, "/api/v1/workers", nil, nil, &out); err != nil {
		return nil, err
	}
	workers := make([]abide.Worker, len(out.Workers))
	for i := range out.Workers {
		workers[i] = out.Workers[i].Worker()
	}
	return workers, nil
}

// Unserved returns what has messages waiting and is served by nobody.
func (e *Engine) Unserved(ctx context.Context) ([]abide.Unserved, error) {
	var out api.UnservedList
	if err := e.call(ctx, http.MethodGet, "/api/v1/unserved", nil, nil, &out); err != nil {
		return nil, err
	}
	unserved := make([]abide.Unserved, len(out.Unserved))
	for i := range out.Unserved {
		unserved[i] = abide.Unserved(out.Unserved[i])
	}
	return unserved, nil
}

// info is the inverse of [api.FromInfo].
func (e *Engine) info(i *api.Instance) (abide.Info, error) {
	info := abide.Info{
		Ref: abide.Ref{Tenant: api.Tenant(i.Tenant), ID: i.ID}, Orchestration: i.Orchestration, Version: i.Version,
		Status: abide.Status(i.Status), Reason: i.Reason, StalledBuild: i.StalledBuild, Execution: i.Execution,
		StartedAt: i.StartedAt, BegunAt: i.BegunAt, EndedAt: i.EndedAt, Parent: i.Parent, Tags: i.Tags,
		StatusText: i.StatusText, Err: i.Failure.Err(), Revision: i.Revision,
	}
	var err error
	if info.Result, err = api.Payload(i.Result); err != nil {
		return info, fmt.Errorf("remote: result of %v: %w", info.Ref, err)
	}
	if len(i.Values) > 0 {
		info.Values = make(map[string][]byte, len(i.Values))
	}
	for name, value := range i.Values {
		if info.Values[name], err = api.Payload(value); err != nil {
			return info, fmt.Errorf("remote: value %q of %v: %w", name, info.Ref, err)
		}
	}
	registry.WithCodec(&info, e.codec)
	return info, nil
}
