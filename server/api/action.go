package api

import (
	"encoding/json"
	"time"

	"github.com/abidehq/abide/action"
)

// NewAction is a request to do something.
type NewAction struct {
	Tenant     string          `json:"tenant,omitempty" default:"default" doc:"Whose action it is."`
	ID         string          `json:"id,omitempty" doc:"A name of your own: adding the same one twice adds one action. IDs that begin with delivery- are reserved for webhooks."`
	Slug       string          `json:"slug" doc:"What the action is for, such as the name of a service."`
	Target     string          `json:"target" doc:"The name of a target in the server's configuration."`
	At         time.Time       `json:"at,omitzero" doc:"When it is due; at the next tick if neither this nor delay is given."`
	Delay      Duration        `json:"delay,omitempty" doc:"How long from now it is due."`
	Payload    json.RawMessage `json:"payload,omitempty" doc:"Any JSON value for the target."`
	Idempotent bool            `json:"idempotent,omitempty" doc:"It can be run again if nobody knows how far it came."`
}

// Request returns what the request says.
func (n *NewAction) Request() action.Request {
	return action.Request{
		Tenant: n.Tenant, ID: n.ID, Slug: n.Slug, Target: n.Target,
		At: n.At, Delay: time.Duration(n.Delay), Payload: n.Payload, Idempotent: n.Idempotent,
	}
}

// ToNewAction is the inverse of [NewAction.Request].
func ToNewAction(r action.Request) NewAction {
	return NewAction{
		Tenant: r.Tenant, ID: r.ID, Slug: r.Slug, Target: r.Target,
		At: r.At, Delay: Duration(r.Delay), Payload: r.Payload, Idempotent: r.Idempotent,
	}
}

// Action is a unit of work.
type Action struct {
	ID         string            `json:"id"`
	Tenant     string            `json:"tenant"`
	Slug       string            `json:"slug"`
	Target     string            `json:"target"`
	Trigger    string            `json:"trigger" enum:"scheduled,webhook"`
	Status     string            `json:"status" enum:"pending,running,completed,failed,cancelled,skipped"`
	Reason     string            `json:"reason,omitempty" doc:"Why it failed, was cancelled or skipped."`
	DueAt      time.Time         `json:"due_at" doc:"When it is due; of a webhook, when it was received."`
	Schedule   string            `json:"schedule,omitempty" doc:"The schedule that made it."`
	RunAt      time.Time         `json:"run_at,omitzero" doc:"The time of the schedule that it stands for."`
	CreatedAt  time.Time         `json:"created_at"`
	UpdatedAt  time.Time         `json:"updated_at"`
	StartedAt  time.Time         `json:"started_at,omitzero"`
	EndedAt    time.Time         `json:"ended_at,omitzero"`
	RetryAt    time.Time         `json:"retry_at,omitzero" doc:"When it was, or will be, run again: after a run that failed, or on request."`
	Attempt    int               `json:"attempt" doc:"How often it was run."`
	Idempotent bool              `json:"idempotent"`
	ExitCode   int               `json:"exit_code" doc:"Of a command, or the status of an HTTP response."`
	Duration   Duration          `json:"duration,omitempty" doc:"How long the last run took."`
	Output     string            `json:"output,omitempty" doc:"What the last run printed or answered."`
	OutputCut  int64             `json:"output_cut,omitempty" doc:"How many bytes of the middle of it were not kept."`
	Payload    json.RawMessage   `json:"payload,omitempty"`
	Headers    map[string]string `json:"headers,omitempty" doc:"Headers of the webhook that were kept."`
	BodyBytes  int               `json:"body_bytes,omitempty" doc:"The length of the webhook's body."`
	Version    int64             `json:"version"`
	Warning    string            `json:"warning,omitempty" doc:"No live worker serves its target, and it waits until one does. Names the targets that are served. Not in lists."`
}

// FromAction returns an action for the wire.
func FromAction(a action.Action) Action {
	return Action{
		ID: a.ID, Tenant: a.Tenant, Slug: a.Slug, Target: a.Target,
		Trigger: string(a.Trigger.Kind), Status: string(a.Status), Reason: a.Reason, DueAt: a.Trigger.At,
		Schedule: a.Schedule, RunAt: a.RunAt, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
		StartedAt: a.StartedAt, EndedAt: a.EndedAt, RetryAt: a.RetryAt, Attempt: a.Attempt, Idempotent: a.Idempotent,
		ExitCode: a.Outcome.ExitCode, Duration: Duration(a.Outcome.Duration), Output: a.Outcome.Output, OutputCut: a.Outcome.Cut,
		Payload: a.Payload, Headers: a.Trigger.Header, BodyBytes: a.Trigger.Size, Version: a.Version, Warning: a.Warning,
	}
}

// Action is the inverse of [FromAction].
func (a *Action) Action() action.Action {
	return action.Action{
		ID: a.ID, Tenant: a.Tenant, Slug: a.Slug, Target: a.Target,
		Trigger: action.Trigger{Kind: action.TriggerKind(a.Trigger), At: a.DueAt, Header: a.Headers, Size: a.BodyBytes},
		Status:  action.Status(a.Status), Reason: a.Reason,
		Schedule: a.Schedule, RunAt: a.RunAt, CreatedAt: a.CreatedAt, UpdatedAt: a.UpdatedAt,
		StartedAt: a.StartedAt, EndedAt: a.EndedAt, RetryAt: a.RetryAt, Attempt: a.Attempt, Idempotent: a.Idempotent,
		Outcome: action.Outcome{ExitCode: a.ExitCode, Duration: time.Duration(a.Duration), Output: a.Output, Cut: a.OutputCut},
		Payload: a.Payload, Version: a.Version, Warning: a.Warning,
	}
}

// ActionList is a page of actions.
type ActionList struct {
	Actions       []Action `json:"actions"`
	NextPageToken string   `json:"next_page_token,omitempty" doc:"What to ask for the next page with; not there on the last one."`
}
