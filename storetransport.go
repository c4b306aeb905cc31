package abide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"strings"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/store"
)

// storeTransport is the transport to a store in this process.
type storeTransport struct {
	client *engine.Client
	engine *engine.Engine // nil for a transport that is not an engine's

	// routes and activities are what the process of the client runs.
	routes     []string
	activities []string
}

// engineTransport is that of an engine, which sees the changes that it commits.
type engineTransport struct{ storeTransport }

var (
	_ Transport = (*storeTransport)(nil)
	_ Operator  = (*storeTransport)(nil)
	_ Watcher   = (*engineTransport)(nil)
)

func (t *storeTransport) Start(ctx context.Context, requests []StartRequest) ([]Started, error) {
	return startWith(ctx, requests, t.client.Start)
}

func (t *storeTransport) Raise(ctx context.Context, requests []RaiseRequest) ([]Raised, error) {
	raises := make([]engine.Raise, len(requests))
	for i := range requests {
		r := &requests[i]
		raises[i] = engine.Raise{
			Ref: refOf(r.Ref), Name: r.Event, Data: r.Data, ID: r.ID, Awaited: r.IfAwaited, TTL: r.KeepFor,
			MustExist: r.MustExist, IgnoreEnded: r.IgnoreEnded, Unchecked: r.Unchecked,
		}
	}
	found, err := t.client.Raise(ctx, raises...)
	if err != nil {
		return nil, err
	}
	raised := make([]Raised, len(found))
	for i, f := range found {
		raised[i] = Raised{Outcome: Outcome(f.Outcome), Status: Status(f.Status), Awaited: f.Awaited}
	}
	return raised, nil
}

func (t *storeTransport) Get(ctx context.Context, ref Ref) (Info, error) {
	return infoFrom(t.client.Get(ctx, refOf(ref)))
}

func (t *storeTransport) WaitChange(ctx context.Context, ref Ref, after int64) (Info, error) {
	return infoFrom(t.client.Await(ctx, refOf(ref), after))
}

func (t *storeTransport) List(ctx context.Context, f Filter) (Page, error) {
	statuses := make([]engine.Status, len(f.Statuses))
	for i, s := range f.Statuses {
		statuses[i] = engine.Status(s)
	}
	infos, next, err := t.client.List(ctx, engine.Query{
		Tenant: filterOf(f.Tenant), Orchestrations: f.Orchestrations, Statuses: statuses, From: f.From, To: f.To,
		Tags: f.Tags, Prefix: f.Prefix, Parent: f.Parent, Build: f.Build, Descending: f.Descending, Limit: f.Limit, Cursor: f.Cursor,
	})
	if err != nil {
		return Page{}, err
	}
	page := Page{Instances: make([]Info, len(infos)), Next: next}
	for i := range infos {
		page.Instances[i], _ = infoFrom(infos[i], nil)
	}
	return page, nil
}

// filterOf returns the tenant by which to filter, if any.
func filterOf(tenant *string) *string {
	if tenant == nil {
		return nil
	}
	return new(storedTenant(*tenant))
}

func (t *storeTransport) History(ctx context.Context, ref Ref, part HistoryRange) (h History, more bool, err error) {
	execution := part.Execution
	info, events, more, err := t.client.HistoryPart(ctx, refOf(ref), clamp(execution), clamp(part.After), cmp.Or(part.MaxBytes, math.MaxInt))
	if err != nil {
		return History{}, false, err
	}
	if execution == 0 {
		execution = int(info.Execution)
	}
	h = History{Ref: refFrom(info.Ref), Orchestration: info.Name, Version: info.Version, Execution: execution}
	h.Partial = info.Partial() && execution == int(info.Execution)
	h.Events = events
	for i := range events {
		if e := &events[i]; e.Kind == history.ExecutionStarted && e.Start != nil { // the record may be of a later version
			h.Orchestration, h.Version = e.Name, e.Start.Version
		}
	}
	return h, more, nil
}

