package abide

import (
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
)

// Info is the state of an instance.
type Info struct {
	Ref Ref

	// Orchestration and Version are the name and version of the orchestration.
	Orchestration string
	Version       string

	Status Status

	// Reason is why the instance is suspended, stalled or terminated.
	Reason string

	// Build is the build that runs all turns of the instance, see [Builds]. Empty means any.
	Build string

	// Runtime is the language and the version of the SDK that runs the code, such as "JavaScript 0.4.0". It
	// is empty for code in Go.
	Runtime string

	// StalledBuild is the build whose code made the instance stall, if it is known, see
	// [Config.Build].
	StalledBuild string

	// BadPayload is the payload because of which the instance has stalled, if that is the reason,
	// see [Client.Correct].
	BadPayload *BadPayload

	// Awaited has the names of the events that the code waits for, see [Client.Waits].
	Awaited []string

	// Execution is the number of the current execution, from 1.
	Execution int

	// StartedAt is when the instance was started, BegunAt when its code first ran, and EndedAt
	// when it ended. A time is zero if that has not happened.
	StartedAt time.Time
	BegunAt   time.Time
	EndedAt   time.Time

	// Parent is the ID of the instance that started it as a child. Empty means none.
	Parent string

	Tags map[string]string

	// Limits are those under which the instance runs, see [Under], and Priority is that of the instance. Admitted
	// is false while it waits for one of them.
	Limits   []history.Limit
	Priority int
	Admitted bool

	// StatusText is the text that the code has set, see [SetStatus].
	StatusText string

	// Values are the encoded values that the code has published, see [Value].
	Values map[string][]byte

	// Result is the encoded result of a completed instance, and Err the error of one that
	// ended otherwise.
	Result []byte
	Err    error

	// Revision grows with each change, see [Client.WaitChange].
	Revision int64

	// TraceParent is the parent of all spans of the instance, as a traceparent header. Empty
	// means that the instance is not part of a trace.
	TraceParent string

	codec Codec
}

// BadPayload is a payload that does not fit its type.
type BadPayload struct {
	// Event is the ID of the event that has it, if that is in history. Otherwise Message is the ID
	// of the message that brings it, see [Client.Undelivered].
	Event   int
	Message string

	// Kind is the kind of the event: ExecutionStarted for the input, EventReceived,
	// ActivityCompleted or ChildCompleted. Name is the name of the orchestration, event or
	// activity, or the ID of the child.
	Kind history.Kind
	Name string
}

// ResultOf returns the result of an ended instance. The error is an [*InstanceError] if the
// instance did not complete or has stalled, and [ErrState] if it has not ended.
func ResultOf[Out any](info Info) (Out, error) {
	var zero Out
	switch {
	case info.Status == Stalled:
		return zero, &InstanceError{Ref: info.Ref, Status: info.Status, Err: fmt.Errorf("%w: %s", ErrStalled, info.Reason)}
	case !info.Status.Ended():
		return zero, fmt.Errorf("abide: result of %v: it is %s: %w", info.Ref, info.Status, ErrState)
	case info.Status != Completed:
		return zero, &InstanceError{Ref: info.Ref, Status: info.Status, Err: info.Err}
	}
	out, err := decode[Out](orJSON(info.codec), info.Result)
	if err != nil {
		return zero, fmt.Errorf("abide: result of %v does not fit its type: %w", info.Ref, err)
	}
	return out, nil
}

// infoFrom returns the state of an instance that the engine returned.
func infoFrom(i engine.Info, err error) (Info, error) {
	if err != nil {
		return Info{}, err
	}
	info := Info{
		Ref: refFrom(i.Ref), Orchestration: i.Name, Version: i.Version, Build: i.Build, Runtime: i.Runtime, Status: Status(i.Status), Reason: i.Reason, StalledBuild: i.StalledBuild(),
		Execution: int(i.Execution), StartedAt: i.CreatedAt, BegunAt: i.BegunAt, EndedAt: i.EndedAt, Parent: i.Parent,
		Tags: i.Tags, StatusText: i.Text, Values: i.Values, Result: i.Result, Err: errorOf(i.Failure), Revision: i.Revision,
		TraceParent: i.TraceParent(), Limits: i.Limits, Priority: int(i.Priority), Admitted: i.Admitted || len(i.Limits) == 0,
	}
	if bad := i.BadPayload; bad != nil {
		info.BadPayload = &BadPayload{Event: int(bad.Event), Message: bad.Message, Kind: bad.Kind, Name: bad.Name}
	}
	for _, a := range i.Awaited {
		if !slices.Contains(info.Awaited, a.Name) {
			info.Awaited = append(info.Awaited, a.Name)
		}
	}
	return info, nil
}
