package abide

import (
	"fmt"
	"time"

	"github.com/abidehq/abide/internal/engine"
)

// Info is what is true of an instance.
type Info struct {
	Ref Ref

	// Orchestration and Version say what it is an instance of.
	Orchestration string
	Version       string

	Status Status

	// Reason says why it is suspended, stalled or terminated.
	Reason string

	// StalledBuild is the build under which it has stalled, if that was because of its code
	// and the build is known: see [Config.Build].
	StalledBuild string

	// Execution counts from 1.
	Execution int

	// StartedAt is when it was started, BegunAt when its code began, and EndedAt when it
	// ended; zero if that has not happened.
	StartedAt time.Time
	BegunAt   time.Time
	EndedAt   time.Time

	// Parent is the ID of the instance that waits for it, if any.
	Parent string

	Tags map[string]string

	// StatusText is what the instance says about itself: see [SetStatus].
	StatusText string

	// Values are what the instance lets others read, as the codec wrote them: see
	// [Info.Value].
	Values map[string][]byte

	// Result is what it returned, as the codec wrote it, and Err how it ended otherwise.
	Result []byte
	Err    error

	// Revision grows with each change: see [Client.Await].
	Revision int64

	// TraceParent is the span below which all spans of the instance are, in the form of
	// the header traceparent; empty if it is not part of a trace.
	TraceParent string

	codec Codec
}

// Value reads a value that the instance has set into v, and reports whether there is
// one.
func (i *Info) Value(name string, v any) (bool, error) {
	data, ok := i.Values[name]
	if !ok {
		return false, nil
	}
	if err := orJSON(i.codec).Decode(data, v); err != nil {
		return true, fmt.Errorf("abide: value %q of instance %v: %w", name, i.Ref, err)
	}
	return true, nil
}

// ResultOf returns the result of an instance that has ended. If it did not complete the
// error is an [*InstanceError], also if it has stalled; if it has not ended, it is
// [ErrState].
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

func infoFrom(i *engine.Info, codec Codec) Info {
	return Info{
		Ref: Ref(i.Ref), Orchestration: i.Name, Version: i.Version, Status: Status(i.Status), Reason: i.Reason, StalledBuild: i.StalledBuild(),
		Execution: int(i.Execution), StartedAt: i.CreatedAt, BegunAt: i.BegunAt, EndedAt: i.EndedAt, Parent: i.Parent,
		Tags: i.Tags, StatusText: i.Text, Values: i.Values, Result: i.Result, Err: errorOf(i.Failure), Revision: i.Revision,
		TraceParent: i.TraceParent(), codec: codec,
	}
}
