package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Fork starts a new instance with the history of another one, up to and with an event
// of its current execution: from there on the new one goes its own way. What the
// history waits for there is asked for once more, with the time that it is now: an
// activity has all of its time to close. A child cannot be asked for again: it belongs to
// the other instance, so none may be open at that event.
//
// A history that is too large for one commit is copied in several. The new instance is
// suspended until that is done, and stays so if it is interrupted: then it is to be
// terminated.
//
// The event may be in the middle of a turn. The new instance is then partial: its history ends within
// a turn, with which its first turn goes on ([replay.Execution.ContinueTurn]). While it is partial nothing else
// may be appended, or the broken turn would not be the last; so quiet remarks are left out, and the
// version of the record guards changes that append nothing.
func (c *Client) Fork(ctx context.Context, from Ref, event int32, to string) error {
	ref := Ref{Tenant: from.Tenant, ID: to}
	if err := checkRef(ref); err != nil {
		return err
	}
	info, events, err := c.History(ctx, from, 0)
	if err != nil {
		return err
	}
	if event < 1 || int(event) > len(events) {
		return fmt.Errorf("abide: fork: %v has events 1 to %d, not %d: %w", from, len(events), event, ErrInvalid)
	}
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return wrap("fork", err)
	}
	events = events[:event]
	var book ledger
	entries := make([][]byte, len(events))
	for i := range events {
		book.note(&events[i])
		events[i].Span = 0 // it is of the other one's trace
		entries[i] = history.Append(nil, &events[i])
	}
	said := publishedBy(events)
	if book.ended {
		return fmt.Errorf("abide: fork: %v has ended at event %d: fork from one before it: %w", from, event, ErrInvalid)
	}
	if !book.started {
		return fmt.Errorf("abide: fork: %v has not begun at event %d: fork from one after ExecutionStarted: %w", from, event, ErrInvalid)
	}
	// It has a run of its own: what is meant for the one must not reach the other, nor a
	// child of the other.
	fork := Info{
		Ref: ref, Name: info.Name, Version: info.Version, Build: info.Build, Status: Running, Execution: info.Execution,
		CreatedAt: stats.Now, BegunAt: info.BegunAt, Tags: info.Tags, run: newSeed(), partial: true,
		Text: said.Text, Values: said.Values, origin: spanFrom(ctx),
	}
	book.now = base.Later(stats.Now, book.now)
	var tx store.Tx
	if err := reschedule(&tx, &fork, &book, events); err != nil {
		return err
	}
	tx.Put = append(tx.Put, wakeMessage(&fork))
	tx.PutRecords = []store.PutRecord{fork.putRecord(0)}
	tx.Append = []store.Append{{Key: ref.key(), At: 0, Tag: fork.run, Entries: entries}}
	if errors.Is(tx.ValidateWithin(c.limits), store.ErrTooLarge) {
		return wrap("fork", asExists(c.forkInParts(ctx, from, &fork, &tx), ref))
	}
	return wrap("fork", asExists(c.store.Commit(ctx, &tx), ref))
}

// forkInParts does what tx does in several commits: the record, suspended, with parts of the
// history, and then the rest.
func (c *Client) forkInParts(ctx context.Context, from Ref, fork *Info, tx *store.Tx) error {
	log := tx.Append[0]
	tx.Append = nil
	if err := tx.ValidateWithin(c.limits); err != nil {
		return err
	}
	copying := *fork
	copying.Status, copying.Before = Suspended, Running
	copying.Reason = fmt.Sprintf("its history is being copied from %v", from)
	records := []store.PutRecord{copying.putRecord(0)}
	mostBytes, mostOps := turnLimits(c.limits)
	for len(log.Entries) > 0 {
		part := log
		n, bytes := 0, 0
		for n < len(log.Entries) && n < mostOps && bytes < mostBytes {
			bytes += len(log.Entries[n])
			n++
		}
		part.Entries = log.Entries[:n]
		if err := c.store.Commit(ctx, &store.Tx{Append: []store.Append{part}, PutRecords: records}); err != nil {
			return err
		}
		log.At, log.Entries, records = log.At+n, log.Entries[n:], nil
	}
	tx.PutRecords[0].Expect = 1
	return c.store.Commit(ctx, tx)
}

// publishedBy returns the status text and the values that an execution has set by the end of these
// events.
func publishedBy(events []history.Event) Info {
	var info Info
	for i := range events {
		switch e := &events[i]; e.Kind {
		case history.StatusSet:
			info.Text = e.Name
		case history.ValueSet:
			// It was within the limit when it was set.
			_ = info.setValue(e)
		default:
		}
	}
	return info
}

// reschedule puts the tasks, timers and waits that are open in a forked history.
func reschedule(tx *store.Tx, fork *Info, book *ledger, events []history.Event) error {
	t := &turn{claim: &store.Claim{Key: fork.Ref.key()}, in: &instance{info: *fork, ledger: *book}}
	for _, open := range book.inOrder() {
		switch open.Kind {
		case history.ActivityScheduled:
			t.putTask(&events[open.ID-1])
		case history.TimerCreated:
			t.putTimer(open.ID, open.At, false)
		case history.EntityCalled:
			return fmt.Errorf("abide: fork: the call of entity %q by event %d is open there and its answer is for the other instance: fork from before the call or after its answer: %w",
				open.Target, open.ID, ErrInvalid)
		case history.EntityLockRequested: // see below
		default:
			return fmt.Errorf("abide: fork: the child %q, started by event %d, is open there and belongs to the other instance: fork from before it was started or after it ended: %w",
				open.Target, open.ID, ErrInvalid)
		}
	}
	for _, id := range sortedKeys(book.locks) {
		return fmt.Errorf("abide: fork: locks of entities, requested by event %d, belong to the other instance there: fork from before the request or after their release: %w", id, ErrInvalid)
	}
	tx.Put = append(tx.Put, t.tx.Put...)
	return nil
}

// asExists says of a conflict what it is about.
func asExists(err error, ref Ref) error {
	if err != nil && expected(err) {
		return fmt.Errorf("instance %v: %w", ref, ErrExists)
	}
	return err
}
