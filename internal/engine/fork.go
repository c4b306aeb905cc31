package engine

import (
	"context"
	"fmt"

	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/store"
)

// Fork starts a new instance with the history of another one, up to and with an event
// of its current execution: from there on the new one goes its own way. What the
// history waits for there is asked for once more. A child cannot be: it belongs to the
// other instance, so none may be open at that event.
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
	events = events[:event]
	var book ledger
	var run uint64
	for i := range events {
		book.note(&events[i])
		if events[i].Kind == history.ExecutionStarted {
			run = events[i].Start.Seed
		}
	}
	said := said(events)
	if book.ended {
		return fmt.Errorf("abide: fork: %v has ended at event %d: fork from one before it: %w", from, event, ErrInvalid)
	}
	if !book.started {
		return fmt.Errorf("abide: fork: %v has not begun at event %d: fork from one after ExecutionStarted: %w", from, event, ErrInvalid)
	}
	fork := Info{
		Ref: ref, Name: info.Name, Version: info.Version, Status: Running, Execution: info.Execution,
		CreatedAt: c.clock.Now(), BegunAt: info.BegunAt, Tags: info.Tags, run: run, partial: true,
		Text: said.Text, Values: said.Values, origin: spanFrom(ctx),
	}
	tx := store.Tx{PutRecords: []store.PutRecord{fork.putRecord(0)}}
	entries := make([][]byte, len(events))
	for i := range events {
		events[i].Span = 0 // it is of the other one's trace
		entries[i] = history.Append(nil, &events[i])
	}
	tx.Append = []store.Append{{Key: ref.key(), At: 0, Tag: run, Entries: entries}}
	if err := askAgain(&tx, &fork, &book, events); err != nil {
		return err
	}
	tx.Put = append(tx.Put, wakeMessage(&fork))
	return wrap("fork", asExists(c.store.Commit(ctx, &tx), ref))
}

// said returns what an execution has said about itself by the end of these events.
func said(events []history.Event) Info {
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

// askAgain puts what a forked history waits for.
func askAgain(tx *store.Tx, fork *Info, book *ledger, events []history.Event) error {
	t := &turn{claim: &store.Claim{Key: fork.Ref.key()}, in: &instance{info: *fork, ledger: *book}}
	for _, open := range book.inOrder() {
		switch open.Kind {
		case history.ActivityScheduled:
			t.putTask(&events[open.ID-1])
		case history.TimerCreated:
			t.putTimer(open.ID, open.At, false)
		default:
			return fmt.Errorf("abide: fork: the child %q, started by event %d, is open there and belongs to the other instance: fork from before it was started or after it ended: %w",
				open.Target, open.ID, ErrInvalid)
		}
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
