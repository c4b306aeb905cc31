package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/timer"
)

// Audit writes audit entries of what is done to a store that this process has opened, as a server
// does of what is done through it. The operations have the names that they have there.
type Audit struct{ guard *auth.Guard }

// Note notes what was done to something of a tenant, and returns err, or that it could not be
// noted.
func (n Audit) Note(ctx context.Context, operation, tenant, target string, err error) error {
	return errors.Join(err, noteLocal(ctx, n.guard, auth.Entry{Operation: operation, Tenant: cmp.Or(tenant, abide.DefaultTenant), Target: target}, err))
}

// operatorTransport is what the transport of a store offers.
type operatorTransport interface {
	abide.Transport
	abide.Operator
	abide.BuildOperator
	abide.EntityTransport
	abide.LimitTransport
}

// notedTransport writes an audit entry for each change of an instance.
type notedTransport struct {
	operatorTransport
	Audit
}

func (t notedTransport) Start(ctx context.Context, requests []abide.StartRequest) ([]abide.Started, error) {
	started, err := t.operatorTransport.Start(ctx, requests)
	target := fmt.Sprintf("%d instances", len(requests))
	tenant := ""
	if len(started) > 0 {
		tenant = started[0].Ref.Tenant
		target += ", the first is " + tenant + "/" + started[0].Ref.ID
	}
	return started, t.Note(ctx, "start-instances", tenant, target, err)
}

func (t notedTransport) Raise(ctx context.Context, requests []abide.RaiseRequest) ([]abide.Raised, error) {
	raised, err := t.operatorTransport.Raise(ctx, requests)
	return raised, t.Note(ctx, "raise-events", "", fmt.Sprintf("%d events", len(requests)), err)
}

func (t notedTransport) Control(ctx context.Context, ref abide.Ref, cmd abide.Command) error {
	operation := string(cmd.Verb) + "-instance"
	if cmd.Verb == abide.VerbMoveTimer {
		operation = "move-instance-timer"
	}
	target := ref.Tenant + "/" + ref.ID
	if cmd.Reason != "" {
		target += " reason=" + cmd.Reason
	}
	return t.Note(ctx, operation, ref.Tenant, target, t.operatorTransport.Control(ctx, ref, cmd))
}

func (t notedTransport) Signal(ctx context.Context, r abide.SignalRequest) error {
	return t.Note(ctx, "signal-entity", r.Ref.Tenant, r.Ref.Tenant+"/"+r.Ref.ID+" operation="+r.Operation, t.operatorTransport.Signal(ctx, r))
}

func (t notedTransport) Redrive(ctx context.Context, tenant, id string) error {
	return t.Note(ctx, "redrive-quarantined", tenant, id, t.operatorTransport.Redrive(ctx, tenant, id))
}

func (t notedTransport) Discard(ctx context.Context, tenant, id string) error {
	return t.Note(ctx, "discard-quarantined", tenant, id, t.operatorTransport.Discard(ctx, tenant, id))
}

func (t notedTransport) SetBuild(ctx context.Context, id string, change abide.BuildChange) error {
	target := id
	if change.Percent != nil {
		target += fmt.Sprintf(" percent=%d", *change.Percent)
	}
	if change.Drained != nil {
		target += fmt.Sprintf(" drained=%t", *change.Drained)
	}
	return t.Note(ctx, "set-build", "", target, t.operatorTransport.SetBuild(ctx, id, change))
}

func (t notedTransport) MoveBuild(ctx context.Context, m abide.BuildMove) (abide.BuildMoved, error) {
	moved, err := t.operatorTransport.MoveBuild(ctx, m)
	return moved, t.Note(ctx, "move-build", "", fmt.Sprintf("%s to=%s moved=%d", m.From, m.To, moved.Moved), err)
}

func (t notedTransport) ChangeLimit(ctx context.Context, tenant, name string, change abide.LimitChange) (abide.LimitInfo, error) {
	operation, target := "change-limit", tenant+"/"+name
	switch {
	case change.Set != nil:
		target += fmt.Sprintf(" concurrency=%d rate=%d per=%v burst=%d", change.Set.Concurrency, change.Set.Rate, change.Set.Per, change.Set.Burst)
	case change.Unset:
		operation = "unset-limit"
	case change.Paused != nil && *change.Paused:
		operation = "pause-limit"
	case change.Paused != nil:
		operation = "resume-limit"
	}
	info, err := t.operatorTransport.ChangeLimit(abide.WithActor(ctx, localUser()), tenant, name, change)
	return info, t.Note(ctx, operation, tenant, target, err)
}

