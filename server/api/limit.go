package api

import (
	"fmt"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
)

// LimitRule is what a limit allows.
type LimitRule struct {
	Concurrency int      `json:"concurrency,omitempty" minimum:"0" maximum:"10000" doc:"How many may be under way at the same time; any number without it."`
	Rate        int      `json:"rate,omitempty" minimum:"0" maximum:"1000000" doc:"How many may begin in each period; any number without it."`
	Per         Duration `json:"per,omitempty" doc:"The period of the rate, such as 1s."`
	Burst       int      `json:"burst,omitempty" minimum:"0" maximum:"1000000" doc:"How many may begin at once after a pause; what the rate brings in a tenth of a second without it."`
}

// Limit is the current state of a limit.
type Limit struct {
	Tenant    string     `json:"tenant"`
	Name      string     `json:"name"`
	PerKey    bool       `json:"per_key,omitempty" doc:"Each key has a limit of its own."`
	Declared  *LimitRule `json:"declared,omitempty" doc:"The rule that code has declared last; not there if none has."`
	Set       *LimitRule `json:"set,omitempty" doc:"The rule that an operator has set instead; not there if none has."`
	Paused    bool       `json:"paused,omitempty" doc:"Nothing begins."`
	ChangedAt time.Time  `json:"changed_at,omitzero" doc:"When an operator has changed it."`
	ChangedBy string     `json:"changed_by,omitempty" doc:"Which one."`
	InUse     int        `json:"in_use" doc:"How many are under way: of a limit with keys, of the keys that were looked at."`
	Waiting   int        `json:"waiting" doc:"How many wait."`
	Admitted  int64      `json:"admitted" doc:"How many have begun: of a key, since it was last idle."`
	More      bool       `json:"more,omitempty" doc:"There are more keys in use than were looked at."`
	Keys      []LimitKey `json:"keys,omitempty" doc:"The keys in use with the most waiting, or the limit itself, with an empty key, if it has none."`
	Revision  int64      `json:"revision" doc:"Changes with what is declared, set or paused. It is the ETag."`
}

// LimitKey is the state of one key of a limit.
type LimitKey struct {
	Key      string    `json:"key"`
	InUse    int       `json:"in_use"`
	Waiting  int       `json:"waiting"`
	Admitted int64     `json:"admitted"`
	Oldest   time.Time `json:"oldest,omitzero" doc:"Since when what begins next has waited; not there if nothing waits."`
}

// LimitList is all limits of a tenant.
type LimitList struct {
	Limits []Limit `json:"limits"`
}

// LimitChange is what is to be changed about a limit. What it does not have stays as it is.
type LimitChange struct {
	Set    *LimitRule `json:"set,omitempty" doc:"The rule that replaces the one that code declares. It makes the limit if there is none."`
	PerKey bool       `json:"per_key,omitempty" doc:"With set: each key has a limit of its own. It cannot be changed of a limit that exists."`
	Unset  bool       `json:"unset,omitempty" doc:"Go back to the rule that code declares. A limit that no code has declared is deleted."`
	Paused *bool      `json:"paused,omitempty" doc:"Whether nothing begins."`
}

// InstanceLimit is a limit under which an instance runs.
type InstanceLimit struct {
	Name   string `json:"name" minLength:"1" doc:"The name of the limit."`
	PerKey bool   `json:"per_key,omitempty" doc:"Each key has a limit of its own."`
	Key    string `json:"key,omitempty" doc:"The key of the instance."`

	LimitRule
}

// LimitWait says for which limit something waits.
type LimitWait struct {
	Limit string    `json:"limit" doc:"The name of the limit."`
	Key   string    `json:"key,omitempty" doc:"The key, if each has a limit of its own."`
	Since time.Time `json:"since" doc:"When it began to wait."`
	Ahead int       `json:"ahead" doc:"How many are before it; counting stops at 10,000."`
}

