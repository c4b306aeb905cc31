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
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/server/api"
)

// Engine is a client of the engine of a server: the handles of package abide work with it as
// with an engine in this process, and return the same errors.
//
//	receipt, err := Order.Start(ctx, client.Engine(), order)
//
// A wait continues until it is over or ctx ends, also while the server is restarted. A start
// is retried when the connection breaks: it starts one instance, but may report an instance that
// it started itself as existing. Other calls are not retried, nor is a start or an event that the
// server refuses with [abide.ErrBusy]: it has waited there, and retries would add to the load.
func (c *Client) Engine() *abide.Client {
	return abide.ClientOver(&transport{c: c, clock: base.System{}}, nil)
}

// transport carries the calls of an [abide.Client] to a server.
type transport struct {
	c     *Client
	clock base.Clock
}

var (
	_ abide.Transport = (*transport)(nil)
	_ abide.Operator  = (*transport)(nil)
	_ abide.Watcher   = (*transport)(nil)
)

// Start starts instances, all or none, in one commit.
func (e *transport) Start(ctx context.Context, requests []abide.StartRequest) ([]abide.Started, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	if len(requests) > engine.MaxBatch {
		return nil, fmt.Errorf("remote: start: %d instances at once, at most %d are allowed: %w", len(requests), engine.MaxBatch, abide.ErrInvalid)
	}
	list := api.NewInstances{Instances: make([]api.NewInstance, len(requests))}
	idempotent := true
	for i, r := range requests {
		idempotent = idempotent && r.IfExists == abide.ExistsReturn && len(r.ReplaceIf) == 0
		n := api.NewInstance{
			Tenant: r.Ref.Tenant, ID: r.Ref.ID, Orchestration: r.Orchestration, Version: r.Version,
			Input: api.FromPayload(r.Input), Tags: r.Tags, StartAt: r.At, Delay: api.Duration(r.After), Unchecked: r.Unchecked,
			Limits: api.FromInstanceLimits(r.Limits), Priority: r.Priority,
		}
		if r.After != 0 { // as an engine does
			n.StartAt = time.Time{}
		}
		switch r.IfExists {
		case abide.ExistsReject:
			n.OnExists = api.OnExistsReject
		case abide.ExistsReplace:
			n.OnExists = api.OnExistsReplace
		default:
			n.OnExists = api.OnExistsExisting
		}
		if err := checkStatuses("start", r.ReplaceIf); err != nil {
			return nil, err
		}
		if len(r.ReplaceIf) > 0 {
			n.OnExists, n.ReplaceIf = "", r.ReplaceIf
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

// checkStatuses reports a status that there is not.
func checkStatuses(verb string, list []abide.Status) error {
	for _, s := range list {
		if !slices.Contains(engine.Statuses, engine.Status(s)) {
			return fmt.Errorf("remote: %s: unknown status %q, known are %v: %w", verb, s, engine.Statuses, abide.ErrInvalid)
		}
	}
	return nil
}

// Raise raises events, all or none, in one commit.
func (e *transport) Raise(ctx context.Context, requests []abide.RaiseRequest) ([]abide.Raised, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	list := api.NewEvents{Events: make([]api.NewEvent, len(requests))}
	for i, r := range requests {
		if err := engine.CheckRef(engine.Ref(r.Ref)); err != nil {
			return nil, err
		}
		list.Events[i] = api.NewEvent{
			Tenant: r.Ref.Tenant, Instance: r.Ref.ID, Name: r.Event, Data: api.FromPayload(r.Data),
			IfAwaited: r.IfAwaited, KeepFor: api.Duration(r.KeepFor), ID: r.ID,
			MustExist: r.MustExist, IgnoreEnded: r.IgnoreEnded, Unchecked: r.Unchecked,
		}
	}
	var out api.RaisedList
	if err := e.call(ctx, http.MethodPost, "/api/v1/instances/events", nil, list, &out); err != nil {
		return nil, err
	}
	raised := make([]abide.Raised, len(requests)) // a server of an earlier release does not say
	for i := range out.Events[:min(len(out.Events), len(raised))] {
		raised[i] = out.Events[i].Raised()
	}
	return raised, nil
}

// Undelivered returns what an instance has not received.
func (e *transport) Undelivered(ctx context.Context, ref abide.Ref) ([]abide.Undelivered, error) {
	var out api.UndeliveredList
	if err := e.one(ctx, http.MethodGet, ref, "undelivered", nil, nil, &out); err != nil {
		return nil, err
	}
	messages := make([]abide.Undelivered, len(out.Messages))
	for i := range out.Messages {
		var err error
		if messages[i], err = out.Messages[i].Undelivered(); err != nil {
			return nil, fmt.Errorf("remote: undelivered messages of %v: %w", ref, err)
		}
	}
	return messages, nil
}

// Signatures returns what workers have published.
func (e *transport) Signatures(ctx context.Context) ([]abide.Signature, error) {
	var out api.SignatureList
	if err := e.call(ctx, http.MethodGet, "/api/v1/signatures", nil, nil, &out); err != nil {
		return nil, err
	}
	signatures := make([]abide.Signature, len(out.Signatures))
	for i := range out.Signatures {
		signatures[i] = abide.Signature(out.Signatures[i])
	}
	return signatures, nil
}

// Get returns the current state of an instance, or [abide.ErrNotFound].
func (e *transport) Get(ctx context.Context, ref abide.Ref) (abide.Info, error) {
	var out api.Instance
	if err := e.one(ctx, http.MethodGet, ref, "", nil, nil, &out); err != nil {
		return abide.Info{}, err
	}
	return infoOf(&out)
}

// Waits returns what an instance waits for. The server reads the history itself.
func (e *transport) Waits(ctx context.Context, ref abide.Ref, _ []history.Event) ([]abide.Waiting, error) {
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

// TurnLease returns the lease of the turn of an instance, or nil.
func (e *transport) TurnLease(ctx context.Context, ref abide.Ref) (*abide.Lease, error) {
	var out api.TurnLease
	if err := e.one(ctx, http.MethodGet, ref, "lease", nil, nil, &out); err != nil {
		return nil, err
	}
	return (*abide.Lease)(out.Lease), nil
}

// List returns instances in the order in which they were started.
func (e *transport) List(ctx context.Context, f abide.Filter) (abide.Page, error) {
	q := url.Values{}
	if f.Limit != 0 {
		q.Set("page_size", strconv.Itoa(f.Limit))
	}
	set(q, "page_token", f.Cursor)
	if f.Tenant != nil {
		q.Set("tenant", *f.Tenant)
	}
	q["orchestration"] = f.Orchestrations
	if err := checkStatuses("list", f.Statuses); err != nil { // or one might be read as two
		return abide.Page{}, err
	}
	statuses := make([]string, len(f.Statuses))
	for i, s := range f.Statuses {
		statuses[i] = string(s)
	}
	set(q, "status", strings.Join(statuses, ","))
	setTime(q, "from", f.From)
	setTime(q, "to", f.To)
	for name, value := range f.Tags {
		q.Add("tag", api.FromTag(name, value))
	}
	set(q, "prefix", f.Prefix)
	set(q, "parent", f.Parent)
	set(q, "build", f.Build)
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
		if page.Instances[i], err = infoOf(&out.Instances[i]); err != nil {
			return abide.Page{}, err
		}
	}
	return page, nil
}

// History returns a page of a history, as the server cuts it.
func (e *transport) History(ctx context.Context, ref abide.Ref, part abide.HistoryRange) (h abide.History, more bool, err error) {
	q := url.Values{}
	switch {
	case part.After > 0 && part.Execution == 0:
		info, err := e.Get(ctx, ref)
		if err != nil {
			return abide.History{}, false, err
		}
		part.Execution = info.Execution
		fallthrough
	case part.After > 0:
		q.Set("page_token", fmt.Sprintf("%d.%d", part.Execution, part.After))
	case part.Execution != 0:
		q.Set("execution", strconv.Itoa(part.Execution))
	}
	var out api.History
	if err := e.one(ctx, http.MethodGet, ref, "history", q, nil, &out); err != nil {
		return abide.History{}, false, err
	}
	return out.History(), out.NextPageToken != "", nil
}

// HistoryLength returns the number of events of an execution. It reads the history.
func (e *transport) HistoryLength(ctx context.Context, ref abide.Ref, execution int) (int, error) {
	h, err := abide.ClientOver(e, nil).History(ctx, ref, execution)
	return len(h.Events), err
}

// Control executes a command on an instance.
func (e *transport) Control(ctx context.Context, ref abide.Ref, cmd abide.Command) error {
	q := url.Values{}
	var body any
	switch cmd.Verb {
	case abide.VerbCancel, abide.VerbTerminate, abide.VerbSuspend, abide.VerbRewind:
		if cmd.Verb == abide.VerbTerminate && (cmd.Recursive || len(cmd.Result) > 0) {
			body = api.Termination{Reason: cmd.Reason, Result: api.FromPayload(cmd.Result), Recursive: cmd.Recursive}
			break
		}
		set(q, "reason", cmd.Reason)
	case abide.VerbRestart:
		if cmd.RestartID != "" && cmd.RestartID != ref.ID {
			body = api.Restart{ID: cmd.RestartID}
		}
	case abide.VerbResume:
	case abide.VerbFork:
		body = api.NewFork{Event: cmd.Event, ID: cmd.ForkID}
	case abide.VerbMoveTimer:
		body = api.TimerMove{Timer: cmd.Timer, At: cmd.At}
	case abide.VerbCorrect:
		fix := cmd.Correction
		body = api.Correction{Event: fix.Event, Message: fix.Message, Data: api.FromPayload(fix.Data), Discard: fix.Discard, Unchecked: fix.Unchecked}
	case abide.VerbDelete:
		if cmd.Recursive {
			q.Set("recursive", "true")
		}
		return e.one(ctx, http.MethodDelete, ref, "", q, nil, nil)
	default:
		return fmt.Errorf("remote: control %v: unknown verb %q: %w", ref, cmd.Verb, abide.ErrInvalid)
	}
	return e.one(ctx, http.MethodPost, ref, string(cmd.Verb), q, body, nil)
}

// Workers returns the processes that serve something.
func (e *transport) Workers(ctx context.Context) ([]abide.Worker, error) {
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

// DrainWorker asks a worker to claim nothing more.
func (e *transport) DrainWorker(ctx context.Context, id string) error {
	return e.call(ctx, http.MethodPost, where("workers", id, "drain"), nil, nil, nil)
}

// Held returns the turns and activities that a worker has leased.
func (e *transport) Held(ctx context.Context, id string) ([]abide.Held, error) {
	var out api.HeldList
	if err := e.call(ctx, http.MethodGet, where("workers", id, "leases"), nil, nil, &out); err != nil {
		return nil, err
	}
	held := make([]abide.Held, len(out.Leases))
	for i := range out.Leases {
		held[i] = out.Leases[i].Held()
	}
	return held, nil
}

// Unserved returns what has messages waiting and is served by nobody.
func (e *transport) Unserved(ctx context.Context) ([]abide.Unserved, error) {
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

// infoOf is the inverse of [api.FromInfo].
func infoOf(i *api.Instance) (abide.Info, error) {
	info := abide.Info{
		Ref: abide.Ref{Tenant: i.Tenant, ID: i.ID}, Orchestration: i.Orchestration, Version: i.Version, Build: i.Build, Runtime: i.Runtime,
		Status: abide.Status(i.Status), Reason: i.Reason, StalledBuild: i.StalledBuild, Execution: i.Execution, BadPayload: i.BadPayload.BadPayload(), Awaited: i.Awaited,
		StartedAt: i.StartedAt, BegunAt: i.BegunAt, EndedAt: i.EndedAt, Parent: i.Parent, Tags: i.Tags,
		StatusText: i.StatusText, Err: i.Failure.Err(), Revision: i.Revision,
		Limits: api.InstanceLimits(i.Limits), Priority: i.Priority, Admitted: !i.NotAdmitted,
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
	return info, nil
}
