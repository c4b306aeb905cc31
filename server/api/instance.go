package api

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// What becomes of a start with an ID that exists.
const (
	OnExistsReject   = "reject"   // it is an error
	OnExistsExisting = "existing" // the instance that is there is the one
	OnExistsReplace  = "replace"  // one that has ended makes way
)

// NewInstance is an instance to start.
type NewInstance struct {
	Tenant        string            `json:"tenant,omitempty" doc:"Whose instance it is; default if it is not given."`
	ID            string            `json:"id,omitempty" doc:"A name of your own: starting the same one twice starts one instance. Without it there is a random one."`
	Orchestration string            `json:"orchestration" minLength:"1" doc:"The name of the orchestration."`
	Version       string            `json:"version,omitempty" doc:"The version of the orchestration."`
	Input         json.RawMessage   `json:"input,omitempty" doc:"Any JSON value, or {\"$base64\": \"…\"} for what is not JSON."`
	Tags          map[string]string `json:"tags,omitempty" doc:"By which instances can be listed."`
	StartAt       time.Time         `json:"start_at,omitzero" doc:"When it begins; at once if neither this nor delay is given."`
	Delay         Duration          `json:"delay,omitempty" doc:"How long from now it begins, by the store's clock."`
	OnExists      string            `json:"on_exists,omitempty" enum:"reject,existing,replace" doc:"What becomes of an ID that exists: an error, the instance that is there (unless something else is said), or another start if that one has ended."`
	ReplaceIf     []abide.Status    `json:"replace_if,omitempty" enum:"pending,running,suspended,stalled,completed,failed,cancelled,terminated" doc:"Instead of on_exists: an instance of the ID is replaced if its status is one of these, terminated before if it has not ended; otherwise it is an error."`
	Unchecked     bool              `json:"unchecked,omitempty" doc:"Start it although no worker has ever registered the orchestration, and with any input."`
	Limits        []InstanceLimit   `json:"limits,omitempty" maxItems:"8" doc:"The limits under which it runs: it is pending until all of them have admitted it."`
	Priority      int               `json:"priority,omitempty" minimum:"-100" maximum:"100" doc:"Its place among what waits for a limit: a higher one goes first."`
}

// NewInstances are instances to start in one commit.
type NewInstances struct {
	Instances []NewInstance `json:"instances" minItems:"1" maxItems:"1000" doc:"All of them are started, or none."`
}

// Started is the result of a [NewInstance].
type Started struct {
	Tenant   string    `json:"tenant"`
	ID       string    `json:"id"`
	Existed  bool      `json:"existed,omitempty" doc:"There was such an instance, and nothing was started."`
	Unserved bool      `json:"unserved,omitempty" doc:"No live worker runs the orchestration: the instance waits for one."`
	Revision int64     `json:"revision,omitempty" doc:"That of the instance, if it was started and has not ended already: wait for a later one with after."`
	Instance *Instance `json:"instance,omitempty" doc:"The instance when it had ended, or when the wait was over; only with wait."`
}

// FromStarted returns the result of a start for the wire.
func FromStarted(s abide.Started) Started {
	return Started{Tenant: s.Ref.Tenant, ID: s.Ref.ID, Existed: s.Existed, Unserved: s.Unserved, Revision: s.Revision}
}

// Started is the inverse of [FromStarted].
func (s *Started) Started() abide.Started {
	return abide.Started{Ref: abide.Ref{Tenant: s.Tenant, ID: s.ID}, Existed: s.Existed, Unserved: s.Unserved, Revision: s.Revision}
}

// StartedList is the result of [NewInstances], in their order.
type StartedList struct {
	Instances []Started `json:"instances"`
}