// FromLimit returns a limit for the wire.
func FromLimit(l *abide.LimitInfo) Limit {
	out := Limit{
		Tenant: l.Tenant, Name: l.Name, PerKey: l.PerKey, Declared: fromRule(l.Declared), Set: fromRule(l.Set), Paused: l.Paused, ChangedAt: l.ChangedAt,
		ChangedBy: l.ChangedBy, InUse: l.InUse, Waiting: l.Waiting, Admitted: l.Admitted, More: l.More, Revision: l.Revision,
	}
	for _, k := range l.Keys {
		out.Keys = append(out.Keys, LimitKey(k))
	}
	return out
}

// Limit is the inverse of [FromLimit].
func (l *Limit) Limit() abide.LimitInfo {
	out := abide.LimitInfo{
		Tenant: l.Tenant, Name: l.Name, PerKey: l.PerKey, Declared: l.Declared.rule(), Set: l.Set.rule(), Paused: l.Paused, ChangedAt: l.ChangedAt,
		ChangedBy: l.ChangedBy, InUse: l.InUse, Waiting: l.Waiting, Admitted: l.Admitted, More: l.More, Revision: l.Revision,
	}
	for _, k := range l.Keys {
		out.Keys = append(out.Keys, abide.LimitKey(k))
	}
	return out
}

func fromRule(r *abide.LimitRule) *LimitRule {
	if r == nil {
		return nil
	}
	return &LimitRule{Concurrency: r.Concurrency, Rate: r.Rate, Per: Duration(r.Per), Burst: r.Burst}
}

func (r *LimitRule) rule() *abide.LimitRule {
	if r == nil {
		return nil
	}
	return &abide.LimitRule{Concurrency: r.Concurrency, Rate: r.Rate, Per: time.Duration(r.Per), Burst: r.Burst}
}

// FromLimitChange returns a change of a limit for the wire, without its revision, which is sent as If-Match.
func FromLimitChange(c abide.LimitChange) LimitChange {
	return LimitChange{Set: fromRule(c.Set), PerKey: c.PerKey, Unset: c.Unset, Paused: c.Paused}
}

// LimitChange is the inverse of [FromLimitChange].
func (c *LimitChange) LimitChange() abide.LimitChange {
	return abide.LimitChange{Set: c.Set.rule(), PerKey: c.PerKey, Unset: c.Unset, Paused: c.Paused}
}

// FromInstanceLimits returns limits of an instance for the wire.
func FromInstanceLimits(limits []history.Limit) []InstanceLimit {
	var out []InstanceLimit
	for _, l := range limits {
		out = append(out, InstanceLimit{
			Name: l.Name, PerKey: l.Keyed, Key: l.Key,
			LimitRule: LimitRule{Concurrency: int(l.Concurrency), Rate: int(l.Rate), Per: Duration(l.Per), Burst: int(l.Burst)},
		})
	}
	return out
}

// InstanceLimits is the inverse of [FromInstanceLimits].
func InstanceLimits(limits []InstanceLimit) []history.Limit {
	var out []history.Limit
	for i := range limits {
		l := &limits[i]
		out = append(out, history.Limit{
			Name: l.Name, Keyed: l.PerKey, Key: l.Key,
			Concurrency: int32(l.Concurrency), Rate: int32(l.Rate), Per: time.Duration(l.Per), Burst: int32(l.Burst),
		})
	}
	return out
}

// Under returns the option of a start under the limit, with the burst that a declaration in code has. The error
// matches [abide.ErrInvalid] if there is a period or a burst without a rate.
func (l *InstanceLimit) Under() (abide.UnderOption, error) {
	var opts []abide.LimitOption
	if l.PerKey {
		opts = append(opts, abide.PerKey())
	}
	if l.Concurrency != 0 {
		opts = append(opts, abide.Concurrency(l.Concurrency))
	}
	switch {
	case l.Rate != 0:
		opts = append(opts, abide.Rate(l.Rate, time.Duration(l.Per)).Burst(l.Burst))
	case l.Per != 0 || l.Burst != 0:
		return abide.UnderOption{}, fmt.Errorf("limit %q: a period or a burst without a rate: %w", l.Name, abide.ErrInvalid)
	}
	return abide.UnderKey(abide.NewLimit(l.Name, opts...), l.Key), nil
}