// clamp returns n, or the nearest number of 32 bits.
func clamp(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

func (t *storeTransport) Control(ctx context.Context, ref Ref, cmd Command) error {
	c, r := t.client, refOf(ref)
	switch cmd.Verb {
	case VerbCancel:
		return c.Cancel(ctx, r, cmd.Reason)
	case VerbTerminate:
		return c.TerminateWith(ctx, r, engine.Termination{Reason: cmd.Reason, Result: cmd.Result, Recursive: cmd.Recursive})
	case VerbSuspend:
		return c.Suspend(ctx, r, cmd.Reason)
	case VerbResume:
		return c.Resume(ctx, r)
	case VerbRestart:
		if cmd.RestartID != "" && cmd.RestartID != ref.ID {
			return c.RestartAs(ctx, r, cmd.RestartID)
		}
		return c.Restart(ctx, r)
	case VerbRewind:
		return c.Rewind(ctx, r, cmd.Reason)
	case VerbFork:
		return c.Fork(ctx, r, clamp(max(cmd.Event, 0)), cmd.ForkID)
	case VerbMoveTimer:
		return c.MoveTimer(ctx, r, cmd.Timer, cmd.At)
	case VerbDelete:
		if cmd.Recursive {
			_, err := c.Purge(ctx, r, true)
			return err
		}
		return c.Delete(ctx, r)
	case VerbCorrect:
		fix := cmd.Correction
		return c.Correct(ctx, r, engine.Correction{
			Event: clamp(max(fix.Event, 0)), Message: fix.Message, Data: fix.Data, Discard: fix.Discard, Unchecked: fix.Unchecked,
		})
	}
	return fmt.Errorf("abide: control %v: unknown verb %q: %w", ref, cmd.Verb, ErrInvalid)
}

func (t *storeTransport) Waits(ctx context.Context, ref Ref, events []history.Event) ([]Waiting, error) {
	open, err := t.waits(ctx, ref, events)
	waits := make([]Waiting, len(open))
	for i, w := range open {
		waits[i] = Waiting{
			Event: int(w.Event), Kind: w.Kind, Name: w.Name, Child: w.Child, At: w.At,
			Attempt: w.Attempt, Err: errorOf(w.Last), Since: w.Since,
			Lease: (*Lease)(w.Lease), Limit: limitWaitFrom(w.Limit),
		}
		if w.Schema != nil {
			waits[i].Schema = w.Schema.JSON()
		}
	}
	return waits, err
}

func (t *storeTransport) TurnLease(ctx context.Context, ref Ref) (*Lease, error) {
	lease, err := t.client.TurnLease(ctx, refOf(ref))
	return (*Lease)(lease), err
}

func (t *storeTransport) waits(ctx context.Context, ref Ref, events []history.Event) ([]engine.Wait, error) {
	if len(events) == 0 {
		return t.client.Waits(ctx, refOf(ref))
	}
	for i := range events {
		if err := events[i].Validate(); err != nil {
			return nil, fmt.Errorf("abide: waits of %v: event %d: %w", ref, events[i].ID, err)
		}
	}
	return t.client.WaitsAmong(ctx, refOf(ref), events)
}

func (t *storeTransport) Undelivered(ctx context.Context, ref Ref) ([]Undelivered, error) {
	messages, err := t.client.Undelivered(ctx, refOf(ref), store.DefaultMessages)
	if err != nil {
		return nil, err
	}
	list := make([]Undelivered, len(messages))
	for i, m := range messages {
		list[i] = Undelivered{Message: m.Message, Event: m.Event, At: m.At}
	}
	return list, nil
}

func (t *storeTransport) Signatures(ctx context.Context) ([]Signature, error) {
	all, err := t.client.Signatures(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Signature, len(all))
	for i := range all {
		list[i] = signatureFrom(&all[i])
	}
	return list, nil
}

func (t *storeTransport) HistoryLength(ctx context.Context, ref Ref, execution int) (int, error) {
	return t.client.HistoryLength(ctx, refOf(ref), clamp(execution))
}

func (t *storeTransport) Quarantine(ctx context.Context, filter QuarantineFilter) (QuarantinePage, error) {
	list, next, err := t.quarantine(ctx, filter)
	if err != nil {
		return QuarantinePage{}, err
	}
	page := QuarantinePage{Messages: make([]Quarantined, len(list)), Next: next}
	for i := range list {
		page.Messages[i] = Quarantined(list[i])
		page.Messages[i].Tenant = cmp.Or(list[i].Tenant, DefaultTenant)
	}
	return page, nil
}

// Messages of timers and actions, which have a tenant of that name, are the default
// tenant's as those of instances are that have none. They come after them, and their
// cursors begin with another letter.
const (
	cursorEmpty   = "e"
	cursorDefault = "d"
)

func (t *storeTransport) quarantine(ctx context.Context, filter QuarantineFilter) ([]engine.Quarantined, string, error) {
	if filter.Tenant == nil || storedTenant(*filter.Tenant) != "" {
		return t.client.Quarantine(ctx, filter.Tenant, filter.Limit, filter.Cursor)
	}
	var list []engine.Quarantined
	cursor, named := strings.CutPrefix(filter.Cursor, cursorDefault)
	if !named {
		var next string
		var err error
		list, next, err = t.client.Quarantine(ctx, new(""), filter.Limit, strings.TrimPrefix(cursor, cursorEmpty))
		if err != nil || next != "" {
			return list, cursorEmpty + next, err
		}
		cursor = ""
	}
	room := cmp.Or(filter.Limit, store.DefaultPage) - len(list)
	more, next, err := t.client.Quarantine(ctx, new(DefaultTenant), cmp.Or(room, 1), cursor)
	if room == 0 && len(more) > 0 { // they are the next page
		return list, cursorDefault, err
	}
	if next != "" {
		next = cursorDefault + next
	}
	return append(list, more...), next, err
}

func (t *storeTransport) Redrive(ctx context.Context, tenant, id string) error {
	return quarantined(tenant, func(tenant string) error { return t.client.Redrive(ctx, tenant, id) })
}

func (t *storeTransport) Discard(ctx context.Context, tenant, id string) error {
	return quarantined(tenant, func(tenant string) error { return t.client.Discard(ctx, tenant, id) })
}

// quarantined does something to a message of a tenant. That of the default tenant may be
// kept under either of its names.
func quarantined(tenant string, do func(tenant string) error) error {
	tenant = storedTenant(tenant)
	err := do(tenant)
	if tenant == "" && errors.Is(err, ErrNotFound) {
		err = do(DefaultTenant)
	}
	return err
}

func (t *storeTransport) Workers(ctx context.Context) ([]Worker, error) {
	seen, err := t.client.Workers(ctx)
	if err != nil {
		return nil, err
	}
	workers := make([]Worker, len(seen))
	for i := range seen {
		w := &seen[i]
		workers[i] = Worker{
			ID: w.ID, Name: w.Name, Host: w.Host, PID: w.PID, Version: w.Version, StartedAt: w.StartedAt, SeenAt: w.SeenAt,
			Orchestrations: w.Routes, Activities: w.Activities, Targets: w.Targets, Turns: w.Turns, Running: w.Running, Build: w.Build,
			TurnSlots: w.TurnSlots, RunSlots: w.RunSlots, Cached: w.Cached, Draining: w.Drains(), Drained: w.State == engine.WorkerDrained,
		}
		for _, tenant := range w.Tenants {
			workers[i].Tenants = append(workers[i].Tenants, cmp.Or(tenant, DefaultTenant))
		}
	}
	return workers, nil
}

func (t *storeTransport) DrainWorker(ctx context.Context, id string) error {
	return t.client.DrainWorker(ctx, id)
}

func (t *storeTransport) Held(ctx context.Context, id string) ([]Held, error) {
	leases, err := t.client.Held(ctx, id)
	if err != nil {
		return nil, err
	}
	held := make([]Held, len(leases))
	for i, h := range leases {
		held[i] = Held{Ref: refFrom(h.Ref), Route: h.Route, Activity: h.Activity, Until: h.Until}
	}
	return held, nil
}

func (t *storeTransport) Unserved(ctx context.Context) ([]Unserved, error) {
	routes, err := t.client.Unserved(ctx, t.routes, t.activities)
	if err != nil {
		return nil, err
	}
	unserved := make([]Unserved, len(routes))
	for i, r := range routes {
		unserved[i] = Unserved{
			Route: r.Route, Activity: r.Queue == engine.QueueActivities, Target: r.Queue == engine.QueueActions, Build: r.Build, Pending: r.Pending, Oldest: r.Oldest, Schedules: r.Schedules,
		}
	}
	return unserved, nil
}

func (t *engineTransport) Changes(ctx context.Context, after string) iter.Seq2[Change, error] {
	changes := t.engine.Changes(ctx, after)
	return func(yield func(Change, error) bool) {
		for c, err := range changes {
			change := Change{
				Cursor: c.Cursor, Ref: refFrom(c.Ref), Orchestration: c.Name, Version: c.Version, Status: Status(c.Status),
				Revision: c.Revision, At: c.At, Deleted: c.Deleted,
			}
			if !yield(change, err) {
				return
			}
		}
	}
}