// Instance is the state of an instance.
type Instance struct {
	Tenant        string                     `json:"tenant"`
	ID            string                     `json:"id"`
	Orchestration string                     `json:"orchestration"`
	Version       string                     `json:"version,omitempty"`
	Status        string                     `json:"status" enum:"pending,running,suspended,stalled,completed,failed,cancelled,terminated,continued"`
	Reason        string                     `json:"reason,omitempty" doc:"Why it is suspended, stalled or terminated."`
	Build         string                     `json:"build,omitempty" doc:"The build that it is pinned to: only workers of it run its code."`
	Runtime       string                     `json:"runtime,omitempty" doc:"The language and the version of the SDK that runs its code, if that is not Go."`
	StalledBuild  string                     `json:"stalled_build,omitempty" doc:"The build under which it has stalled, if that was because of its code."`
	BadPayload    *BadPayload                `json:"bad_payload,omitempty" doc:"The payload because of which it has stalled, if that is the reason. It can be corrected."`
	Awaited       []string                   `json:"awaited,omitempty" doc:"The names of the events that it waits for."`
	Execution     int                        `json:"execution" doc:"Counts from 1; continue-as-new makes the next."`
	StartedAt     time.Time                  `json:"started_at"`
	BegunAt       time.Time                  `json:"begun_at,omitzero" doc:"When its code began."`
	EndedAt       time.Time                  `json:"ended_at,omitzero"`
	Parent        string                     `json:"parent,omitempty" doc:"The ID of the instance that waits for it."`
	Tags          map[string]string          `json:"tags,omitempty"`
	StatusText    string                     `json:"status_text,omitempty" doc:"What it says about itself."`
	Values        map[string]json.RawMessage `json:"values,omitempty" doc:"What it lets others read."`
	Result        json.RawMessage            `json:"result,omitempty" doc:"What it returned: any JSON value, or {\"$base64\": \"…\"} for what is not JSON."`
	Failure       *Failure                   `json:"failure,omitempty" doc:"How it ended otherwise."`
	Revision      int64                      `json:"revision" doc:"Grows with each change."`
	Limits        []InstanceLimit            `json:"limits,omitempty" doc:"The limits under which it runs."`
	Priority      int                        `json:"priority,omitempty" doc:"Its place among what waits for a limit."`
	NotAdmitted   bool                       `json:"not_admitted,omitempty" doc:"It waits for one of its limits, or has ended before it was admitted. What it waits for is listed with its waits."`
}

// FromInfo returns an instance for the wire.
func FromInfo(i *abide.Info) Instance {
	out := Instance{
		Tenant: i.Ref.Tenant, ID: i.Ref.ID, Orchestration: i.Orchestration, Version: i.Version, Build: i.Build, Runtime: i.Runtime,
		Status: string(i.Status), Reason: i.Reason, StalledBuild: i.StalledBuild, Execution: i.Execution,
		StartedAt: i.StartedAt, BegunAt: i.BegunAt, EndedAt: i.EndedAt, Parent: i.Parent, Tags: i.Tags,
		StatusText: i.StatusText, Awaited: i.Awaited, Result: FromPayload(i.Result), Failure: FromError(i.Err), Revision: i.Revision,
		Limits: FromInstanceLimits(i.Limits), Priority: i.Priority, NotAdmitted: len(i.Limits) > 0 && !i.Admitted,
	}
	if bad := i.BadPayload; bad != nil {
		out.BadPayload = &BadPayload{Event: bad.Event, Message: bad.Message, Kind: bad.Kind.String(), Name: bad.Name}
	}
	if len(i.Values) > 0 {
		out.Values = make(map[string]json.RawMessage, len(i.Values))
		for name, value := range i.Values {
			out.Values[name] = FromPayload(value)
		}
	}
	return out
}

// BadPayload is a payload that does not fit its type.
type BadPayload struct {
	Event   int    `json:"event,omitempty" doc:"The event of the history that has it."`
	Message string `json:"message,omitempty" doc:"The undelivered message that brings it, if it is not in the history."`
	Kind    string `json:"kind" doc:"The kind of the event: ExecutionStarted for the input, EventReceived, ActivityCompleted or ChildCompleted."`
	Name    string `json:"name,omitempty" doc:"The name of the orchestration, the event or the activity, or the ID of the child."`
}

