package abide

import (
	"context"
	"fmt"
	"time"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/history"
)

// Activity is a function with side effects, under a name. It is run at least once: its
// process may be lost when it has had its effect and nobody knows yet. So it should do
// no harm the second time; [ActivityInfo.Key] is the same each time, and different for
// each call.
type Activity[In, Out any] struct {
	name string
	f    func(ctx context.Context, in In) (Out, error)
	how  history.Activity
}

// NewActivity returns an activity. The options hold for all calls that do not say
// otherwise. Make it once, as a package variable, and give it to [Serve]. Whether the name
// is a good one is checked by [Open].
func NewActivity[In, Out any](name string, f func(ctx context.Context, in In) (Out, error), opts ...ActivityOption) *Activity[In, Out] {
	o := activityOptions{}
	Retry(defaultAttempts).activity(&o)
	for _, opt := range opts {
		opt.activity(&o)
	}
	return &Activity[In, Out]{name: name, f: f, how: o.how}
}

// ActivityNamed returns a handle on an activity whose function is in another process.
// It can be called, and cannot be served.
func ActivityNamed[In, Out any](name string, opts ...ActivityOption) *Activity[In, Out] {
	return NewActivity[In, Out](name, nil, opts...)
}

// Name returns the activity's name.
func (a *Activity[In, Out]) Name() string { return a.name }

// Call asks for the activity and waits for its result.
func (a *Activity[In, Out]) Call(ctx Context, in In, opts ...ActivityOption) (Out, error) {
	return a.Go(ctx, in, opts...).Get(ctx)
}

// Go asks for the activity, and returns what will be its result. An error of the
// activity is an [*ActivityError].
func (a *Activity[In, Out]) Go(ctx Context, in In, opts ...ActivityOption) *Future[Out] {
	ctx.check("activity", a.name)
	o := activityOptions{how: a.how}
	for _, opt := range opts {
		opt.activity(&o)
	}
	f := ctx.c.Activity(a.name, payload(ctx, thing{"the input of activity", a.name}, in), o.how)
	return newFuture[Out](f, thing{"the result of activity", a.name}, func(failure *history.Failure) error {
		return &ActivityError{Name: a.name, Attempt: int(failure.Attempt), Err: errorOf(failure)}
	})
}

// define makes the activity known to an engine.
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

// ActivityInfo says what an activity is run for.
type ActivityInfo struct {
	// Instance is who asked for it.
	Instance Ref

	// Name is that of the activity, and Attempt says which one this is: 1 for the first.
	Name    string
	Attempt int

	// Key is the same for all attempts, and different for each call: hand it to others so
	// that they do a thing once.
	Key string

	// ScheduledAt is when it was asked for.
	ScheduledAt time.Time
}

// ActivityOf returns what the activity is run for to whose function ctx was given. Outside
// of an activity it returns false.
func ActivityOf(ctx context.Context) (ActivityInfo, bool) {
	t, ok := ctx.Value(taskKey{}).(*activityTask)
	if !ok {
		return ActivityInfo{}, false
	}
	return ActivityInfo{
		Instance: Ref(t.Ref), Name: t.Name, Attempt: t.Attempt, ScheduledAt: t.ScheduledAt,
		Key: t.Key,
	}, true
}

// Heartbeat says that the activity is alive, and keeps details for the next attempt,
// should this one fail; nil keeps those that there are. It returns an error if nobody
// waits for the result any more: then the activity should return. It returns an error that
// matches [ErrInvalid] if the details cannot be encoded or are too large. A store that cannot
// be reached is not an error: the details are kept with a later heartbeat.
//
// It is not needed to be cancelled: ctx ends when it is.
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

// LastHeartbeat reads the details of the last heartbeat of the attempt before into v, and
// reports whether there are any.
func LastHeartbeat(ctx context.Context, v any) (bool, error) {
	t, ok := ctx.Value(taskKey{}).(*activityTask)
	if !ok {
		return false, fmt.Errorf("abide: last heartbeat: not the context of an activity: %w", ErrInvalid)
	}
	data, err := t.Details()
	if err != nil || data == nil {
		return false, err
	}
	if err := t.codec.Decode(data, v); err != nil {
		return false, fmt.Errorf("abide: last heartbeat: details: %w: %w", err, ErrInvalid)
	}
	return true, nil
}
