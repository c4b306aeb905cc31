package abide

import (
	"maps"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/history"
)

// RegisterOption is an option of [NewOrchestration].
type RegisterOption interface{ register(*registerOptions) }

// ActivityOption is an option of an activity: of [NewActivity], where it holds for all
// calls, or of one call.
type ActivityOption interface{ activity(*activityOptions) }

// StepOption is an option of [Step].
type StepOption interface{ step(*activityOptions) }

// ChildOption is an option of [Orchestration.Call], [Orchestration.Go] and
// [Orchestration.Detach].
type ChildOption interface{ child(*childOptions) }

// StartOption is an option of [Orchestration.Start].
type StartOption interface{ start(*engine.Start) }

// TimerOption is an option of a timer.
type TimerOption interface{ timer(*timerOptions) }

// WaitOption is an option of [Event.Wait].
type WaitOption interface{ wait(*waitOptions) }

// RaiseOption is an option of [Event.Raise].
type RaiseOption interface{ raise(*engine.Raise) }

// InstanceOption is an option of [Orchestration.Instance].
type InstanceOption interface{ instance(*Ref) }

type (
	registerOptions struct{ version string }
	activityOptions struct{ how history.Activity }
	timerOptions    struct{ name string }
	waitOptions     struct{ timeout *time.Duration }
	childOptions    struct {
		id  string
		how history.Child
	}
)

// Version is the version of an orchestration. An instance keeps the version with which
// it was started; as long as there are instances of an old one, a process should have
// it registered beside the new one.
func Version(v string) VersionOption { return VersionOption(v) }

// VersionOption is what [Version] returns.
type VersionOption string

func (v VersionOption) register(o *registerOptions) { o.version = string(v) }
func (v VersionOption) continued(o *continueOptions) {
	o.version = (*string)(&v)
}

// ID is the ID of the instance that is started; without it there is a random one. Of an
// event that is raised it is the ID by which a second raise is known to be the same, for
// as long as the first has not reached its instance.
func ID(id string) IDOption { return IDOption(id) }

// IDOption is what [ID] returns.
type IDOption string

func (id IDOption) start(s *engine.Start) { s.ID = string(id) }
func (id IDOption) child(o *childOptions) { o.id = string(id) }
func (id IDOption) raise(r *engine.Raise) { r.ID = string(id) }

// Tenant is whose data it is. Without it, and with [DefaultTenant], the tenant is empty.
func Tenant(t string) TenantOption { return TenantOption(t) }

// TenantOption is what [Tenant] returns.
type TenantOption string

func (t TenantOption) start(s *engine.Start) { s.Tenant = tenantOf(string(t)) }
func (t TenantOption) raise(r *engine.Raise) { r.Tenant = tenantOf(string(t)) }
func (t TenantOption) instance(r *Ref)       { r.Tenant = tenantOf(string(t)) }

type startFunc func(*engine.Start)

func (f startFunc) start(s *engine.Start) { f(s) }

// After has the instance begin later, counted from the start by the store's clock.
func After(d time.Duration) StartOption { return startFunc(func(s *engine.Start) { s.After = d }) }

// At has the instance begin at a time.
func At(t time.Time) StartOption { return startFunc(func(s *engine.Start) { s.At = t }) }

// Tag gives the instance a tag, by which instances can be listed.
func Tag(name, value string) StartOption {
	return startFunc(func(s *engine.Start) {
		tags := maps.Clone(s.Tags)
		if tags == nil {
			tags = map[string]string{}
		}
		tags[name] = value
		s.Tags = tags
	})
}

// RejectExisting makes a start fail with [ErrExists] if there is an instance with that
// ID. Without it, a start is idempotent: the instance that is there is the one.
func RejectExisting() StartOption {
	return startFunc(func(s *engine.Start) { s.IfExists = engine.Reject })
}

// ReplaceEnded makes a start replace an instance with that ID which has ended. One that
// has not is the one, as without the option.
func ReplaceEnded() StartOption {
	return startFunc(func(s *engine.Start) { s.IfExists = engine.Replace })
}

// Named gives a timer a name, for people, and for [Client.MoveTimer].
func Named(name string) TimerOption { return namedOption(name) }

type namedOption string

func (n namedOption) timer(o *timerOptions) { o.name = string(n) }

// Timeout is how long to wait for an event. Then the wait ends with [ErrTimeout].
func Timeout(d time.Duration) WaitOption { return timeoutOption(d) }

type timeoutOption time.Duration

func (d timeoutOption) wait(o *waitOptions) { o.timeout = (*time.Duration)(&d) }

type raiseFunc func(*engine.Raise)

func (f raiseFunc) raise(r *engine.Raise) { f(r) }

// IfAwaited has an event dropped unless the instance waits for it when it arrives.
func IfAwaited() RaiseOption { return raiseFunc(func(r *engine.Raise) { r.Awaited = true }) }