// BadPayload returns the payload as package abide has it; nil if there is none.
func (b *BadPayload) BadPayload() *abide.BadPayload {
	if b == nil {
		return nil
	}
	out := &abide.BadPayload{Event: b.Event, Message: b.Message, Name: b.Name}
	_ = out.Kind.UnmarshalText([]byte(b.Kind)) // a kind that this version does not know is zero
	return out
}

// InstanceList is a page of instances.
type InstanceList struct {
	Instances     []Instance `json:"instances"`
	NextPageToken string     `json:"next_page_token,omitempty" doc:"What to ask for the next page with; not there on the last one."`
}

// FromTag returns a tag for a query, in the form name:value, which servers of all releases read,
// with what would end the name too soon escaped.
func FromTag(name, value string) string { return tagName(name) + ":" + value }

// TypedTag returns a tag as people write it, in the form name=value, with the same escapes in the
// name.
func TypedTag(name, value string) string { return tagName(name) + "=" + value }

func tagName(name string) string {
	return strings.NewReplacer("%", "%25", ":", "%3A", "=", "%3D").Replace(name)
}

// Tag reads a tag of a query: name=value, or what [FromTag] returns.
func Tag(text string) (name, value string, err error) {
	i := strings.IndexAny(text, "=:")
	if i >= 0 {
		name, err = url.PathUnescape(text[:i])
	}
	if i < 0 || err != nil {
		return "", "", fmt.Errorf("%q is not a tag; it looks like name=value: %w", text, abide.ErrInvalid)
	}
	return name, text[i+1:], nil
}

// ParseTyped reads a tag that a person has written: name=value or name:value, as [Tag] does. One that
// has a colon before the equals sign, as in a:b=c, is refused: it could mean either.
func ParseTyped(text string) (name, value string, err error) {
	colon, equals := strings.Index(text, ":"), strings.Index(text, "=")
	if colon >= 0 && colon < equals {
		return "", "", fmt.Errorf("%q has both : and =; write %s if the : is part of the name, and %s if the = is part of the value: %w",
			text, strings.Replace(text[:equals], ":", "%3A", 1)+text[equals:], strings.Replace(text, ":", "=", 1), abide.ErrInvalid)
	}
	name, value, err = Tag(text)
	if err == nil && name == "" {
		err = fmt.Errorf("%q is not a tag, it has no name; it looks like name=value: %w", text, abide.ErrInvalid)
	}
	return name, value, err
}

// Result is how far an instance has come, and what it returned if it has completed.
type Result struct {
	Tenant string          `json:"tenant"`
	ID     string          `json:"id"`
	Status string          `json:"status"`
	Result json.RawMessage `json:"result,omitempty" doc:"Any JSON value, or {\"$base64\": \"…\"} for what is not JSON; not there if it returns nothing."`
}

// Codes of problems with results.
const (
	CodeFailed  = "instance_failed"  // the instance ended without a result
	CodeStalled = "instance_stalled" // the instance's code cannot continue before it is fixed
)

// InstanceProblem is the problem of who asks for a result that there is not.
type InstanceProblem struct {
	Problem
	Instance Instance `json:"instance"`
}

// Wait is something that an instance waits for.
type Wait struct {
	Event   int       `json:"event" doc:"The event of the history by which it was asked for; 0 for an event that its code waits for."`
	Kind    string    `json:"kind" doc:"That event's kind: ActivityScheduled, TimerCreated or ChildStarted; EventReceived for an event that its code waits for, and ExecutionStarted for a limit that the instance itself waits for."`
	Name    string    `json:"name,omitempty" doc:"Of the activity, the timer, the child's orchestration or the event."`
	Child   string    `json:"child,omitempty" doc:"The ID of the child."`
	At      time.Time `json:"at,omitzero" doc:"When the timer fires, the activity is tried next, or the wait for the event ends."`
	Attempt int       `json:"attempt,omitempty" doc:"How often the activity was begun."`
	Failure *Failure  `json:"failure,omitempty" doc:"How the last attempt failed."`

	Lease *Lease `json:"lease,omitempty" doc:"Of an activity: which worker has claimed it. Not there if none has."`

	Limit *LimitWait `json:"limit,omitempty" doc:"The limit that the activity, or the instance itself, waits for before it can begin."`

	Since  time.Time       `json:"since,omitzero" doc:"Since when its code waits for the event."`
	Schema json.RawMessage `json:"schema,omitempty" doc:"The JSON Schema of the event's payload, if it is known."`
}

