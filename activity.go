package abide

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
)

// Activity is a named function with side effects. It is executed at least once: if its process
// crashes after the effect and before the result is durable, it is executed again. It should
// therefore be idempotent; [ActivityInfo.Key] is the same for all attempts of a call and
// different for each call.
type Activity[In, Out any] struct {
	name string
	f    func(ctx context.Context, in In) (Out, error)
	how  history.Activity
}

// NewActivity returns an activity. The options are the defaults of its calls. Declare it as a
// package variable and list it in [Config.Register]. [Open] checks the name.
func NewActivity[In, Out any](name string, f func(ctx context.Context, in In) (Out, error), opts ...ActivityOption) *Activity[In, Out] {
	o := activityOptions{}
	Retry(defaultAttempts).activity(&o)
	for _, opt := range opts {
		opt.activity(&o)
	}
	return &Activity[In, Out]{name: name, f: f, how: o.how}
}

// ActivityNamed returns a handle on an activity whose function is in another process. It can be
// called, but not registered.
func ActivityNamed[In, Out any](name string, opts ...ActivityOption) *Activity[In, Out] {
	return NewActivity[In, Out](name, nil, opts...)
}

// Name returns the name of the activity.
func (a *Activity[In, Out]) Name() string { return a.name }

// Call schedules the activity and waits for its result.
func (a *Activity[In, Out]) Call(ctx Context, in In, opts ...ActivityOption) (Out, error) {
	return a.Go(ctx, in, opts...).Get(ctx)
}

// Go schedules the activity and returns the future of its result. The error of an activity that
// failed is an [*ActivityError].
func (a *Activity[In, Out]) Go(ctx Context, in In, opts ...ActivityOption) *Future[Out] {
	ctx.check("activity", a.name)
	o := activityOptions{how: a.how}
	for _, opt := range opts {
		opt.activity(&o)
	}
	ctx.checkLimits("activity", a.name, o.how.Limits, o.how.Priority)
	f := ctx.c.Activity(a.name, payload(ctx, thing{what: "the input of activity", name: a.name}, in), o.how)
	return newFuture[Out](f, thing{what: "the result of activity", name: a.name, kind: history.ActivityCompleted}, func(failure *history.Failure) error {
		return &ActivityError{Name: a.name, Attempt: int(failure.Attempt), Err: errorOf(failure)}
	})
}

// define registers the activity with an engine.
func (a *Activity[In, Out]) define(d *definitions) error {
	if a == nil {
		return fmt.Errorf("abide: an activity is nil: %w", ErrInvalid)
	}
	if err := engine.CheckName("activity", a.name); err != nil {
		return err
	}
	if a.f == nil {
		return fmt.Errorf("abide: activity %q has no function: %w", a.name, ErrInvalid)
	}
	if _, dup := d.activities[a.name]; dup {
		return fmt.Errorf("abide: activity %q is registered twice: %w", a.name, ErrInvalid)
	}
	d.signatures = append(d.signatures, func(c Codec) engine.Signature {
		return engine.Signature{Name: engine.SignatureName{Route: a.name, Activity: true}, Input: schemaOf[In](c), Result: schemaOf[Out](c)}
	})
	d.activities[a.name] = func(codec Codec) engine.Activity {
		return func(ctx context.Context, t *engine.Task) ([]byte, *history.Failure) {
			in, err := decode[In](codec, t.Input)
			if err != nil {
				return nil, failureOf(fmt.Errorf("abide: the input of activity %q does not fit its type: %w", a.name, err))
			}
			out, err := a.f(context.WithValue(ctx, taskKey{}, &activityTask{t, codec}), in)
			if err != nil {
				return nil, failureOf(err)
			}
			data, err := encode(codec, out)
			if err != nil {
				return nil, failureOf(Final(fmt.Errorf("abide: the result of activity %q cannot be encoded: %w", a.name, err)))
			}
			return data, nil
		}
	}
	return nil
}

type taskKey struct{}

type activityTask struct {
	*engine.Task
	codec Codec
}

// ActivityInfo describes the attempt that an activity's function is called for.
type ActivityInfo struct {
	// Instance is the instance that scheduled the activity.
	Instance Ref

	// Name is the name of the activity, and Attempt the number of the attempt, from 1.
	Name    string
	Attempt int

	// Key is the same for all attempts of a call, and different for each call. Pass it on as
	// an idempotency key.
	Key string

	// ScheduledAt is when the activity was scheduled.
	ScheduledAt time.Time
}

// ActivityOf returns the activity that ctx belongs to. It returns false if ctx is not the
// context of an activity.
func ActivityOf(ctx context.Context) (ActivityInfo, bool) {
	t, ok := ctx.Value(taskKey{}).(*activityTask)
	if !ok {
		return ActivityInfo{}, false
	}
	return ActivityInfo{
		Instance: refFrom(t.Ref), Name: t.Name, Attempt: t.Attempt, ScheduledAt: t.ScheduledAt,
		Key: t.Key,
	}, true
}

// Heartbeat reports that the activity is alive, and stores details for the next attempt, should
// this one fail; nil keeps the details of the last heartbeat. It returns an error if the result
// is no longer awaited: then the activity should return. It returns an error that matches
// [ErrInvalid] if the details cannot be encoded or are too large. A store that cannot be reached
// is not an error: the details are stored with a later heartbeat.
//
// Cancellation does not need heartbeats: ctx ends when the activity is cancelled.
func Heartbeat(ctx context.Context, details any) error {
	t, ok := ctx.Value(taskKey{}).(*activityTask)
	if !ok {
		return fmt.Errorf("abide: heartbeat: not the context of an activity: %w", ErrInvalid)
	}
	if details == nil {
		return t.Heartbeat(nil)
	}
	data, err := t.codec.Encode(details)
	if err != nil {
		return fmt.Errorf("abide: heartbeat: details: %w: %w", err, ErrInvalid)
	}
	return t.Heartbeat(data)
}

// LastHeartbeat returns the details of the previous attempt's last heartbeat, and whether there
// are any.
func LastHeartbeat[T any](ctx context.Context) (details T, ok bool, err error) {
	t, ok := ctx.Value(taskKey{}).(*activityTask)
	if !ok {
		return details, false, fmt.Errorf("abide: last heartbeat: not the context of an activity: %w", ErrInvalid)
	}
	data, err := t.Details()
	if err != nil || data == nil {
		return details, false, err
	}
	if err := t.codec.Decode(data, &details); err != nil {
		return details, false, fmt.Errorf("abide: last heartbeat: details: %w: %w", err, ErrInvalid)
	}
	return details, true, nil
}
