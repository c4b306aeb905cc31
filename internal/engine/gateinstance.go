package engine

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// Limits of limits.
const (
	// MaxLimits is the largest number of limits of an activity or an instance.
	MaxLimits = 8

	// MaxConcurrency is the largest concurrency of a limit: the record of its gate names what is under way.
	MaxConcurrency = 10_000

	// MaxRate is the largest number of a rate and of its burst, and MaxPer the longest period.
	MaxRate = 1_000_000
	MaxPer  = 366 * 24 * time.Hour

	// MaxLimitKey is the largest length of the key of a keyed limit, in bytes.
	MaxLimitKey = 512

	// MaxPriority is the highest priority, and minPriority the lowest.
	MaxPriority = 100
	minPriority = -MaxPriority
)

// CheckLimits reports whether an activity or an instance can have these limits and that priority.
func CheckLimits(limits []history.Limit, priority int32) error {
	if len(limits) > MaxLimits {
		return fmt.Errorf("abide: %d limits, at most %d are allowed: %w", len(limits), MaxLimits, ErrInvalid)
	}
	if priority < minPriority || priority > MaxPriority {
		return fmt.Errorf("abide: priority %d, %d to %d are allowed: %w", priority, minPriority, MaxPriority, ErrInvalid)
	}
	for i := range limits {
		if err := CheckLimit(&limits[i]); err != nil {
			return err
		}
	}
	return nil
}

// CheckLimit reports whether a limit and its key are valid.
func CheckLimit(l *history.Limit) error {
	if err := CheckLimitName(l.Name); err != nil {
		return err
	}
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("abide: limit %q: %s: %w", l.Name, fmt.Sprintf(format, args...), ErrInvalid)
	}
	switch {
	case l.Keyed && l.Key == "":
		return invalid("it has one for each key, and there is no key")
	case !l.Keyed && l.Key != "":
		return invalid("it has no keys, and there is the key %q", l.Key)
	case len(l.Key) > MaxLimitKey:
		return invalid("its key has %d bytes, at most %d are allowed", len(l.Key), MaxLimitKey)
	case !utf8.ValidString(l.Key):
		return invalid("its key %q is not UTF-8", l.Key)
	}
	return CheckRule(l)
}

// CheckLimitName reports whether a limit can have that name.
func CheckLimitName(name string) error {
	if err := checkName("limit", name); err != nil {
		return err
	}
	for _, r := range name {
		if r == '/' {
			return fmt.Errorf("abide: the name of a limit, %q, has a slash, which is not allowed: %w", name, ErrInvalid)
		}
	}
	return nil
}

// CheckRule reports whether a limit can have that concurrency and rate.
func CheckRule(l *history.Limit) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("abide: limit %q: %s: %w", l.Name, fmt.Sprintf(format, args...), ErrInvalid)
	}
	switch {
	case l.Concurrency < 0 || l.Concurrency > MaxConcurrency:
		return invalid("a concurrency of %d, 1 to %d are allowed", l.Concurrency, MaxConcurrency)
	case l.Rate < 0 || l.Rate > MaxRate:
		return invalid("a rate of %d, 1 to %d are allowed", l.Rate, MaxRate)
	case l.Rate > 0 && (l.Per < time.Millisecond || l.Per > MaxPer):
		return invalid("a rate of %d in %v, a millisecond to %v are allowed", l.Rate, l.Per, MaxPer)
	case l.Rate == 0 && (l.Per != 0 || l.Burst != 0):
		return invalid("a period or a burst without a rate")
	case l.Burst < 0 || l.Burst > MaxRate:
		return invalid("a burst of %d, 1 to %d are allowed", l.Burst, MaxRate)
	case l.Concurrency == 0 && l.Rate == 0:
		return invalid("it has neither a concurrency nor a rate")
	}
	return nil
}

// limited reports whether the instance waits for a limit.
func (i *Info) limited() bool { return len(i.Limits) > 0 && !i.Admitted && !i.Status.Ended() }

// covers reports whether the instance, or one that waits for it, is under a limit already. Its activities and
// children are not counted again: they would wait for a unit that only their own end gives back.
func (i *Info) covers(l history.Limit) bool {
	gate := gateName(&l)
	return slices.Contains(i.covered, gate) || slices.ContainsFunc(i.Limits, func(own history.Limit) bool { return gateName(&own) == gate })
}

// uncovered returns the options of an activity without limits that the instance covers.
func (i *Info) uncovered(a *history.Activity) *history.Activity {
	if !slices.ContainsFunc(a.Limits, i.covers) {
		return a
	}
	rest := *a
	rest.Limits = slices.DeleteFunc(slices.Clone(a.Limits), i.covers)
	return &rest
}

// coverChild has a child that the instance waits for run under the limits of the instance too.
func (i *Info) coverChild(child *Info) {
	child.Limits = slices.DeleteFunc(slices.Clone(child.Limits), i.covers)
	child.covered = slices.Clone(i.covered)
	for l := range i.Limits {
		child.covered = append(child.covered, gateName(&i.Limits[l]))
	}
}

func (i *Info) appendLimits(out []byte) []byte {
	out = wire.AppendNumber(out, uint64(i.Priority-minPriority))
	out = wire.AppendFlag(out, i.Admitted)
	out = wire.AppendNumber(out, i.workRun)
	out = wire.AppendString(out, encodeLimits(i.Limits))
	return wire.AppendStrings(out, i.covered)
}

func (i *Info) decodeLimits(data []byte) error {
	r := read(data)
	i.Priority = int32(r.Number()) + minPriority
	i.Admitted, i.workRun = r.Flag(), r.Number()
	i.Limits = r.limits()
	i.covered = wire.Strings[string](&r.Reader)
	return r.Err
}

// enterLimits returns the message by which an instance that is started enters its limits, at a time.
func (i *Info) enterLimits(at time.Time) store.Message {
	since := i.CreatedAt
	if at.After(since) {
		since = at
	}
	return enter(i.Tenant, instanceWork(i), 0, i.Limits, i.Priority, since, at, store.Message{
		Key: i.Ref.control(), ID: idAdmit, Route: routeControl, Body: (&body{kind: bodyAdmit, run: i.run}).encode(),
	})
}

// leaveLimits adds to a transaction that the instance has ended, or does not wait any more.
func (i *Info) leaveLimits(tx *store.Tx) {
	switch {
	case len(i.Limits) == 0 || i.Status.Ended():
	case i.Admitted:
		leave(tx, i.Tenant, instanceWork(i), 0, i.Limits)
	default:
		withdraw(tx, i.Tenant, instanceWork(i), i.Limits, store.MessageRef{})
	}
}
