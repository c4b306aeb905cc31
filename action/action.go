package action

import (
	"encoding/json"
	"time"
)

// Status is what an action does.
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

// Statuses are all of them.
var Statuses = []Status{Pending, Running, Completed, Failed, Cancelled, Skipped}

// Ended reports whether nothing happens to such an action any more by itself.
func (s Status) Ended() bool { return s != Pending && s != Running }

// Action is a unit of work.
type Action struct {
	ID     string `json:"id"`
	Tenant string `json:"tenant"`

	// Slug is what the action is for, such as the name of a service.
	Slug string `json:"slug"`

	// Target is the name of what does it, in the configuration of the process that does.
	Target string `json:"target"`

	// Trigger is why it happens.
	Trigger Trigger `json:"trigger"`

	Status Status `json:"status"`
	Reason string `json:"reason,omitempty"`

	// Payload is a JSON value for the target.
	Payload json.RawMessage `json:"payload,omitempty"`

	// Idempotent actions can be run again if nobody knows how far they came.
	Idempotent bool `json:"idempotent,omitempty"`

	// Attempt counts how often it was run.
	Attempt int `json:"attempt,omitempty"`

	// RetryAt is when it was, or will be, run again: after a run that failed, or because
	// somebody wants it. It is zero before that.
	RetryAt time.Time `json:"retryAt,omitzero"`

	// Schedule is the ID of the schedule that made it, and RunAt the time of the schedule
	// that it stands for.
	Schedule string    `json:"schedule,omitempty"`
	RunAt    time.Time `json:"runAt,omitzero"`

	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`

	// Outcome is what came of the last run.
	Outcome Outcome `json:"outcome,omitzero"`

	// Version grows with each change.
	Version int64 `json:"version"`

	// Warning is set in the answer to who adds an action that nobody will do right now: no live
	// worker serves its target. It is not kept.
	Warning string `json:"warning,omitempty"`

	message int64  // the version with which its message was put
	claim   string // the token of the claim under which it runs
	tells   bool   // its schedule wants to know when it has ended
}

// Trigger is why an action happens: its time has come, or a webhook arrived.
type Trigger struct {
	Kind TriggerKind `json:"kind"`

	// At is the time of a scheduled action: it happens at the first tick that is not
	// before. Of a webhook, it is when that was received.
	At time.Time `json:"at"`

	// Header has those headers of a webhook that matter, and Size is the length of its
	// body, in bytes. See [Service.Body].
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

// Outcome is what came of a run.
type Outcome struct {
	// ExitCode is that of a command, or the status of an HTTP response; 0 if there is none.
	ExitCode int `json:"exitCode"`

	// Duration is how long it ran.
	Duration time.Duration `json:"durationNs"`

	// Output is what it printed or answered, and Cut how many bytes of it were not kept: the
	// middle of it.
	Output string `json:"output,omitempty"`
	Cut    int64  `json:"cut,omitempty"`
}

// Due returns when the action is due, or was for the last time: at the time of its trigger,
// or when it is to be run again.
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
