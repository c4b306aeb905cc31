package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// Raise is an event for an instance.
type Raise struct {
	Ref
	Name string
	Data []byte

	// Awaited: it is dropped unless the code waits for it when it arrives.
	Awaited bool

	// ID, if not empty, makes a raise that is tried again the same one, for as long as
	// the first has not been received.
	ID string

	// TTL is how long it waits for the instance to be started, if it does not exist.
	TTL time.Duration
}

// Raise raises events, all or none. An instance need not exist: the event waits for it.
// One for an instance that has ended is dropped.
func (c *Client) Raise(ctx context.Context, raises ...Raise) error {
	var tx store.Tx
	for i := range raises {
		r := &raises[i]
		if err := checkRaise(r); err != nil {
			return err
		}
		id := r.ID
		if id == "" {
			id = unique()
		}
		b := body{kind: bodyEvents, awaited: r.Awaited, events: []history.Event{{Kind: history.EventReceived, Name: r.Name, Data: r.Data}}}
		tx.Put = append(tx.Put, store.Message{Key: r.Ref.key(), ID: prefixEvent + "/" + id, TTL: r.TTL, Body: b.encode()})
	}
	return wrap("raise", c.store.Commit(ctx, &tx))
}

// unique returns an ID that nobody else has.
func unique() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Cancel asks an instance to come to an end.
func (c *Client) Cancel(ctx context.Context, ref Ref, why string) error {
	return c.request(ctx, "cancel", ref, why, body{kind: bodyEvents, events: cancelRequest(why)})
}

// Terminate ends an instance without asking its code.
func (c *Client) Terminate(ctx context.Context, ref Ref, why string) error {
	return c.request(ctx, "terminate", ref, why, body{kind: bodyTerminate, reason: why})
}

// Suspend has an instance wait until it is resumed. What reaches it meanwhile is kept.
func (c *Client) Suspend(ctx context.Context, ref Ref, why string) error {
	return c.request(ctx, "suspend", ref, why, body{kind: bodySuspend, reason: why})
}

// Resume has a suspended or stalled instance go on. It returns when that is so, or when
// it is durable and nobody has done it for a while.
func (c *Client) Resume(ctx context.Context, ref Ref) error {
	info, err := c.Get(ctx, ref)
	if err != nil {
		return err
	}
	if err := c.request(ctx, "resume", ref, "", body{kind: bodyResume}); err != nil || !info.Status.parked() {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, resumeSoon)
	defer cancel()
	_, err = c.Await(soon, ref, info.Revision)
	if soon.Err() != nil { // it will be done by who comes
		return ctx.Err()
	}
	return err
}

// resumeSoon is how long Resume waits until a process has resumed the instance.
const resumeSoon = 3 * time.Second

// MoveTimer gives the timers of that name another time. It does nothing to one that is
// not pending any more when the instance gets to know.
func (c *Client) MoveTimer(ctx context.Context, ref Ref, name string, at time.Time) error {
	if err := checkName("timer", name); err != nil {
		return err
	}
	if at.Year() > MaxYear {
		return fmt.Errorf("abide: move timer: %v is too late, up to the year %d is allowed: %w", at, MaxYear, ErrInvalid)
	}
	info, err := c.running(ctx, "move timer", ref)
	if err != nil {
		return err
	}
	waits, err := c.Waits(ctx, ref)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(waits, func(w Wait) bool { return w.Kind == history.TimerCreated && w.Name == name }) {
		return fmt.Errorf("abide: move timer: %v has no pending timer of the name %q: %w", ref, name, ErrNotFound)
	}
	// Straight to the execution, whose timers these are, so that it comes before a timer
	// that is due later.
	b := body{kind: bodyEvents, run: info.run, events: []history.Event{{
		Kind: history.TimerMoveReceived, Name: name, At: time.UnixMilli(store.Millis(at)).UTC(),
	}}}
	return wrap("move timer", c.store.Commit(ctx, &store.Tx{Put: []store.Message{{
		Key: ref.key(), ID: prefixControl + "/" + unique(), TTL: time.Hour, Body: b.encode(),
	}}}))
}

// running returns the state of an instance that has not ended, or ErrState.
func (c *Client) running(ctx context.Context, verb string, ref Ref) (Info, error) {
	info, err := c.Get(ctx, ref)
	if err == nil && info.Status.Ended() {
		err = fmt.Errorf("abide: %s: %v is %s: %w", verb, ref, info.Status, ErrState)
	}
	return info, err
}

// request puts a control message for an instance that has not ended.
func (c *Client) request(ctx context.Context, verb string, ref Ref, why string, b body) error {
	if n := len(why); n > MaxReason {
		return fmt.Errorf("abide: %s: the reason has %d bytes, at most %d are allowed: %w", verb, n, MaxReason, ErrInvalid)
	}
	if _, err := c.running(ctx, verb, ref); err != nil {
		return err
	}
	return wrap(verb, c.store.Commit(ctx, &store.Tx{Put: []store.Message{{
		Key: ref.control(), ID: prefixControl + "/" + unique(), Route: routeControl, Body: b.encode(),
	}}}))
}

// Delete removes an instance that has ended, with its history.
func (c *Client) Delete(ctx context.Context, ref Ref) error {
	info, err := c.Get(ctx, ref)
	if err != nil {
		return err
	}
	if !info.Status.Ended() {
		return fmt.Errorf("abide: delete: %v is %s; only an instance that has ended can be deleted: %w", ref, info.Status, ErrState)
	}
	return wrap("delete", c.store.Commit(ctx, &store.Tx{
		DeleteKeys:    []store.Key{ref.key(), ref.control()},
		DeleteRecords: []store.DeleteRecord{{Key: ref.record(), Expect: info.Revision}},
	}))
}

// Restart starts an instance that has ended once more, with the input of its last
// execution. Its old history goes.
func (c *Client) Restart(ctx context.Context, ref Ref) error {
	info, events, err := c.History(ctx, ref, 0)
	if err != nil {
		return err
	}
	if !info.Status.Ended() {
		return fmt.Errorf("abide: restart: %v is %s; only an instance that has ended can be restarted: %w", ref, info.Status, ErrState)
	}
	start := Start{Ref: ref, Name: info.Name, Version: info.Version, Tags: info.Tags, IfExists: Replace}
	found := false
	for i := range events {
		if events[i].Kind == history.ExecutionStarted {
			start.Input, found = events[i].Data, true
		}
	}
	if !found {
		return fmt.Errorf("abide: restart: %v ended before it began, so its input is not known: %w", ref, ErrState)
	}
	_, err = c.Start(ctx, start)
	return err
}
