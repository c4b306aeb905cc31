package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
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

	// MustExist refuses an event for an instance that does not exist, and IgnoreEnded drops one
	// for an instance that has ended instead of refusing it.
	MustExist   bool
	IgnoreEnded bool

	// Unchecked raises it whatever the instance is and waits for: its outcome is not known.
	Unchecked bool
}

// Outcome is what an event found when it was raised.
type Outcome string

// Outcomes of events.
const (
	OutcomeUnknown    Outcome = ""            // it was raised unchecked
	OutcomeAwaited    Outcome = "awaited"     // the instance waits for it
	OutcomeKept       Outcome = "kept"        // the instance does not wait for it yet
	OutcomeDropped    Outcome = "dropped"     // it was only for an instance that waits, which it does not
	OutcomeNoInstance Outcome = "no-instance" // kept until the instance is started
	OutcomeEnded      Outcome = "ended"       // dropped: the instance has ended
)

// Raised is the result of an event.
type Raised struct {
	Outcome Outcome

	// Status is that of the instance, and Awaited the names of the events that it waits for.
	Status  Status
	Awaited []string
}

// Raise raises events, all or none. An instance need not exist: the event waits for it.
// What each event finds is read before it is durable: an instance that ends in between drops it. It
// returns [ErrBusy] if the process does not keep up.
func (c *Client) Raise(ctx context.Context, raises ...Raise) ([]Raised, error) {
	var tx store.Tx
	raised := make([]Raised, len(raises))
	for i := range raises {
		if err := checkRaise(&raises[i]); err != nil {
			return nil, err
		}
	}
	permit, err := c.acquire(ctx, len(raises))
	if err != nil {
		return nil, wrap("raise", err)
	}
	defer permit.Release()
	if c.fuser != nil && len(raises) == 1 && !raises[0].Awaited && store.TransactionOf(ctx) == nil { // whether it is awaited, a claimed turn decides
		found, err := c.raiseFused(ctx, &raises[0])
		if !errors.Is(err, errNotFused) {
			return []Raised{found}, err
		}
	}
	for i := range raises {
		r := &raises[i]
		if !r.Unchecked {
			var err error
			if raised[i], err = c.find(ctx, r); err != nil {
				return nil, err
			}
			if raised[i].Outcome == OutcomeEnded {
				continue
			}
		}
		id, b := r.message(ctx)
		tx.Put = append(tx.Put, store.Message{Key: r.Ref.key(), ID: id, TTL: r.TTL, Body: b.encode()})
	}
	if tx.Empty() {
		return raised, nil
	}
	return raised, wrap("raise", c.store.Commit(ctx, &tx))
}

// raiseFused raises an event for an instance that is cached here, together with the turn that it
// causes. What the event finds is then known without reading the record. If a fused turn of the
// instance is under way, the event waits for it: a message would be in conflict with it.
func (c *Client) raiseFused(ctx context.Context, r *Raise) (found Raised, err error) {
	key := r.Ref.key()
	f := c.fuser.at(key)
	info, cached := f.e.cache.peek(key)
	switch {
	case cached && info.Status != Running, !cached && !f.running(key):
		return Raised{}, errNotFused
	case r.Unchecked:
	case cached:
		found, err = c.examine(ctx, &info, r)
	default:
		found, err = c.find(ctx, r)
	}
	if err != nil || found.Outcome == OutcomeEnded {
		return found, err
	}
	id, b := r.message(ctx)
	return found, wrap("raise", f.deliver(ctx, newDelivery(r.Ref, id, &b)))
}

// message returns the ID and the body of the message that brings the event.
func (r *Raise) message(ctx context.Context) (string, body) {
	id := r.ID
	if id == "" {
		id = unique()
	}
	return prefixEvent + "/" + id, body{kind: bodyEvents, awaited: r.Awaited, events: []history.Event{
		{Kind: history.EventReceived, Name: r.Name, Data: r.Data, By: actorFrom(ctx)},
	}}
}

// find returns what an event finds, and refuses it if it should not be raised then.
func (c *Client) find(ctx context.Context, r *Raise) (Raised, error) {
	info, err := c.Get(ctx, r.Ref)
	switch {
	case errors.Is(err, ErrNotFound):
		if r.MustExist {
			return Raised{}, fmt.Errorf("abide: raise %q: instance %v: %w", r.Name, r.Ref, ErrNotFound)
		}
		return Raised{Outcome: OutcomeNoInstance}, nil
	case err != nil:
		return Raised{}, err
	}
	return c.examine(ctx, &info, r)
}

// examine returns what an event finds in an instance of that state, and refuses it if it should not be
// raised then.
func (c *Client) examine(ctx context.Context, info *Info, r *Raise) (Raised, error) {
	found := Raised{Outcome: OutcomeKept, Status: info.Status}
	for _, a := range info.Awaited {
		if !slices.Contains(found.Awaited, a.Name) {
			found.Awaited = append(found.Awaited, a.Name)
		}
	}
	switch {
	case info.Status.Ended():
		found.Outcome = OutcomeEnded
		if !r.IgnoreEnded {
			return Raised{}, fmt.Errorf("abide: raise %q: %v is %s: %w", r.Name, r.Ref, info.Status, ErrState)
		}
		return found, nil
	case slices.Contains(found.Awaited, r.Name):
		found.Outcome = OutcomeAwaited
	case r.Awaited && info.Status == Running:
		found.Outcome = OutcomeDropped
	}
	return found, c.checkEvent(ctx, info, r.Name, r.Data)
}

