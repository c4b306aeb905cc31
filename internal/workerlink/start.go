package workerlink

import (
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/workerpb"
)

// Revision is what this release says in Welcome.revision. RevisionLimits is the first one of servers that know limits
// and priorities of starts, activities and children, and RevisionCaps that of servers that know caps of activities.
const (
	Revision       = 2
	RevisionLimits = 1
	RevisionCaps   = 2
)

// EncodeStart returns a start for the wire.
func EncodeStart(s *engine.Start) *workerpb.Start {
	m := &workerpb.Start{
		Tenant: s.Tenant, Id: s.ID, Name: s.Name, Version: s.Version, Input: s.Input, Tags: s.Tags, AtUs: Micros(s.At), AfterUs: s.After.Microseconds(),
		IfExists: EncodeIfExists(s), ReplaceIf: EncodeStatuses(s.Replaceable), Unchecked: s.Unchecked, NewId: s.New, Priority: s.Priority,
	}
	if len(s.Limits) > 0 {
		m.Limits = history.Append(nil, &history.Event{Kind: history.ActivityScheduled, Activity: &history.Activity{Limits: s.Limits}})
	}
	return m
}

// DecodeStart returns a start that has travelled.
func DecodeStart(s *workerpb.Start) (engine.Start, error) {
	start := engine.Start{
		Ref: engine.Ref{Tenant: s.GetTenant(), ID: s.GetId()}, Name: s.GetName(), Version: s.GetVersion(), Input: s.GetInput(), Tags: s.GetTags(),
		At: Time(s.GetAtUs()), After: time.Duration(s.GetAfterUs()) * time.Microsecond, IfExists: engine.IfExists(s.GetIfExists()),
		Unchecked: s.GetUnchecked(), New: s.GetNewId(), Priority: s.GetPriority(), Replaceable: decodeStatuses(s.GetReplaceIf()),
	}
	if len(s.GetLimits()) == 0 {
		return start, nil
	}
	e, err := history.Parse(s.GetLimits())
	if err != nil {
		return start, fmt.Errorf("limits of %v: %w", start.Ref, outdated(err))
	}
	if e.Activity == nil || len(e.Activity.Limits) == 0 {
		return start, fmt.Errorf("limits of %v: an event without limits: %w", start.Ref, engine.ErrInvalid)
	}
	start.Limits = e.Activity.Limits
	return start, nil
}

var errNoLimits = errors.New("the server is of an earlier release, which knows no limits and priorities and would ignore them: update the server")

// CheckStarts reports whether a server of a revision knows all that starts have. The error matches
// [engine.ErrOutdated].
func CheckStarts(revision uint32, starts []*workerpb.Start) error {
	for _, s := range starts {
		if revision < RevisionLimits && (len(s.GetLimits()) > 0 || s.GetPriority() != 0) {
			return fmt.Errorf("start of %q: %w: %w", s.GetName(), errNoLimits, engine.ErrOutdated)
		}
	}
	return nil
}

// CheckEvents is [CheckStarts] for what code has scheduled.
func CheckEvents(revision uint32, events []history.Event) error {
	if revision >= RevisionLimits {
		return nil
	}
	for i := range events {
		e := &events[i]
		activity, child := e.Activity, e.Child
		if activity != nil && (len(activity.Limits) > 0 || activity.Priority != 0) || child != nil && (len(child.Limits) > 0 || child.Priority != 0) {
			return fmt.Errorf("%v %q: %w: %w", e.Kind, e.Name, errNoLimits, engine.ErrOutdated)
		}
	}
	return nil
}
