package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// An instance that has failed is rewound without its code: its history is rewritten to one that ends before
// the failure, with which the instance goes on under a new run. It is appended to the log behind the old one,
// as the history of a next execution is, and the old one is trimmed.
//
//   - What the code recorded in the last turn goes, with the end: the code runs that turn again.
//   - Failures of activities, children and calls of entities that reached the last turn go, and those of earlier turns in which
//     the code recorded nothing: they had an effect at the end only. Those to which the code has reacted in
//     an earlier turn stay. A turn of which nothing is left goes too.
//   - Other events that reached the last turn stay, as a turn that the code has not seen: the instance is
//     partial, see fork.go.
//
// Activities, timers and calls of entities that are open then are put again. Of children that are open, those that have failed
// are rewound themselves, those that run report to the new run, those that have ended otherwise have their
// outcome delivered, and those that were deleted are started again.
//
// All of that, for all instances, is one commit: a child that ends before its parent waits would report to
// nobody. If it is too large, the histories are appended first, in parts. They are behind the ends of the old
// histories, where nobody reads them, until the commit of the records.

// Rewind has an instance that has failed go on from before its failure: activities whose failures it failed
// of run again, failed children are rewound too, and its last turn runs again. The reason is for people. It
// returns [ErrState] if the instance has not failed, and [ErrNotFound] if there is none.
//
// A parent that was told of the failure does not learn of it: it is to be rewound itself, and its failed
// children with it.
func (c *Client) Rewind(ctx context.Context, ref Ref, reason string) error {
	if n := len(reason); n > MaxReason {
		return fmt.Errorf("abide: rewind: the reason has %d bytes, at most %d are allowed: %w", n, MaxReason, ErrInvalid)
	}
	conflict := func(err error) bool { return errors.Is(err, store.ErrConflict) }
	return backoff.Retry(ctx, c.clock, conflict, func() error {
		info, err := c.Get(ctx, ref)
		if err != nil {
			return err
		}
		if info.Status != Failed {
			return fmt.Errorf("abide: rewind: %v is %s; only an instance that has failed can be rewound: %w", ref, info.Status, ErrState)
		}
		stats, err := c.store.Stats(ctx)
		if err != nil {
			return wrap("rewind", err)
		}
		r := rewinding{c: c, now: stats.Now, reason: reason, by: actorFrom(ctx), seen: map[Ref]bool{}}
		if err := r.add(ctx, info); err != nil {
			return wrap("rewind", err)
		}
		if err := r.commit(ctx); err != nil {
			return wrap("rewind", err)
		}
		if c.rewound != nil {
			c.rewound(len(r.logs))
		}
		return nil
	})
}

// rewinding is the rewind of an instance and its children.
type rewinding struct {
	c          *Client
	now        time.Time
	reason, by string

	seen map[Ref]bool
	logs []store.Append // the new histories
	tx   store.Tx       // all else
}

// add rewinds an instance that has failed. Its parent is that of its record.
func (r *rewinding) add(ctx context.Context, info Info) error {
	if r.seen[info.Ref] {
		return nil
	}
	r.seen[info.Ref] = true
	_, events, err := r.c.History(ctx, info.Ref, 0)
	if err != nil {
		return err
	}
	page, err := r.c.store.ReadLog(ctx, info.Ref.key(), math.MaxInt32)
	if err != nil {
		return err
	}
	events, partial, err := r.rewrite(events, info.Failure)
	if err != nil {
		return fmt.Errorf("%v: %w", info.Ref, err)
	}
	revision := info.Revision
	info.goOn(page.Length, partial)
	t := &turn{claim: &store.Claim{Key: info.Ref.key()}, in: &instance{info: info}}
	entries := make([][]byte, len(events))
	for i := range events {
		t.in.ledger.note(&events[i])
		entries[i] = history.Append(nil, &events[i])
	}
	t.in.ledger.now = base.Later(r.now, t.in.ledger.now)
	if len(t.in.ledger.locks) > 0 {
		return fmt.Errorf("%v held or requested locks of entities before it failed, which it has lost: %w", info.Ref, ErrState)
	}
	for _, open := range t.in.ledger.inOrder() {
		if err := r.reopen(ctx, t, &events[open.ID-1], open.At); err != nil {
			return err
		}
	}
	r.logs = append(r.logs, store.Append{Key: info.Ref.key(), At: page.Length, Tag: info.run, Entries: entries})
	merge(&r.tx, &t.tx)
	r.tx.Trim = append(r.tx.Trim, store.Trim{Key: info.Ref.key(), Before: page.Length})
	r.tx.Put = append(r.tx.Put, wakeMessage(&info))
	// The next end puts another one.
	r.tx.Delete = append(r.tx.Delete, store.MessageRef{Key: info.Ref.key(), ID: idExpire})
	r.tx.PutRecords = append(r.tx.PutRecords, info.putRecord(revision))
	return nil
}

