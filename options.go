package abide

import (
	"maps"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
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
type StartOption interface{ start(*StartRequest) }

// TimerOption is an option of a timer.
type TimerOption interface{ timer(*timerOptions) }

// WaitOption is an option of [Event.Wait].
type WaitOption interface{ wait(*waitOptions) }

// RaiseOption is an option of [Event.Raise].
type RaiseOption interface{ raise(*RaiseRequest) }

// InstanceOption is an option of [Orchestration.Instance].
type InstanceOption interface{ instance(*Ref) }

type (
	registerOptions struct {
		version string
		builds  BuildPolicy
	}
	activityOptions struct{ how history.Activity }
	timerOptions    struct{ name string }
	waitOptions     struct {
		timeout *time.Duration
		invalid bool
	}
	childOptions struct {
		id  string
		how history.Child
	}
)

// Version sets the version of an orchestration. An instance keeps the version with which it was
// started: register the old version beside the new one as long as it has instances.
func Version(v string) VersionOption { return VersionOption(v) }

// VersionOption is what [Version] returns.
type VersionOption string

func (v VersionOption) register(o *registerOptions) { o.version = string(v) }
func (v VersionOption) continued(o *continueOptions) {
	o.version = (*string)(&v)
}

// BuildPolicy says which builds of a program, see [Config.Build], run the turns of an orchestration's instances.
type BuildPolicy int

const (
	// Follow has any worker that serves the orchestration run the next turn of an instance: after a
	// deployment, instances that run go on with the new code. It is the default.
	Follow = BuildPolicy(engine.Follow)

	// Pinned has all turns of an instance run by workers of the build that ran the first one, also after
	// [ContinueAsNew]. If there is no such worker the instance waits for one.
	Pinned = BuildPolicy(engine.Pinned)

	// PinnedUntilContinue has all turns of an execution run by workers of the build that ran its first
	// one. After [ContinueAsNew] the instance goes on with the build that a new instance would have.
	PinnedUntilContinue = BuildPolicy(engine.PinnedUntilContinue)
)

// Builds sets which builds run the turns of an orchestration's instances. Code of an orchestration that is
// pinned can change without regard to instances that have begun; their build has to be kept running until they
// have ended. A program that pins needs a build, see [Config.Build].
func Builds(p BuildPolicy) RegisterOption { return buildsOption(p) }

type buildsOption BuildPolicy

func (p buildsOption) register(o *registerOptions) { o.builds = BuildPolicy(p) }

// ID sets the ID of the instance that is started; the default is a random one. For an event it
// is a deduplication ID: a second raise with the same ID is ignored until the first has been
// received by its instance.
func ID(id string) IDOption { return IDOption(id) }

// IDOption is what [ID] returns.
type IDOption string

func (id IDOption) start(s *StartRequest) { s.Ref.ID = string(id) }
func (id IDOption) child(o *childOptions) { o.id = string(id) }
func (id IDOption) raise(r *RaiseRequest) { r.ID = string(id) }

// Tenant sets the tenant. The default is [DefaultTenant].
func Tenant(t string) TenantOption { return TenantOption(t) }

// TenantOption is what [Tenant] returns.
type TenantOption string

func (t TenantOption) start(s *StartRequest) { s.Ref.Tenant = string(t) }
func (t TenantOption) raise(r *RaiseRequest) { r.Ref.Tenant = string(t) }
func (t TenantOption) instance(r *Ref)       { r.Tenant = string(t) }

type startFunc func(*StartRequest)

func (f startFunc) start(s *StartRequest) { f(s) }

// StartAfter delays the first turn of the instance, counted from its start by the store's clock.
func StartAfter(d time.Duration) StartOption { return startFunc(func(s *StartRequest) { s.After = d }) }

// StartAt delays the first turn of the instance until a time.
func StartAt(t time.Time) StartOption { return startFunc(func(s *StartRequest) { s.At = t }) }

// Tag adds a tag to the instance. Instances can be listed by tag, see [Filter].
func Tag(name, value string) StartOption {
	return startFunc(func(s *StartRequest) {
		tags := maps.Clone(s.Tags)
		if tags == nil {
			tags = map[string]string{}
		}
		tags[name] = value
		s.Tags = tags
	})
}

// RejectExisting makes Start return [ErrExists] if an instance with that ID exists. Without it
// Start is idempotent: it returns the existing instance.
func RejectExisting() StartOption {
	return startFunc(func(s *StartRequest) { s.IfExists = ExistsReject })
}

// ReplaceEnded makes Start replace an instance with that ID if it has ended. If the existing
// instance has not ended, Start returns it unchanged.
func ReplaceEnded() StartOption {
	return startFunc(func(s *StartRequest) { s.IfExists = ExistsReplace })
}

// ReplaceIf makes Start replace an instance with that ID if its status is one of these, and return
// [ErrExists] otherwise. If the existing instance has not ended, it is terminated in the commit of the
// start: its activities, timers and pending events are dropped, the close policies of its children
// apply, and a parent that waits for it gets a failure. The ended history is deleted.
func ReplaceIf(statuses ...Status) StartOption {
	return startFunc(func(s *StartRequest) { s.IfExists, s.ReplaceIf = ExistsReject, slices.Clone(statuses) })
}

// Named sets the name of a timer, which is shown and used by [Client.MoveTimer].
func Named(name string) TimerOption { return namedOption(name) }

type namedOption string

func (n namedOption) timer(o *timerOptions) { o.name = string(n) }

// Timeout limits how long [Event.Wait] waits. After that it returns [ErrTimeout].
func Timeout(d time.Duration) WaitOption { return timeoutOption(d) }

type timeoutOption time.Duration

func (d timeoutOption) wait(o *waitOptions) { o.timeout = (*time.Duration)(&d) }

// InvalidAsError makes [Event.Wait] return an error that matches [ErrInvalidPayload] if the payload of
// the event does not fit its type. The event is received then, and a second Wait waits for the next.
// Without it the instance stalls until an operator corrects the payload.
func InvalidAsError() WaitOption { return invalidOption{} }

type invalidOption struct{}

func (invalidOption) wait(o *waitOptions) { o.invalid = true }

// Unchecked starts an orchestration, or raises an event, without comparing it with what workers have
// published: the orchestration may be one that no worker has registered yet, and the payload any. An
// event is raised without looking at the instance, so it is dropped if that has ended.
func Unchecked() UncheckedOption { return UncheckedOption{} }

// UncheckedOption is what [Unchecked] returns.
type UncheckedOption struct{}

func (UncheckedOption) start(s *StartRequest) { s.Unchecked = true }
func (UncheckedOption) raise(r *RaiseRequest) { r.Unchecked = true }

type raiseFunc func(*RaiseRequest)

func (f raiseFunc) raise(r *RaiseRequest) { f(r) }

// IfAwaited drops the event unless the instance waits for it when it arrives.
func IfAwaited() RaiseOption { return raiseFunc(func(r *RaiseRequest) { r.IfAwaited = true }) }

// MustExist makes Raise return [ErrNotFound] if the instance does not exist, instead of keeping the
// event until it is started.
func MustExist() RaiseOption { return raiseFunc(func(r *RaiseRequest) { r.MustExist = true }) }

// IgnoreEnded makes Raise drop the event if the instance has ended, instead of returning [ErrState].
func IgnoreEnded() RaiseOption { return raiseFunc(func(r *RaiseRequest) { r.IgnoreEnded = true }) }

// KeepFor sets how long an event is kept for an instance that does not exist yet. After that it
// goes to quarantine. The default is a week.
func KeepFor(d time.Duration) RaiseOption { return raiseFunc(func(r *RaiseRequest) { r.KeepFor = d }) }

// RetryOption is what [Retry] returns.
type RetryOption struct {
	attempts int
	backoff  time.Duration
	most     time.Duration
	factor   float64
	except   []string
}

// The default retry policy of activities.
const (
	defaultAttempts   = 5
	defaultBackoff    = time.Second
	defaultBackoffMax = time.Minute
	defaultFactor     = 2
)

// Retry sets the number of attempts of an activity or a step; 0 means no limit. The default is
// five attempts for an activity and one for a step. The delay between attempts is a second and
// doubles up to a minute, see [RetryOption.Backoff]. Jitter shortens each delay by up to a fifth,
// so that attempts that failed together are not repeated together.
//
// An attempt whose process crashed counts. Ten crashes in a row fail an activity with an [Error]
// of type abide.Crashed, whatever the number of attempts.
func Retry(attempts int) RetryOption {
	return RetryOption{attempts: max(attempts, 0), backoff: defaultBackoff, most: defaultBackoffMax, factor: defaultFactor}
}

// Backoff sets the delay after the first attempt, the factor by which it grows with each further
// attempt, and the longest delay. The jitter is a hash of the call and the number of the
// attempt, so that a replay computes the same delay.
func (r RetryOption) Backoff(first time.Duration, factor float64, longest time.Duration) RetryOption {
	if !(factor >= 1) { // or it is not a number
		factor = 1
	}
	r.backoff, r.factor, r.most = wholeMillis(first), factor, wholeMillis(longest)
	return r
}

// Except names the types of errors, see [Error], that are not retried. See [Final] for single
// errors.
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

// StartToClose limits the duration of one attempt of an activity or a step; 0 means no limit.
// When it is over, the context of the attempt ends, and the attempt fails with [ErrTimeout]. A
// step runs inside the turn, which waits until its function returns; a step that returns no
// error after the end of its context has succeeded.
func StartToClose(d time.Duration) StartToCloseOption { return StartToCloseOption(wholeMillis(d)) }

// StartToCloseOption is what [StartToClose] returns.
type StartToCloseOption time.Duration

func (d StartToCloseOption) activity(o *activityOptions) { o.how.StartToClose = time.Duration(d) }
func (d StartToCloseOption) step(o *activityOptions)     { o.how.StartToClose = time.Duration(d) }

// ScheduleToClose limits the total duration of an activity, with the time in the queue, all
// attempts and the delays between them; 0 means no limit. When it is over, the activity fails
// with [ErrTimeout].
func ScheduleToClose(d time.Duration) ActivityOption {
	return activityFunc(func(o *activityOptions) { o.how.ScheduleToClose = wholeMillis(d) })
}

// HeartbeatTimeout limits the time between two calls of [Heartbeat]. When it is over, the attempt
// fails with [ErrTimeout].
func HeartbeatTimeout(d time.Duration) ActivityOption {
	return activityFunc(func(o *activityOptions) { o.how.Heartbeat = wholeMillis(d) })
}

// wholeMillis rounds a duration up to the resolution of history. A negative duration, such as
// the rest of a deadline that has passed, becomes the shortest one.
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

// OnParentClose sets what happens to a child whose parent ends first.
func OnParentClose(policy ClosePolicy) ChildOption {
	return childFunc(func(o *childOptions) { o.how.OnClose = policy })
}

// ClosePolicy determines what happens to a child whose parent ends first.
type ClosePolicy = history.ClosePolicy

// Close policies.
const (
	CancelChild    = history.CancelChild    // cancel the child, the default
	TerminateChild = history.TerminateChild // terminate the child
	AbandonChild   = history.AbandonChild   // let the child run
)
