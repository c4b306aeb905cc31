package abide

import (
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
)

// Limit limits how many activities and instances are under way at the same time, or how many begin in a period,
// over all processes. Declare it as a package variable, and name it where work begins, see [Under]:
//
//	var Stripe = abide.NewLimit("stripe", abide.Concurrency(10), abide.Rate(100, time.Second))
//
//	id, err := Charge.Call(ctx, in, abide.Under(Stripe))
//
// A limit belongs to a tenant: each tenant has its own of that name. Operators can change it, pause it and look
// at what waits while everything runs, see [Client.ChangeLimit].
type Limit struct{ rule history.Limit }

// LimitOption is an option of [NewLimit].
type LimitOption interface{ limit(*history.Limit) }

type limitFunc func(*history.Limit)

func (f limitFunc) limit(l *history.Limit) { f(l) }

// NewLimit returns a limit. It needs a [Concurrency], a [Rate], or both. A limit that is not valid is an error of
// [Orchestration.Start], and stalls the instance that uses it.
//
// The rule that was declared last counts: a deployment that changes it changes the limit, unless an operator
// has set another rule.
func NewLimit(name string, opts ...LimitOption) *Limit {
	l := &Limit{rule: history.Limit{Name: name}}
	for _, opt := range opts {
		opt.limit(&l.rule)
	}
	if l.rule.Rate > 0 && l.rule.Burst == 0 {
		l.rule.Burst = defaultBurst(l.rule.Rate, l.rule.Per)
	}
	return l
}

// defaultBurst returns what a rate brings in a tenth of a second.
func defaultBurst(rate int32, per time.Duration) int32 {
	if per <= 0 {
		return 1
	}
	return int32(max(min(float64(rate)*float64(100*time.Millisecond)/float64(per), float64(rate)), 1))
}

// Name returns the name of the limit.
func (l *Limit) Name() string { return l.rule.Name }

// Concurrency is how many activities or instances may be under way at the same time, at most 10,000. An activity
// is under way from when it is admitted until its attempt ends: while it waits for a retry it is not.
func Concurrency(n int) LimitOption {
	return limitFunc(func(l *history.Limit) { l.Concurrency = clamp(n) })
}

// Rate is how many activities or instances may begin in each period. Attempts count: one that is retried, or
// whose process was lost, begins again.
func Rate(n int, per time.Duration) RateOption { return RateOption{n: n, per: per} }

// RateOption is what [Rate] returns.
type RateOption struct {
	n, burst int
	per      time.Duration
}

// Burst is how many may begin at once after a pause. The default is what the rate brings in a tenth of a second,
// and at least 1. In any time span at most the rate and one burst begin.
func (r RateOption) Burst(n int) RateOption {
	r.burst = n
	return r
}

func (r RateOption) limit(l *history.Limit) {
	l.Rate, l.Per, l.Burst = clamp(r.n), r.per, clamp(r.burst)
	if r.n <= 0 {
		l.Rate = -1 // which is refused
	}
}

// PerKey gives each value of a key a limit of its own, which is made when it is first used and forgotten when it
// is idle: millions of keys cost nothing while they are. See [UnderKey].
func PerKey() LimitOption { return limitFunc(func(l *history.Limit) { l.Keyed = true }) }

// Under runs an activity, an instance or a child under limits. What has to wait holds no slot of a worker, no
// lease and no memory, and begins in the order in which it was scheduled, see [Priority].
//
// An activity leaves its limits when an attempt ends. An instance is under them from its start to its end,
// also while it continues as new; until it is admitted its status is pending. What an
// instance begins under a limit that it is under itself, with the same key, is part of it and not counted again: it
// would wait for a unit that only its own end gives back.
func Under(limits ...*Limit) UnderOption {
	var o UnderOption
	for _, l := range limits {
		o = o.and(l, "")
	}
	return o
}

// UnderKey is [Under] for a key of a limit that has one for each ([PerKey]).
func UnderKey(l *Limit, key string) UnderOption { return UnderOption{}.and(l, key) }

// UnderOption is what [Under] and [UnderKey] return. Several of them add up: work passes all of its limits, at
// most 8, in the order of their names, and so never waits for work that waits for it.
type UnderOption struct{ limits []history.Limit }

func (o UnderOption) and(l *Limit, key string) UnderOption {
	if l == nil {
		l = &Limit{} // which is refused
	}
	rule := l.rule
	rule.Key = key
	o.limits = append(slices.Clip(o.limits), rule)
	return o
}

func (o UnderOption) activity(a *activityOptions) {
	a.how.Limits = append(slices.Clip(a.how.Limits), o.limits...)
}

func (o UnderOption) child(c *childOptions) {
	c.how.Limits = append(slices.Clip(c.how.Limits), o.limits...)
}
func (o UnderOption) start(s *StartRequest) {
	s.Limits = append(slices.Clip(s.Limits), o.limits...)
}

// Priority is the place among what waits for a limit: a higher one goes first. The default is 0, or the priority of
// the instance that calls the activity or starts the child; -100 to 100 are allowed. Each level counts as
// an hour of waiting, so that what has waited for so much longer goes first all the same.
func Priority(p int) PriorityOption { return PriorityOption(p) }

// PriorityOption is what [Priority] returns.
type PriorityOption int

func (p PriorityOption) activity(a *activityOptions) { a.how.Priority = clamp(int(p)) }
func (p PriorityOption) child(c *childOptions)       { c.how.Priority = clamp(int(p)) }
func (p PriorityOption) start(s *StartRequest)       { s.Priority = int(p) }

// checkLimits stalls the instance if the limits of what its code begins are not valid.
func (ctx Context) checkLimits(what, name string, limits []history.Limit, priority int32) {
	if err := engine.CheckLimits(limits, priority); err != nil {
		ctx.c.Stall(fmt.Errorf("abide: %s %q: %w", what, name, err))
	}
}