// goOn makes the record that of an instance that runs again, with a history that begins at that index of
// the log.
func (i *Info) goOn(offset int, partial bool) {
	i.Status, i.EndedAt, i.Result, i.Failure, i.Reason = Running, time.Time{}, nil, nil, ""
	i.run, i.offset, i.kept, i.partial = newSeed(), offset, offset, partial
	i.Awaited, i.forgiven, i.trial = nil, 0, trial{}
}

// reopen puts what an event asks for once more.
func (r *rewinding) reopen(ctx context.Context, t *turn, e *history.Event, at time.Time) error {
	switch e.Kind {
	case history.ActivityScheduled:
		t.putTask(e)
	case history.TimerCreated:
		t.putTimer(e.ID, at, false)
	case history.ChildStarted:
		return r.reopenChild(ctx, t, e)
	case history.EntityCalled:
		msg, err := t.operation(e)
		if err != nil {
			return err
		}
		t.tx.Put = append(t.tx.Put, msg)
	default:
		return fmt.Errorf("%v cannot be asked for again: %w", e, ErrState)
	}
	return nil
}

// reopenChild has a child report to the new run of its parent.
func (r *rewinding) reopenChild(ctx context.Context, t *turn, e *history.Event) error {
	parent := &t.in.info
	child, err := r.c.Get(ctx, Ref{Tenant: parent.Tenant, ID: e.Target})
	if errors.Is(err, ErrNotFound) {
		t.newChild(e).add(t, &t.tx)
		return nil
	}
	if err != nil {
		return err
	}
	ours, err := r.c.isChild(ctx, &child, parent)
	if err != nil {
		return err
	}
	if !ours {
		taken := t.newChild(e)
		taken.taken = true
		taken.add(t, &t.tx)
		return nil
	}
	child.setParent(parent, e.ID)
	switch {
	case child.Status == Failed:
		return r.add(ctx, child)
	case child.Status.Ended():
		ended := &turn{in: &instance{info: child}}
		ended.ends = true
		ended.answerParent()
		ended.putAnswer()
		merge(&t.tx, &ended.tx)
		return nil
	default:
		return r.adopt(ctx, &child)
	}
}

// adopt puts the record of a child that runs, whose parent is another run now. Every put of a record appends,
// so that processes that have the child in memory notice.
func (r *rewinding) adopt(ctx context.Context, child *Info) error {
	r.tx.PutRecords = append(r.tx.PutRecords, child.putRecord(child.Revision))
	if child.partial { // its version is expected by its first turn
		return nil
	}
	page, err := r.c.store.ReadLog(ctx, child.Ref.key(), math.MaxInt32)
	if err != nil {
		return err
	}
	entries := quietTurn(r.now, int32(page.Length-child.offset), 0, history.Event{
		Kind: history.ExecutionRewound, Name: r.reason, By: r.by, Target: child.Parent,
	})
	r.tx.Append = append(r.tx.Append, store.Append{Key: child.Ref.key(), At: page.Length, Tag: child.run, Entries: entries})
	return nil
}

