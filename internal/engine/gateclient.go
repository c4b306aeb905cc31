package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// LimitInfo is the current state of a limit in a tenant.
type LimitInfo struct {
	Tenant string
	Name   string

	// Keyed is true if each key has a limit of its own.
	Keyed bool

	// Declared is the rule that code has declared last, and Set the one that an operator has set instead; nil if
	// there is none.
	Declared *history.Limit
	Set      *history.Limit

	// Paused is true if nothing is admitted.
	Paused bool

	// ChangedAt and By say when an operator has changed it, and which one.
	ChangedAt time.Time
	By        string

	// Gates are the limit itself or, if it is keyed, keys that are in use: those that have the most waiting come
	// first. There may be more than are looked at (maxGatesShown).
	Gates []GateInfo

	// InUse, Waiting and Admitted are sums over the gates that were looked at, and More is true if there are
	// others. Admitted counts from when the gate of a key was last idle.
	InUse    int
	Waiting  int
	Admitted int64
	More     bool

	Revision int64
}

// Rule returns the rule that counts.
func (l *LimitInfo) Rule() *history.Limit {
	if l.Set != nil {
		return l.Set
	}
	return l.Declared
}

// GateInfo is the state of a limit, or of one of its keys.
type GateInfo struct {
	Key      string
	InUse    int
	Waiting  int
	Admitted int64

	// Oldest is since when what comes next waits, zero if nothing waits.
	Oldest time.Time
}

// maxGatesShown is how many gates of a keyed limit are looked at, and maxGatesTold how many of them are in a
// LimitInfo.
const (
	maxGatesShown = 1_000
	maxGatesTold  = 100
)

// Limits returns the limits of a tenant, by name. Their gates are those without a key.
func (c *Client) Limits(ctx context.Context, tenant string) ([]LimitInfo, error) {
	var list []LimitInfo
	q := store.Query{Kind: kindLimit, Tenant: &tenant, Limit: store.MaxPage}
	for {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return nil, wrap("limits", err)
		}
		for i := range page.Records {
			info, err := c.limitInfo(ctx, page.Records[i])
			if err != nil {
				return nil, wrap("limits", err)
			}
			list = append(list, info)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			slices.SortFunc(list, func(a, b LimitInfo) int { return strings.Compare(a.Name, b.Name) })
			return list, nil
		}
	}
}

// GetLimit returns a limit of a tenant, or [ErrNotFound].
func (c *Client) GetLimit(ctx context.Context, tenant, name string) (LimitInfo, error) {
	if err := CheckLimitName(name); err != nil {
		return LimitInfo{}, err
	}
	r, err := c.store.Get(ctx, limitRecord(tenant, name))
	if errors.Is(err, store.ErrNotFound) {
		return LimitInfo{}, fmt.Errorf("abide: get limit: limit %q: %w", name, ErrNotFound)
	}
	if err != nil {
		return LimitInfo{}, wrap("get limit", err)
	}
	info, err := c.limitInfo(ctx, r)
	return info, wrap("get limit", err)
}

func (c *Client) limitInfo(ctx context.Context, r store.Record) (LimitInfo, error) {
	s, err := limitOf(r)
	if err != nil {
		return LimitInfo{}, err
	}
	tenant := r.Key.Tenant
	info := LimitInfo{Tenant: tenant, Name: s.name, Keyed: s.current().Keyed, Paused: s.paused, ChangedAt: s.changedAt, By: s.by, Revision: s.version}
	if s.hasDeclared {
		info.Declared = &s.declared
	}
	if s.hasSet {
		info.Set = &s.set
	}
	gates, more, err := c.gatesOf(ctx, tenant, &info)
	if err != nil {
		return info, err
	}
	info.More = more
	for i := range gates {
		g := &gates[i]
		shown := GateInfo{Key: g.limit.Key, InUse: len(g.holders), Waiting: g.waiting, Admitted: g.admitted}
		info.InUse, info.Waiting, info.Admitted = info.InUse+shown.InUse, info.Waiting+shown.Waiting, info.Admitted+shown.Admitted
		if len(info.Gates) < maxGatesTold {
			if g.waiting > 0 {
				shown.Oldest, err = c.oldest(ctx, tenant, g)
			}
			info.Gates = append(info.Gates, shown)
		}
		if err != nil {
			return info, err
		}
	}
	return info, nil
}