// notedActions notes what is done to actions and schedules.
type notedActions struct {
	ActionsAPI
	Audit
}

func (a notedActions) Add(ctx context.Context, r action.Request) (action.Action, bool, error) {
	made, existed, err := a.ActionsAPI.Add(ctx, r)
	return made, existed, a.Note(ctx, "add-action", r.Tenant, made.ID+" slug="+r.Slug+" target="+r.Target, err)
}

func (a notedActions) Cancel(ctx context.Context, tenant, id, why string) (action.Action, error) {
	done, err := a.ActionsAPI.Cancel(ctx, tenant, id, why)
	return done, a.Note(ctx, "cancel-action", tenant, id, err)
}

func (a notedActions) Retry(ctx context.Context, tenant, id string) (action.Action, error) {
	done, err := a.ActionsAPI.Retry(ctx, tenant, id)
	return done, a.Note(ctx, "retry-action", tenant, id, err)
}

func (a notedActions) AddSchedule(ctx context.Context, p action.Plan) (action.Schedule, error) {
	done, err := a.ActionsAPI.AddSchedule(ctx, p)
	return done, a.Note(ctx, "add-schedule", p.Tenant, p.ID, err)
}

func (a notedActions) UpdateSchedule(ctx context.Context, p action.Plan, version int64) (action.Schedule, error) {
	done, err := a.ActionsAPI.UpdateSchedule(ctx, p, version)
	return done, a.Note(ctx, "update-schedule", p.Tenant, p.ID, err)
}

func (a notedActions) RemoveSchedule(ctx context.Context, tenant, id string) error {
	return a.Note(ctx, "remove-schedule", tenant, id, a.ActionsAPI.RemoveSchedule(ctx, tenant, id))
}

func (a notedActions) Pause(ctx context.Context, tenant, id, why string) (action.Schedule, error) {
	done, err := a.ActionsAPI.Pause(ctx, tenant, id, why)
	return done, a.Note(ctx, "pause-schedule", tenant, id, err)
}

func (a notedActions) Resume(ctx context.Context, tenant, id string) (action.Schedule, error) {
	done, err := a.ActionsAPI.Resume(ctx, tenant, id)
	return done, a.Note(ctx, "resume-schedule", tenant, id, err)
}

func (a notedActions) Trigger(ctx context.Context, tenant, id string) (action.Action, error) {
	done, err := a.ActionsAPI.Trigger(ctx, tenant, id)
	return done, a.Note(ctx, "trigger-schedule", tenant, id, err)
}

func (a notedActions) Backfill(ctx context.Context, tenant, id string, from, to time.Time) ([]action.Action, error) {
	done, err := a.ActionsAPI.Backfill(ctx, tenant, id, from, to)
	return done, a.Note(ctx, "backfill-schedule", tenant, id, err)
}

// notedTimers notes what is done to timers.
type notedTimers struct {
	TimersAPI
	Audit
}

func (t notedTimers) Schedule(ctx context.Context, r timer.Request) (timer.Timer, error) {
	done, err := t.TimersAPI.Schedule(ctx, r)
	return done, t.Note(ctx, "schedule-timer", r.Tenant, r.Key, err)
}

func (t notedTimers) ScheduleAll(ctx context.Context, requests []timer.Request) ([]timer.Timer, error) {
	done, err := t.TimersAPI.ScheduleAll(ctx, requests)
	return done, t.Note(ctx, "schedule-timers", "", fmt.Sprintf("%d timers", len(requests)), err)
}

func (t notedTimers) Snooze(ctx context.Context, tenant, key string, d time.Duration) (timer.Timer, error) {
	done, err := t.TimersAPI.Snooze(ctx, tenant, key, d)
	return done, t.Note(ctx, "snooze-timer", tenant, key, err)
}

func (t notedTimers) Cancel(ctx context.Context, tenant, key string) (timer.Timer, error) {
	done, err := t.TimersAPI.Cancel(ctx, tenant, key)
	return done, t.Note(ctx, "cancel-timer", tenant, key, err)
}

func (t notedTimers) CancelAll(ctx context.Context, f timer.Filter) (int, error) {
	n, err := t.TimersAPI.CancelAll(ctx, f)
	return n, t.Note(ctx, "cancel-timers", f.Tenant, fmt.Sprintf("%d timers", n), err)
}

func (t notedTimers) Redeliver(ctx context.Context, tenant, key, sink string) (timer.Timer, error) {
	done, err := t.TimersAPI.Redeliver(ctx, tenant, key, sink)
	return done, t.Note(ctx, "redeliver-timer", tenant, key+" sink="+sink, err)
}