// rewrite returns the history of an instance as it was before its failure, with IDs without gaps, and
// whether it ends with a turn that the code has not seen.
func (r *rewinding) rewrite(events []history.Event, failed *history.Failure) (rewritten []history.Event, partial bool, err error) {
	turns := splitTurns(events)
	if n := len(events); n == 0 || events[n-1].Kind != history.ExecutionFailed {
		return nil, false, fmt.Errorf("its history does not end with its failure: %w", ErrState)
	}
	last := turns[len(turns)-1]
	for _, turn := range turns[:len(turns)-1] {
		rewritten = append(rewritten, withoutFailures(turn)...)
	}
	rewritten = append(rewritten,
		history.Event{Kind: history.TurnStarted, At: base.Later(r.now, last[0].At)},
		history.Event{Kind: history.ExecutionRewound, Name: r.reason, By: r.by, Failure: failed})
	in := 0
	for in < len(last) && last[in].Kind.Incoming() {
		in++
	}
	again := withoutFailures(last[:in])
	partial = len(again) > 0
	if partial { // the time is that of now: the code has not seen it
		again[0].At = base.Later(r.now, again[0].At)
		rewritten = append(rewritten, again...)
	}
	return renumber(rewritten), partial, nil
}

// splitTurns returns the turns of a history.
func splitTurns(events []history.Event) [][]history.Event {
	var turns [][]history.Event
	begin := 0
	for i := 1; i <= len(events); i++ {
		if i == len(events) || events[i].Kind == history.TurnStarted {
			turns = append(turns, events[begin:i])
			begin = i
		}
	}
	return turns
}

// withoutFailures returns a turn without the failures that reached it, or all of it if the code has recorded
// anything in it. It returns none if only failures reached it.
func withoutFailures(turn []history.Event) []history.Event {
	var rest []history.Event
	for i := range turn {
		if !turn[i].Kind.Incoming() {
			return turn
		}
		if !isFailure(turn[i].Kind) {
			rest = append(rest, turn[i])
		}
	}
	if len(rest) == 1 && len(turn) > 1 {
		return nil
	}
	return rest
}

// isFailure reports whether an event of that kind is the failure of something that can be asked for again.
func isFailure(k history.Kind) bool {
	return k == history.ActivityFailed || k == history.ChildFailed || k == history.EntityFailed
}

// renumber gives events IDs without gaps. All that they refer to are among them: nothing refers to a failure.
func renumber(events []history.Event) []history.Event {
	ids := make(map[int32]int32, len(events))
	rest := make([]history.Event, 0, len(events))
	for _, e := range events {
		id := int32(len(rest) + 1)
		if e.ID != 0 {
			ids[e.ID] = id
		}
		e.ID, e.Ref = id, ids[e.Ref]
		rest = append(rest, e)
	}
	return rest
}

// commit makes the rewind durable: in one commit, or, if that is too large, the histories in parts first.
func (r *rewinding) commit(ctx context.Context) error {
	tx := r.tx
	tx.Append = append(slices.Clip(tx.Append), r.logs...)
	if !errors.Is(tx.ValidateWithin(r.c.limits), store.ErrTooLarge) {
		return r.c.store.Commit(ctx, &tx)
	}
	tx.Append = r.tx.Append
	for _, log := range r.logs {
		rest, err := r.c.appendParts(ctx, log)
		if err != nil {
			return err
		}
		tx.Append = append(tx.Append, rest)
	}
	return r.c.store.Commit(ctx, &tx)
}

// appendParts appends all but the last entry of a log, in commits of a bounded size, and returns the append
// that is left.
func (c *Client) appendParts(ctx context.Context, log store.Append) (store.Append, error) {
	mostBytes, mostOps := turnLimits(c.limits)
	for len(log.Entries) > 1 {
		part := log
		n, bytes := 0, 0
		for n < len(log.Entries)-1 && n < mostOps && bytes < mostBytes {
			bytes += len(log.Entries[n])
			n++
		}
		part.Entries = log.Entries[:n]
		if err := c.store.Commit(ctx, &store.Tx{Append: []store.Append{part}}); err != nil {
			return log, err
		}
		log.At, log.Entries = log.At+n, log.Entries[n:]
	}
	return log, nil
}