// gatesOf returns gates of a limit that are in use, those with the most waiting first.
func (c *Client) gatesOf(ctx context.Context, tenant string, l *LimitInfo) (gates []gateState, more bool, err error) {
	if !l.Keyed {
		r, err := c.store.Get(ctx, gateRecord(tenant, l.Name))
		if errors.Is(err, store.ErrNotFound) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		g, err := gateOf(r)
		return []gateState{g}, false, err
	}
	for _, status := range []string{gateBusy, gateOpen} {
		q := store.Query{Kind: kindGate, Tenant: &tenant, Names: []string{l.Name}, Statuses: []string{status}, Limit: store.DefaultPage}
		for {
			page, err := c.store.List(ctx, q)
			if err != nil {
				return nil, false, err
			}
			for i := range page.Records {
				g, err := gateOf(page.Records[i])
				if err != nil {
					return nil, false, err
				}
				gates = append(gates, g)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
			if len(gates) >= maxGatesShown {
				more = true
				break
			}
		}
		if more {
			break
		}
	}
	slices.SortStableFunc(gates, func(a, b gateState) int {
		return cmpMost(a.waiting, b.waiting, len(a.holders), len(b.holders), strings.Compare(a.limit.Key, b.limit.Key))
	})
	return gates, more, nil
}

// cmpMost compares two things by pairs of numbers, the larger of which comes first, and else by last.
func cmpMost(a, b, c, d, last int) int {
	switch {
	case a != b:
		return b - a
	case c != d:
		return d - c
	default:
		return last
	}
}

// oldest returns since when what a gate admits next has waited.
func (c *Client) oldest(ctx context.Context, tenant string, g *gateState) (time.Time, error) {
	page, err := c.store.List(ctx, store.Query{Kind: kindWaiting, Tenant: &tenant, Statuses: []string{gateName(&g.limit)}, From: g.head, Limit: 1})
	if err != nil || len(page.Records) == 0 {
		return time.Time{}, err
	}
	m, err := decodeGateMessage(page.Records[0].Body, tenant)
	return m.since, err
}

// LimitChange is what an operator changes about a limit.
type LimitChange struct {
	// Set replaces the rule that code declares, and Unset goes back to it; a limit that no code declares is
	// deleted then. Only one of them may be given.
	Set   *history.Limit
	Unset bool

	// Paused, if it is not nil, pauses the limit, or ends that.
	Paused *bool

	// Revision is that of the limit which is to be changed: if it has another one, nothing is changed and the
	// error is [ErrConflict]. 0 means any.
	Revision int64
}

// ChangeLimit changes a limit of a tenant, or makes it. What waits is admitted by the new rule at once, and what
// was admitted goes on. It returns [ErrNotFound] if there is nothing to change.
func (c *Client) ChangeLimit(ctx context.Context, tenant, name string, change LimitChange) (LimitInfo, error) {
	if err := checkLimitChange(tenant, name, &change); err != nil {
		return LimitInfo{}, err
	}
	for range startTries {
		gone, err := c.changeLimit(ctx, tenant, name, &change)
		switch {
		case errors.Is(err, store.ErrConflict) && change.Revision == 0:
			continue
		case err != nil:
			return LimitInfo{}, wrap("change limit", err)
		}
		if err := c.lookAtGates(ctx, tenant, name); err != nil {
			return LimitInfo{}, wrap("change limit", err)
		}
		if gone {
			return LimitInfo{Tenant: tenant, Name: name}, nil
		}
		return c.GetLimit(ctx, tenant, name)
	}
	return LimitInfo{}, fmt.Errorf("abide: change limit: others changed limit %q %d times meanwhile: %w", name, startTries, store.ErrConflict)
}

func checkLimitChange(tenant, name string, change *LimitChange) error {
	if err := CheckLimitName(name); err != nil {
		return err
	}
	if err := checkRef(Ref{Tenant: tenant, ID: name}); err != nil {
		return err
	}
	switch {
	case change.Set != nil && change.Unset:
		return fmt.Errorf("abide: change limit: a rule is both set and unset: %w", ErrInvalid)
	case change.Set == nil && !change.Unset && change.Paused == nil:
		return fmt.Errorf("abide: change limit: nothing is changed: %w", ErrInvalid)
	case change.Set != nil:
		change.Set.Name, change.Set.Key = name, ""
		return CheckRule(change.Set)
	}
	return nil
}

// changeLimit commits a change, and reports whether the limit was deleted.
func (c *Client) changeLimit(ctx context.Context, tenant, name string, change *LimitChange) (gone bool, err error) {
	s, err := readLimit(ctx, c.store, tenant, name)
	if err != nil {
		return false, err
	}
	if s.version == 0 && change.Set == nil {
		return false, fmt.Errorf("limit %q: %w", name, ErrNotFound)
	}
	if change.Revision != 0 && change.Revision != s.version {
		return false, fmt.Errorf("limit %q: it has revision %d, not %d: %w", name, s.version, change.Revision, store.ErrConflict)
	}
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return false, err
	}
	switch {
	case change.Set != nil:
		if s.version > 0 && s.current().Keyed != change.Set.Keyed {
			return false, fmt.Errorf("limit %q: it has %s, which cannot be changed: %w", name, keysOf(s.current()), ErrInvalid)
		}
		s.set, s.hasSet = *change.Set, true
	case change.Unset:
		s.set, s.hasSet = history.Limit{}, false
	}
	if change.Paused != nil {
		s.paused = *change.Paused
	}
	s.changedAt, s.by = stats.Now, actorFrom(ctx)
	if gone = !s.hasSet && !s.hasDeclared; gone {
		return true, c.store.Commit(ctx, &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: limitRecord(tenant, name), Expect: s.version}}})
	}
	return false, c.store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{s.put(tenant)}})
}

