package history

import "fmt"

// Validate returns an error that matches [ErrInvalid] if the kind is unknown, or if a field is
// missing that events of the kind must have.
func (e *Event) Validate() error {
	missing := func(field string) error { return fmt.Errorf("%v has no %s: %w", e.Kind, field, ErrInvalid) }
	if e.Kind == 0 {
		return fmt.Errorf("no kind: %w", ErrInvalid)
	}
	if !e.Kind.Known() {
		return fmt.Errorf("unknown kind %d: %w", int32(e.Kind), ErrInvalid)
	}
	switch e.Kind {
	case ActivityCompleted, ActivityFailed, ActivityCancelled,
		TimerFired, TimerCancelled, TimerMoved, TimerMoveReceived,
		ChildCompleted, ChildFailed, ChildCancelled,
		EntityCompleted, EntityFailed, EntityLocked, EntityUnlocked:
		if e.Ref == 0 {
			return missing("ref")
		}
	case ExecutionStarted, ExecutionContinued:
		if e.Start == nil {
			return missing("start")
		}
	case ActivityScheduled:
		if e.Activity == nil {
			return missing("activity")
		}
	case ChildStarted, DetachedStarted:
		if e.Child == nil {
			return missing("child")
		}
	case EntityCalled, EntitySignaled:
		if e.Target == "" {
			return missing("target")
		}
	}
	switch e.Kind {
	case PayloadCorrected:
		if e.Ref == 0 && e.Target == "" {
			return missing("ref or target")
		}
	case ActivityFailed, ChildFailed, EntityFailed, StepFailed, ExecutionFailed:
		if e.Failure == nil {
			return missing("failure")
		}
	case TurnStarted:
		if e.At.IsZero() {
			return missing("at")
		}
	}
	return nil
}
