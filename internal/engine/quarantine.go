package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// Quarantined is a message that could not be handled, and waits for an operator. The store puts a message
// there that was delivered too often; the engine puts one there that it cannot decode, or whose instance has
// no record or an unreadable one. Nothing is dropped silently, and nothing loops.
type Quarantined struct {
	Tenant string
	ID     string // of the quarantined message
	Reason string
	At     time.Time

	// Queue and Key say what the message was for, and Route who was to handle it.
	Queue string
	Key   string
	Route string

	// Message is its ID, Attempts how often it was delivered, and Body what it says.
	Message  string
	Attempts int
	Body     []byte

	// Instance is the ID of the instance that the message is for, and Event what it brings: an
	// event, a start, a result, or the activity of a task. They are not set if it is not a message
	// of the engine, or cannot be read.
	Instance string
	Event    *history.Event
}

// MessageEvent returns the ID of the instance that a message of the engine is for, and the event that it
// brings; nil if it brings none, is not one of the engine's or cannot be read.
func MessageEvent(key store.Key, body []byte) (instance string, e *history.Event) {
	switch key.Queue {
	case queueTurns, queueControl:
		instance = key.Name
		if b, err := decodeBody(body); err == nil && len(b.events) > 0 {
			e = &b.events[0]
		}
	case QueueActivities:
		if t, err := decodeTask(body); err == nil {
			instance, e = t.instance, &t.event
		}
	case QueueEntities:
		if m, err := decodeEntityMessage(body); err == nil {
			instance, e = m.from, m.asEvent(key.Name)
		}
	}
	return instance, e
}

// Quarantine lists messages that are in quarantine, and the cursor of the next page. A
// nil tenant means all.
func (c *Client) Quarantine(ctx context.Context, tenant *string, limit int, cursor string) ([]Quarantined, string, error) {
	page, err := c.store.List(ctx, store.Query{Kind: store.KindQuarantine, Tenant: tenant, Limit: limit, Cursor: cursor})
	if err != nil {
		return nil, "", wrap("list quarantine", err)
	}
	list := make([]Quarantined, 0, len(page.Records))
	for _, r := range page.Records {
		m, err := store.Quarantined(r)
		if err != nil {
			return nil, "", wrap("list quarantine", err)
		}
		q := Quarantined{
			Tenant: r.Key.Tenant, ID: r.Key.ID, Reason: r.Status, At: r.Time,
			Queue: m.Key.Queue, Key: m.Key.Name, Route: m.Route, Message: m.ID, Attempts: m.Attempt, Body: m.Body,
		}
		q.Instance, q.Event = MessageEvent(m.Key, m.Body)
		list = append(list, q)
	}
	return list, page.Next, nil
}

// Redrive puts a quarantined message back, as if it had never been tried. The task of an
// activity for which no instance waits any more is refused with [ErrState].
func (c *Client) Redrive(ctx context.Context, tenant, id string) error {
	r, err := c.quarantined(ctx, "redrive", tenant, id)
	if err != nil {
		return err
	}
	tx, err := store.Redrive(r)
	if err != nil {
		return wrap("redrive", err)
	}
	for i := range tx.Put {
		switch m := &tx.Put[i]; m.Key.Queue {
		case queueTurns:
			m.Route = "" // the instance has one, which may be another one by now
		case QueueActivities:
			if err := c.checkAwaited(ctx, m); err != nil {
				return err
			}
		case QueueEntities:
			if err := c.checkRequested(ctx, m); err != nil {
				return err
			}
		}
	}
	return wrap("redrive", c.store.Commit(ctx, tx))
}

// checkAwaited reports whether an instance waits for the activity of a task. A task that
// cannot be read is not its business.
func (c *Client) checkAwaited(ctx context.Context, m *store.Message) error {
	t, err := decodeTask(m.Body)
	if err != nil {
		return nil //nolint:nilerr // a task that cannot be read may be redriven
	}
	ref := Ref{Tenant: m.Key.Tenant, ID: t.instance}
	waits, err := c.waitsFor(ctx, ref, t.run, t.event.ID)
	if err == nil && !waits {
		err = fmt.Errorf("abide: redrive: instance %v does not wait for activity %q of event %d any more, discard the message: %w",
			ref, t.event.Name, t.event.ID, ErrState)
	}
	return err
}

// checkRequested reports whether an instance waits for the locks that a message to an entity requests: nothing would
// release those of another one.
func (c *Client) checkRequested(ctx context.Context, m *store.Message) error {
	request, err := decodeEntityMessage(m.Body)
	if err != nil || request.kind != entityLock {
		return nil //nolint:nilerr // a message that cannot be read may be redriven
	}
	ref := Ref{Tenant: m.Key.Tenant, ID: request.from}
	waits, err := c.waitsFor(ctx, ref, request.run, request.event)
	if err == nil && !waits {
		err = fmt.Errorf("abide: redrive: instance %v does not wait for the locks of event %d any more, discard the message: %w", ref, request.event, ErrState)
	}
	return err
}

// waitsFor reports whether an execution of an instance waits for the answer to an event.
func (c *Client) waitsFor(ctx context.Context, ref Ref, run uint64, event int32) (bool, error) {
	info, events, err := c.History(ctx, ref, 0)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var book ledger
	for i := range events {
		book.note(&events[i])
	}
	return !info.Status.Ended() && info.run == run && book.open[event] != nil, nil
}

// Discard removes a quarantined message for good.
func (c *Client) Discard(ctx context.Context, tenant, id string) error {
	r, err := c.quarantined(ctx, "discard", tenant, id)
	if err != nil {
		return err
	}
	return wrap("discard", c.store.Commit(ctx, &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: r.Key, Expect: r.Version}}}))
}

func (c *Client) quarantined(ctx context.Context, verb, tenant, id string) (store.Record, error) {
	if id == "" {
		return store.Record{}, fmt.Errorf("abide: %s: no ID: %w", verb, ErrInvalid)
	}
	r, err := c.store.Get(ctx, store.RecordKey{Kind: store.KindQuarantine, Tenant: tenant, ID: id})
	if errors.Is(err, store.ErrNotFound) {
		return r, fmt.Errorf("abide: %s: quarantined message %q: %w", verb, id, ErrNotFound)
	}
	return r, wrap(verb, err)
}