func keysOf(l *history.Limit) string {
	if l.Keyed {
		return "a limit for each key"
	}
	return "no keys"
}

// lookAtGates has the gates of a limit claimed at which something waits.
func (c *Client) lookAtGates(ctx context.Context, tenant, name string) error {
	q := store.Query{Kind: kindGate, Tenant: &tenant, Names: []string{name}, Statuses: []string{gateBusy}, Limit: store.DefaultPage}
	for {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return err
		}
		var tx store.Tx
		for i := range page.Records {
			key := gateKey(tenant, page.Records[i].Key.ID)
			tx.Put = append(tx.Put, lookMessage(key, noTime))
			tx.Retime = append(tx.Retime, store.Retime{Ref: store.MessageRef{Key: key, ID: idLook}})
		}
		if len(tx.Put) > 0 {
			if err := c.store.Commit(ctx, &tx); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// LimitWait says for which limit something waits.
type LimitWait struct {
	Name string
	Key  string

	// Since is when it began to wait, and Ahead how many are admitted before it; maxAhead stands for that many
	// or more.
	Since time.Time
	Ahead int
}

// maxAhead is how far what waits before something is counted.
const maxAhead = 10_000

// limitWait returns for which limit work waits, nil if it does not.
func (c *Client) limitWait(ctx context.Context, tenant, work string) (*LimitWait, error) {
	r, err := c.store.Get(ctx, waitingRecord(tenant, work))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := decodeGateMessage(r.Body, tenant)
	if err != nil {
		return nil, err
	}
	w := &LimitWait{Since: m.since}
	w.Name, w.Key, _ = splitGate(r.Status)
	w.Ahead, err = c.store.Count(ctx, store.Query{Kind: kindWaiting, Tenant: &tenant, Statuses: []string{r.Status}, To: r.Time}, maxAhead)
	return w, err
}

// LimitWait returns for which limit an instance waits that was started, nil if it does not.
func (c *Client) LimitWait(ctx context.Context, info *Info) (*LimitWait, error) {
	if !info.limited() {
		return nil, nil
	}
	w, err := c.limitWait(ctx, info.Tenant, instanceWork(info))
	return w, wrap("limit", err)
}