// WaitList is what an instance waits for.
type WaitList struct {
	Waits []Wait `json:"waits"`
}

// FromWait returns something that an instance waits for for the wire.
func FromWait(w *abide.Waiting) Wait {
	return Wait{
		Event: w.Event, Kind: w.Kind.String(), Name: w.Name, Child: w.Child, At: w.At, Attempt: w.Attempt, Failure: FromError(w.Err),
		Since: w.Since, Schema: w.Schema, Lease: (*Lease)(w.Lease), Limit: (*LimitWait)(w.Limit),
	}
}

// Lease is the exclusive right of a worker to a turn or to an attempt of an activity.
type Lease struct {
	Worker   string    `json:"worker,omitempty" doc:"Its host and process ID, after its name if it has one: shop:42, or till@shop:42."`
	WorkerID string    `json:"worker_id,omitempty" doc:"Its ID in the list of workers."`
	Until    time.Time `json:"until" doc:"When the lease ends unless the worker renews it. After that any worker can claim."`
	SeenAt   time.Time `json:"seen_at,omitzero" doc:"When the worker last reported, which it does every 20 seconds. Not there if it is not listed."`
}

// TurnLease is the lease of the turn of an instance.
type TurnLease struct {
	Lease *Lease `json:"lease,omitempty" doc:"Not there if no worker has claimed the turn."`
}

// Waiting is the inverse of [FromWait]. A kind that this version does not know is zero.
func (w *Wait) Waiting() abide.Waiting {
	var kind history.Kind
	_ = kind.UnmarshalText([]byte(w.Kind))
	return abide.Waiting{
		Event: w.Event, Kind: kind, Name: w.Name, Child: w.Child, At: w.At, Attempt: w.Attempt, Err: w.Failure.Err(),
		Since: w.Since, Schema: w.Schema, Lease: (*abide.Lease)(w.Lease), Limit: (*abide.LimitWait)(w.Limit),
	}
}

// Termination says why and how an instance is terminated.
type Termination struct {
	Reason    string          `json:"reason,omitempty" doc:"Why."`
	Result    json.RawMessage `json:"result,omitempty" doc:"What the instance returns: any JSON value, or {\"$base64\": \"…\"} for what is not JSON."`
	Recursive bool            `json:"recursive,omitempty" doc:"Terminate the children that it waits for too, whatever their close policies are, and their children."`
}

// Restart says why an instance is restarted, and as which one.
type Restart struct {
	Reason string `json:"reason,omitempty" doc:"Why."`
	ID     string `json:"id,omitempty" doc:"The ID of a new instance with the same orchestration, tags and input; the instance itself, whatever its status is, stays as it is. Without it the instance is started once more."`
}

// NewFork says where to fork an instance.
type NewFork struct {
	Event int    `json:"event" minimum:"1" doc:"The last event of its history that the new instance has as well."`
	ID    string `json:"id,omitempty" doc:"The ID of the new instance; without it there is a random one."`
}

// Forked names an instance that was forked.
type Forked struct {
	Tenant string `json:"tenant"`
	ID     string `json:"id"`
}

// TimerMove gives timers another time.
type TimerMove struct {
	Timer string    `json:"timer" minLength:"1" doc:"The name of the timers. One that limits the wait for an event has the event's name."`
	At    time.Time `json:"at" doc:"When they are to fire; at once if it is past."`
}