// KeepFor is how long an event waits for its instance to be started, if there is none.
// Then it goes to quarantine. Without it, it waits for a week.
func KeepFor(d time.Duration) RaiseOption { return raiseFunc(func(r *engine.Raise) { r.TTL = d }) }

// RetryOption is what [Retry] returns.
type RetryOption struct {
	attempts int
	backoff  time.Duration
	most     time.Duration
	factor   float64
	except   []string
}

// How activities are tried again unless they say otherwise.
const (
	defaultAttempts   = 5
	defaultBackoff    = time.Second
	defaultBackoffMax = time.Minute
	defaultFactor     = 2
)

// Retry is how often an activity or a step is tried; 0 means until it succeeds. Between
// two attempts there is a second, then two, four, … up to a minute; see
// [RetryOption.Backoff]. Each wait has jitter: it is shortened by up to a fifth, so that what
// failed at the same instant is not tried again at the same instant. An activity that says nothing is tried five times, a step once. An attempt
// that takes its process down counts as well, and ten of these in a row fail an activity
// with an [Error] of type abide.Crashed, however many attempts it has.
func Retry(attempts int) RetryOption {
	return RetryOption{attempts: max(attempts, 0), backoff: defaultBackoff, most: defaultBackoffMax, factor: defaultFactor}
}

// Backoff is how long to wait after the first attempt, by what that is multiplied with
// each further one, and the longest to wait. Jitter shortens each wait by up to a fifth: it is
// a hash of what is tried and the number of the attempt, so a replay computes the same.
func (r RetryOption) Backoff(first time.Duration, factor float64, longest time.Duration) RetryOption {
	if !(factor >= 1) { // or it is not a number
		factor = 1
	}
	r.backoff, r.factor, r.most = wholeMillis(first), factor, wholeMillis(longest)
	return r
}

// Except names types of errors (see [Error]) after which it is of no use to try again.
// An error can say that of itself: see [Final].
func (r RetryOption) Except(types ...string) RetryOption {
	r.except = append(slices.Clip(r.except), types...)
	return r
}

func (r RetryOption) activity(o *activityOptions) {
	o.how.MaxAttempts, o.how.Backoff, o.how.BackoffMax = int32(min(r.attempts, 1<<30)), r.backoff, r.most
	o.how.Factor, o.how.Final = r.factor, r.except
}

func (r RetryOption) step(o *activityOptions) { r.activity(o) }

type activityFunc func(*activityOptions)

func (f activityFunc) activity(o *activityOptions) { f(o) }

// StartToClose is how long one attempt of an activity or a step may take; 0 means as long
// as it likes. Then its context ends, and it counts as failed with [ErrTimeout]. A step runs
// inside the turn, so it has to return by itself; if it succeeds in spite of its context, it
// has succeeded.
func StartToClose(d time.Duration) StartToCloseOption { return StartToCloseOption(wholeMillis(d)) }

// StartToCloseOption is what [StartToClose] returns.
type StartToCloseOption time.Duration

func (d StartToCloseOption) activity(o *activityOptions) { o.how.StartToClose = time.Duration(d) }
func (d StartToCloseOption) step(o *activityOptions)     { o.how.StartToClose = time.Duration(d) }

// ScheduleToClose is how long all attempts together may take, with the waits before and
// between them; 0 means as long as they like. Then the activity has failed with
// [ErrTimeout].
func ScheduleToClose(d time.Duration) ActivityOption {
	return activityFunc(func(o *activityOptions) { o.how.ScheduleToClose = wholeMillis(d) })
}

// HeartbeatTimeout is how long an attempt may go without [Heartbeat]. Then it counts as
// failed with [ErrTimeout].
func HeartbeatTimeout(d time.Duration) ActivityOption {
	return activityFunc(func(o *activityOptions) { o.how.Heartbeat = wholeMillis(d) })
}

// wholeMillis returns a duration as it is kept in history: none if it is 0. What is left
// of a time that is up may be negative, and is as short as can be.
func wholeMillis(d time.Duration) time.Duration {
	switch {
	case d == 0:
		return 0
	case d < 0:
		return time.Millisecond
	}
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

type childFunc func(*childOptions)

func (f childFunc) child(o *childOptions) { f(o) }

// OnParentClose is what happens to a child when its parent ends first.
func OnParentClose(policy ClosePolicy) ChildOption {
	return childFunc(func(o *childOptions) { o.how.OnClose = history.OnClose(policy) })
}

// ClosePolicy is what happens to a child when its parent ends first.
type ClosePolicy int

// What can happen to a child.
const (
	CancelChild    = ClosePolicy(history.CancelChild)    // it is asked to end: unless told otherwise
	TerminateChild = ClosePolicy(history.TerminateChild) // it is ended
	AbandonChild   = ClosePolicy(history.AbandonChild)   // it goes on
)
