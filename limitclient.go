package abide

import (
	"cmp"
	"context"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
)

// LimitRule is what a limit allows.
type LimitRule struct {
	// Concurrency is how many may be under way at the same time, 0 for any number.
	Concurrency int

	// Rate is how many may begin in each Per, 0 for any number, and Burst how many at once; 0 means the default,
	// see [RateOption.Burst].
	Rate  int
	Per   time.Duration
	Burst int
}

// LimitInfo is the current state of a limit in a tenant.
type LimitInfo struct {
	Tenant string
	Name   string

	// PerKey is true if each key has a limit of its own.
	PerKey bool

	// Declared is the rule that code has declared last, nil if none has, and Set the rule that an operator has set
	// instead, nil if none has.
	Declared *LimitRule
	Set      *LimitRule

	// Paused is true if nothing begins.
	Paused bool

	// ChangedAt and ChangedBy say when an operator has changed the limit, and which one.
	ChangedAt time.Time
	ChangedBy string

	// InUse is how many are under way, and Waiting how many wait: for a limit with keys, of the keys that were
	// looked at, and More is true if there are others. Admitted counts how many have begun: under a limit
	// with keys, since each of them was last idle.
	InUse    int
	Waiting  int
	Admitted int64
	More     bool

	// Revision changes with what is declared, set or paused, see [LimitChange.Revision].
	Revision int64

	// Keys has the keys in use with the most waiting, or the limit itself, with an empty key, if it has none.
	Keys []LimitKey
}

// Rule returns the rule that counts.
func (i *LimitInfo) Rule() LimitRule {
	switch {
	case i.Set != nil:
		return *i.Set
	case i.Declared != nil:
		return *i.Declared
	}
	return LimitRule{}
}

// LimitKey is the state of one key of a limit.
type LimitKey struct {
	Key      string
	InUse    int
	Waiting  int
	Admitted int64

	// Oldest is since when what begins next has waited; zero if nothing waits.
	Oldest time.Time
}

// LimitChange is what [Client.ChangeLimit] changes.
type LimitChange struct {
	// Set replaces the rule that code declares, and makes the limit if there is none; PerKey says of such a one
	// whether each key has its own. Unset goes back to the rule of the code; a limit that no code has declared
	// is deleted then.
	Set    *LimitRule
	PerKey bool
	Unset  bool

	// Paused, if it is not nil, pauses the limit or ends that.
	Paused *bool

	// Revision, if it is not 0, is the revision that the limit must have: if it was changed meanwhile, nothing is
	// changed, and the error is [ErrConflict].
	Revision int64
}

// LimitWait says for which limit something waits.
type LimitWait struct {
	Limit string
	Key   string

	// Since is when it began to wait, and Ahead how many are before it; counting stops at 10,000.
	Since time.Time
	Ahead int
}

// LimitTransport is what a [Transport] offers for limits. The transports of [Engine], [NewClient] and
// package remote implement it; over one that does not, the methods of [Client] for limits return [errors.ErrUnsupported].
type LimitTransport interface {
	// Limits returns the limits of a tenant, by name.
	Limits(ctx context.Context, tenant string) ([]LimitInfo, error)

	// Limit returns a limit of a tenant, or [ErrNotFound].
	Limit(ctx context.Context, tenant, name string) (LimitInfo, error)

	// ChangeLimit changes a limit of a tenant.
	ChangeLimit(ctx context.Context, tenant, name string, change LimitChange) (LimitInfo, error)
}

func (c *Client) limits(call string) (LimitTransport, error) {
	t, ok := c.transport.(LimitTransport)
	if !ok {
		return nil, unsupported(call)
	}
	return t, nil
}

// Limits returns the limits of a tenant, by name. A limit is there from when work was first scheduled under it, or
// when an operator has made it.
func (c *Client) Limits(ctx context.Context, tenant string) ([]LimitInfo, error) {
	t, err := c.limits("limits")
	if err != nil {
		return nil, err
	}
	return t.Limits(ctx, cmp.Or(tenant, DefaultTenant))
}

// Limit returns a limit of a tenant, or [ErrNotFound].
func (c *Client) Limit(ctx context.Context, tenant, name string) (LimitInfo, error) {
	t, err := c.limits("limit")
	if err != nil {
		return LimitInfo{}, err
	}
	return t.Limit(ctx, cmp.Or(tenant, DefaultTenant), name)
}

// ChangeLimit changes a limit of a tenant for all processes, within a second. What is under way goes on: a limit that
// is lowered drains, and one that is raised admits what waits at once. It returns [ErrNotFound] if there is no
// such limit and change does not set a rule.
func (c *Client) ChangeLimit(ctx context.Context, tenant, name string, change LimitChange) (LimitInfo, error) {
	t, err := c.limits("change limit")
	if err != nil {
		return LimitInfo{}, err
	}
	return t.ChangeLimit(ctx, cmp.Or(tenant, DefaultTenant), name, change)
}

var _ LimitTransport = (*storeTransport)(nil)

func (t *storeTransport) Limits(ctx context.Context, tenant string) ([]LimitInfo, error) {
	list, err := t.client.Limits(ctx, storedTenant(tenant))
	if err != nil {
		return nil, err
	}
	limits := make([]LimitInfo, len(list))
	for i := range list {
		limits[i] = limitFrom(&list[i])
	}
	return limits, nil
}

func (t *storeTransport) Limit(ctx context.Context, tenant, name string) (LimitInfo, error) {
	info, err := t.client.GetLimit(ctx, storedTenant(tenant), name)
	if err != nil {
		return LimitInfo{}, err
	}
	return limitFrom(&info), nil
}

func (t *storeTransport) ChangeLimit(ctx context.Context, tenant, name string, change LimitChange) (LimitInfo, error) {
	c := engine.LimitChange{Unset: change.Unset, Paused: change.Paused, Revision: change.Revision}
	if r := change.Set; r != nil {
		c.Set = &history.Limit{Keyed: change.PerKey, Concurrency: clamp(r.Concurrency), Rate: clamp(r.Rate), Per: r.Per, Burst: clamp(r.Burst)}
		if r.Rate > 0 && r.Burst == 0 {
			c.Set.Burst = defaultBurst(c.Set.Rate, r.Per)
		}
	}
	info, err := t.client.ChangeLimit(ctx, storedTenant(tenant), name, c)
	if err != nil {
		return LimitInfo{}, err
	}
	return limitFrom(&info), nil
}

func limitFrom(l *engine.LimitInfo) LimitInfo {
	info := LimitInfo{
		Tenant: refFrom(engine.Ref{Tenant: l.Tenant}).Tenant, Name: l.Name, PerKey: l.Keyed, Declared: ruleFrom(l.Declared), Set: ruleFrom(l.Set), Paused: l.Paused,
		ChangedAt: l.ChangedAt, ChangedBy: l.By, InUse: l.InUse, Waiting: l.Waiting, Admitted: l.Admitted, More: l.More, Revision: l.Revision,
	}
	for _, g := range l.Gates {
		info.Keys = append(info.Keys, LimitKey(g))
	}
	return info
}

func ruleFrom(l *history.Limit) *LimitRule {
	if l == nil {
		return nil
	}
	return &LimitRule{Concurrency: int(l.Concurrency), Rate: int(l.Rate), Per: l.Per, Burst: int(l.Burst)}
}

func limitWaitFrom(w *engine.LimitWait) *LimitWait {
	if w == nil {
		return nil
	}
	return &LimitWait{Limit: w.Name, Key: w.Key, Since: w.Since, Ahead: w.Ahead}
}
