package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Query says which instances to list.
type Query struct {
	Tenant         *string // nil means all
	Orchestrations []string
	Statuses       []Status
	From, To       time.Time // when they were started
	Tags           map[string]string
	Prefix         string // of the ID
	Parent         string // the ID of the parent
	Build          string // that they are pinned to

	// EndedFrom and EndedTo bound when they ended: EndedFrom <= EndedAt < EndedTo; zero means unbounded.
	// If one is set, only instances that have ended match. No index has it: a list reads the instances that
	// match otherwise, and a page of it may have few or none and still have a next one.
	EndedFrom, EndedTo time.Time

	Descending bool
	Limit      int
	Cursor     string
}

// listPatience is how long a list looks on if a store has found nothing in what it has
// looked at.
const listPatience = 20 * time.Millisecond

// List returns instances, in the order in which they were started, and the cursor of
// the next page, which is empty if there is none.
func (c *Client) List(ctx context.Context, q Query) ([]Info, string, error) {
	statuses := make([]string, 0, len(Statuses))
	for _, s := range q.Statuses {
		if !slices.Contains(Statuses, s) {
			return nil, "", fmt.Errorf("abide: list: unknown status %q, known are %v: %w", s, Statuses, ErrInvalid)
		}
		statuses = append(statuses, string(s))
	}
	if q.byEnd() && len(statuses) == 0 {
		for _, s := range Statuses {
			if s.Ended() {
				statuses = append(statuses, string(s))
			}
		}
	}
	query := store.Query{
		Kind: kindInstance, Tenant: q.Tenant, Statuses: statuses, Names: q.Orchestrations,
		From: q.From, To: q.To, Tags: base.WithBuild(base.WithParent(q.Tags, q.Parent), q.Build), Prefix: q.Prefix, Descending: q.Descending, Limit: q.Limit, Cursor: q.Cursor,
	}
	if !q.EndedTo.IsZero() && (query.To.IsZero() || q.EndedTo.Before(query.To)) {
		query.To = q.EndedTo // nothing ends before it was started
	}
	began := c.clock.Now()
	for {
		page, err := c.store.List(ctx, query)
		if err != nil {
			return nil, "", wrap("list", err)
		}
		infos := make([]Info, 0, len(page.Records))
		for _, r := range page.Records {
			info, err := infoOf(r)
			if err != nil {
				return nil, "", err
			}
			if q.endedWithin(&info) {
				infos = append(infos, info)
			}
		}
		if len(infos) > 0 || page.Next == "" || c.clock.Now().Sub(began) >= listPatience {
			return infos, page.Next, nil
		}
		query.Cursor = page.Next
	}
}

// byEnd reports whether the query asks when instances ended.
func (q *Query) byEnd() bool { return !q.EndedFrom.IsZero() || !q.EndedTo.IsZero() }

// endedWithin reports whether an instance ended when the query asks for.
func (q *Query) endedWithin(info *Info) bool {
	return !q.byEnd() || info.Status.Ended() && !info.EndedAt.Before(q.EndedFrom) && (q.EndedTo.IsZero() || info.EndedAt.Before(q.EndedTo))
}

// UpdatedAt returns when an instance changed last: when it ended, or the time of its last turn. For one that has
// not ended that is in the log, not in the record: it costs two reads, however long the history is.
func (c *Client) UpdatedAt(ctx context.Context, info *Info) (time.Time, error) {
	if info.Status.Ended() {
		return info.EndedAt, nil
	}
	page, err := c.store.ReadLog(ctx, info.Ref.key(), math.MaxInt32) // no entries, only the length
	if err != nil {
		return time.Time{}, wrap("get", err)
	}
	at := base.Later(info.CreatedAt, info.BegunAt)
	for back := lastTurnWithin; ; back *= lastTurnWithin {
		from := max(page.Length-back, info.offset)
		last, err := c.lastTurn(ctx, info.Ref, from)
		if err != nil {
			return time.Time{}, wrap("get", err)
		}
		if !last.IsZero() || from == info.offset {
			return base.Later(at, last), nil
		}
	}
}

// lastTurn returns the time of the last turn that begins at an index of the log or after it, zero if none does.
func (c *Client) lastTurn(ctx context.Context, ref Ref, from int) (at time.Time, err error) {
	for entry, err := range store.Entries(ctx, c.store, ref.key(), from) {
		if err != nil {
			return at, err
		}
		if e, err := history.Parse(entry); err == nil && e.Kind == history.TurnStarted {
			at = e.At
		}
	}
	return at, nil
}

// lastTurnWithin is how many events from the end of a history its last turn is looked for first.
const lastTurnWithin = 32