// unique returns an ID that nobody else has.
func unique() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// Cancel asks an instance to come to an end.
func (c *Client) Cancel(ctx context.Context, ref Ref, why string) error {
	return c.request(ctx, "cancel", ref, why, body{kind: bodyEvents, events: []history.Event{{Kind: history.CancelRequested, Name: why, By: actorFrom(ctx)}}})
}

// Terminate ends an instance without asking its code.
func (c *Client) Terminate(ctx context.Context, ref Ref, why string) error {
	return c.request(ctx, "terminate", ref, why, body{kind: bodyTerminate, reason: why, events: byActor(ctx)})
}

// Termination says how an instance is terminated.
type Termination struct {
	Reason string

	// Result is the encoded result of the terminated instance, at most MaxPayload bytes.
	Result []byte

	// Recursive terminates the children that the instance waits for, whatever their close policies are,
	// and their children.
	Recursive bool
}

// TerminateWith ends an instance without asking its code, with a result.
func (c *Client) TerminateWith(ctx context.Context, ref Ref, how Termination) error {
	if err := checkPayload("the result of "+ref.String(), how.Result); err != nil {
		return err
	}
	b := body{kind: bodyTerminate, reason: how.Reason, recursive: how.Recursive, events: byActor(ctx)}
	if len(how.Result) > 0 {
		b.events = []history.Event{{Kind: history.ExecutionTerminated, By: actorFrom(ctx), Data: how.Result}}
	}
	return c.request(ctx, "terminate", ref, how.Reason, b)
}

// Suspend has an instance wait until it is resumed. What reaches it meanwhile is kept.
func (c *Client) Suspend(ctx context.Context, ref Ref, why string) error {
	return c.request(ctx, "suspend", ref, why, body{kind: bodySuspend, reason: why, events: byActor(ctx)})
}

// Resume has a suspended or stalled instance go on. It returns when its next turn was taken, or
// when the request is durable and no process has taken it for a while. If the instance stalls again,
// the error matches [ErrStalled].
func (c *Client) Resume(ctx context.Context, ref Ref) error {
	info, err := c.Get(ctx, ref)
	if err != nil {
		return err
	}
	return c.resumeWith(ctx, "resume", info, body{kind: bodyResume, events: byActor(ctx)})
}

// resumeSoon is how long Resume waits until a process has resumed the instance and taken a turn.
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
		Kind: history.TimerMoveReceived, Name: name, At: time.UnixMilli(store.Millis(at)).UTC(), By: actorFrom(ctx),
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
	var tx store.Tx
	info.delete(&tx)
	return wrap("delete", c.store.Commit(ctx, &tx))
}

// Restart starts an instance that has ended once more, with the input of its last
// execution. Its old history goes.
func (c *Client) Restart(ctx context.Context, ref Ref) error {
	info, err := c.Get(ctx, ref)
	if err != nil {
		return err
	}
	if !info.Status.Ended() {
		return fmt.Errorf("abide: restart: %v is %s; only an instance that has ended can be restarted: %w", ref, info.Status, ErrState)
	}
	return c.startAgain(ctx, &info, ref, Replace)
}

// RestartAs starts a new instance with the orchestration, the tags and the input of the last execution of
// another one, which may run or have ended and stays as it is. It returns [ErrExists] if there is an instance
// with the new ID.
func (c *Client) RestartAs(ctx context.Context, ref Ref, id string) error {
	info, err := c.Get(ctx, ref)
	if err != nil {
		return err
	}
	return c.startAgain(ctx, &info, Ref{Tenant: ref.Tenant, ID: id}, Reject)
}

// startAgain starts an instance with what another one was started with.
func (c *Client) startAgain(ctx context.Context, info *Info, as Ref, policy IfExists) error {
	e, err := c.startOf(ctx, info)
	if err == nil && e == nil {
		e, err = c.pendingStart(ctx, info.Ref)
	}
	if err != nil {
		return wrap("restart", err)
	}
	if e == nil {
		return fmt.Errorf("abide: restart: %v ended before it began, so its input is not known: %w", info.Ref, ErrState)
	}
	_, err = c.Start(ctx, Start{
		Ref: as, Name: e.Name, Version: e.Start.Version, Input: e.Data, Tags: info.Tags, Foreign: e.Foreign, IfExists: policy, Unchecked: true,
		Limits: info.Limits, Priority: info.Priority,
	})
	return err
}

// Input returns the input of the latest execution of an instance.
func (c *Client) Input(ctx context.Context, info *Info) ([]byte, error) {
	e, err := c.startOf(ctx, info)
	if err == nil && e == nil {
		e, err = c.pendingStart(ctx, info.Ref)
	}
	if err != nil || e == nil {
		return nil, wrap("input", err)
	}
	return e.Data, nil
}

// pendingStart returns the event that starts the execution of an instance that has not begun, or nil.
func (c *Client) pendingStart(ctx context.Context, ref Ref) (*history.Event, error) {
	list, err := c.Undelivered(ctx, ref, store.DefaultMessages)
	for i := range list {
		if list[i].Event.Kind == history.ExecutionStarted {
			return &list[i].Event, nil
		}
	}
	return nil, err
}
