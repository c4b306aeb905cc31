package action

import (
	"encoding/json"
	"time"
)

// Status is the status of an action.
type Status string

// Statuses of an action.
const (
	Pending   Status = "pending"
	Running   Status = "running"
	Completed Status = "completed"
	Failed    Status = "failed"    // Reason says why
	Cancelled Status = "cancelled" // Reason says why
	Skipped   Status = "skipped"   // a run of a schedule that was due and not made; Reason says why
)

// Statuses lists all statuses of an action.
var Statuses = []Status{Pending, Running, Completed, Failed, Cancelled, Skipped}

// Ended reports whether the status is final.
func (s Status) Ended() bool { return s != Pending && s != Running }

// Action is a unit of work.
type Action struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`

	// Slug is a label of the caller's choice, such as the name of a service.
	Slug string `json:"slug"`

	// Target is the name of the target, see [Config.Targets].
	Target string `json:"target"`

	// Trigger is what caused the action.
	Trigger Trigger `json:"trigger"`

	Status Status `json:"status"`
	Reason string `json:"reason,omitempty"`

	// Payload is a JSON value for the target.
	Payload json.RawMessage `json:"payload,omitempty"`

	// Idempotent actions are run again if the process that ran them died.
	Idempotent bool `json:"idempotent,omitempty"`

	// Attempt is the number of runs so far.
	Attempt int `json:"attempt,omitempty"`

	// RetryAt is the due time of the latest retry, automatic or by [Service.Retry]. It is zero
	// before the first retry.
	RetryAt time.Time `json:"retryAt,omitzero"`

	// Schedule is the ID of the schedule that created the action, and RunAt the nominal time of
	// the run.
	Schedule string    `json:"schedule,omitempty"`
	RunAt    time.Time `json:"runAt,omitzero"`

	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`

	// Outcome is the outcome of the last run.
	Outcome Outcome `json:"outcome,omitzero"`

	// Version increases with every change.
	Version int64 `json:"version"`

	// Warning is set if the action is pending and no live worker serves its target: by what adds
	// or retries it, and by [Service.Get]. It says which targets are served, of those that the
	// tenant can use. It is not stored.
	Warning string `json:"warning,omitempty"`

	message int64  // the version with which its message was put
	claim   string // the token of the claim under which it runs
	tells   bool   // its schedule wants to know when it has ended
}

// Trigger is what caused an action: its due time or a webhook.
type Trigger struct {
	Kind TriggerKind `json:"kind"`

	// At is the due time of a scheduled action, which runs at the first tick at or after it, or
	// the time at which a webhook was received.
	At time.Time `json:"at"`

	// Header holds the kept headers of a webhook, and Size is the length of its body, in bytes.
	// See [Service.Body].
	Header map[string]string `json:"header,omitempty"`
	Size   int               `json:"size,omitempty"`
}

// TriggerKind is the kind of a trigger.
type TriggerKind string

// Kinds of triggers.
const (
	Scheduled TriggerKind = "scheduled"
	Webhook   TriggerKind = "webhook"
)

// Outcome is the outcome of a run.
type Outcome struct {
	// ExitCode is the exit code of a command or the status of an HTTP response, or 0.
	ExitCode int `json:"exitCode"`

	// Duration is the duration of the run.
	Duration time.Duration `json:"durationNs"`

	// Output is the output of a command or the body of a response. Cut is how many bytes were
	// removed from its middle.
	Output string `json:"output,omitempty"`
	Cut    int64  `json:"cut,omitempty"`
}

// Due returns the due time of the current or last run: that of the trigger, or of the latest
// retry.
func (a Action) Due() time.Time {
	if a.RetryAt.IsZero() {
		return a.Trigger.At
	}
	return a.RetryAt
}

// at returns what lists go by: when it is due, when it began, or when it ended.
func (a *Action) at() time.Time {
	switch a.Status {
	case Pending:
		return a.Due()
	case Running:
		return a.StartedAt
	default:
		return a.EndedAt
	}
}
