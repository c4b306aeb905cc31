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

// An instance whose code cannot decode a payload stalls. No deploy mends that if the payload is
// wrong, and the payload is durable: it is in history, or in a message that the stalled turn did not
// consume. So an operator corrects it. The correction is an event of the history, which the code does
// not see: replay applies it to the event that it names (ledger.corrections), and a turn to the
// message that it names when that is delivered (ledger.correct). Neither the history nor the queue is
// rewritten, and the order of events stays as it was.
//
// A corrected payload is safe for replay: the code has not seen the old one, as to see it stalls the
// instance. To discard an event that has reached the code is safe unless the code has acted on its
// arrival before it looked at the payload, such as after a Select; then the replay finds a mismatch
// and the instance stalls again. A later correction of the same event replaces the first one.

// Correction replaces or drops the payload of an event of an instance that has stalled.
type Correction struct {
	// Event is the ID of an event in the history of the latest execution, or Message that of a
	// message that was not delivered. If neither is set, it is the [Info.BadPayload].
	Event   int32
	Message string

	// Data is the payload. It is ignored if Discard is set: then the event is dropped, which must
	// be one that was raised.
	Data    []byte
	Discard bool

	// Unchecked accepts a payload that does not fit what workers have published.
	Unchecked bool
}

// Correct corrects a payload and resumes the instance, which has stalled or is suspended.
func (c *Client) Correct(ctx context.Context, ref Ref, fix Correction) error {
	if len(fix.Data) > MaxPayload && !fix.Discard {
		return fmt.Errorf("abide: correct: the payload has %d bytes, at most %d are allowed: %w", len(fix.Data), MaxPayload, ErrInvalid)
	}
	info, err := c.running(ctx, "correct", ref)
	if err != nil {
		return err
	}
	switch {
	case !info.Status.parked():
		return fmt.Errorf("abide: correct: %v is %s; only an instance that has stalled or is suspended can be corrected: %w", ref, info.Status, ErrState)
	case info.partial:
		return fmt.Errorf("abide: correct: %v is a fork that has not run; terminate it, and fork from an earlier event: %w", ref, ErrState)
	}
	if fix.Event == 0 && fix.Message == "" {
		if info.BadPayload == nil {
			return fmt.Errorf("abide: correct: %v has not stalled because of a payload; name the event or the message: %w", ref, ErrState)
		}
		fix.Event, fix.Message = info.BadPayload.Event, info.BadPayload.Message
	}
	e, err := c.correction(ctx, &info, fix)
	if err != nil {
		return err
	}
	e.By = actorFrom(ctx)
	return c.resumeWith(ctx, "correct", info, body{kind: bodyCorrect, run: info.run, events: []history.Event{e}})
}

// correction returns the event that records a correction.
func (c *Client) correction(ctx context.Context, info *Info, fix Correction) (history.Event, error) {
	e := history.Event{Kind: history.PayloadCorrected, Ref: fix.Event, Data: fix.Data, Discarded: fix.Discard}
	var of history.Event
	if fix.Event == 0 {
		m, err := c.undelivered(ctx, info.Ref, fix.Message)
		if err != nil {
			return e, err
		}
		of, e.Target, e.At = m.Event, m.Message, m.putAt
	} else {
		_, events, err := c.History(ctx, info.Ref, 0)
		if err != nil {
			return e, err
		}
		if int(fix.Event) > len(events) || fix.Event < 0 {
			return e, fmt.Errorf("abide: correct: %v has no event %d, it has %d: %w", info.Ref, fix.Event, len(events), ErrNotFound)
		}
		of = events[fix.Event-1]
	}
	e.Name = of.Name
	switch of.Kind {
	case history.EventReceived:
	case history.ExecutionStarted, history.ActivityCompleted, history.ChildCompleted, history.EntityCompleted:
		if fix.Discard {
			return e, fmt.Errorf("abide: correct: %v cannot be discarded, only events that were raised can; give another payload: %w", &of, ErrInvalid)
		}
	default:
		return e, fmt.Errorf("abide: correct: %v has no payload that can be corrected; an input, an event or a result can: %w", &of, ErrInvalid)
	}
	if fix.Discard {
		e.Data = of.Data // so that nothing is lost
		return e, nil
	}
	if fix.Unchecked {
		return e, nil
	}
	switch of.Kind {
	case history.EventReceived:
		return e, c.checkEvent(ctx, info, of.Name, fix.Data)
	case history.ExecutionStarted:
		return e, c.checkInputs(ctx, []Start{{Ref: info.Ref, Name: info.Name, Version: info.Version, Input: fix.Data}})
	default:
		return e, nil
	}
}

// correct applies a correction, and resumes the instance.
func (c *control) correct(m *message) error {
	t := c.turn
	if len(m.events) == 0 || !t.in.info.Status.parked() || t.in.info.partial || m.run != t.in.info.run {
		t.stale()
		return nil
	}
	c.remark(m.events[0])
	return c.resume("", m.events[0].By)
}

// Undelivered is an event of a message that was not delivered to the code of an instance: the
// instance waits for its first turn, is suspended or has stalled.
type Undelivered struct {
	Message string

	// Event has the kind, the name and the payload. Its ID is 0: it is not in history.
	Event history.Event

	// At is when the message became, or becomes, visible.
	At time.Time

	putAt time.Time
}

// Undelivered returns the messages of an instance that bring a payload and were not delivered, in
// order, at most limit of them.
func (c *Client) Undelivered(ctx context.Context, ref Ref, limit int) ([]Undelivered, error) {
	pending, err := c.store.Pending(ctx, ref.key(), limit)
	if err != nil {
		return nil, wrap("undelivered", err)
	}
	var list []Undelivered
	for i := range pending {
		m := &pending[i]
		b, err := decodeBody(m.Body)
		if err != nil || len(b.events) == 0 { // what cannot be read goes to quarantine
			continue
		}
		switch b.events[0].Kind {
		case history.ExecutionStarted, history.EventReceived, history.ActivityCompleted, history.ActivityFailed, history.ChildCompleted, history.ChildFailed,
			history.EntityCompleted, history.EntityFailed:
			list = append(list, Undelivered{Message: m.ID, Event: b.events[0], At: m.VisibleAt, putAt: m.PutAt})
		default:
		}
	}
	return list, nil
}

// undelivered returns the message with that ID.
func (c *Client) undelivered(ctx context.Context, ref Ref, id string) (Undelivered, error) {
	list, err := c.Undelivered(ctx, ref, store.DefaultMessages)
	if err != nil {
		return Undelivered{}, err
	}
	i := slices.IndexFunc(list, func(m Undelivered) bool { return m.Message == id })
	if i < 0 {
		return Undelivered{}, fmt.Errorf("abide: correct: %v has no message %q that was not delivered: %w", ref, id, ErrNotFound)
	}
	return list[i], nil
}

// resumeWith puts a control request that resumes an instance, and waits until that is done and the
// next turn has been taken. It returns an error that matches [ErrStalled] if the instance has stalled
// again, and nil if no process has taken the turn within resumeSoon: the request is durable.
func (c *Client) resumeWith(ctx context.Context, verb string, info Info, b body) error {
	if err := c.request(ctx, verb, info.Ref, "", b); err != nil || !info.Status.parked() {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, resumeSoon)
	defer cancel()
	after := info.Revision
	for {
		now, err := c.Await(soon, info.Ref, after)
		switch {
		case soon.Err() != nil: // it is durable, and done when a process takes it
			return ctx.Err()
		case errors.Is(err, ErrNotFound), err == nil && now.Status.Ended():
			return nil
		case err != nil:
			return err
		case now.Status == Stalled:
			return fmt.Errorf("abide: %s: %v has stalled again: %s: %w", verb, info.Ref, firstLine(now.Reason), ErrStalled)
		case now.Status.parked():
			return nil // suspended meanwhile
		}
		if !c.served(soon, now.Route(), now.Tenant) {
			return nil // the request is done, and the turn waits for a worker
		}
		taken, err := c.turnTaken(soon, &now)
		if errors.Is(err, ErrNotFound) { // it has ended, and was deleted
			return nil
		}
		if err != nil || taken {
			return err
		}
		after = now.Revision
	}
}

// turnTaken waits until the turn of an instance that was resumed has been committed, or until the
// instance has changed: then it returns false. It looks at the message that wakes the instance: a turn
// that does not change the record is not announced. When ctx ends it returns true.
func (c *Client) turnTaken(ctx context.Context, resumed *Info) (bool, error) {
	for ctx.Err() == nil {
		pending, err := c.store.Pending(ctx, resumed.Ref.key(), store.DefaultMessages)
		if err != nil {
			return true, unlessEnded(ctx, wrap("resume", err))
		}
		if !slices.ContainsFunc(pending, func(m store.Message) bool { return m.ID == idWake }) {
			now, err := c.Get(ctx, resumed.Ref)
			return err != nil || now.Status != Stalled, unlessEnded(ctx, err)
		}
		short, cancel := context.WithTimeout(ctx, resumeLook)
		now, err := c.Await(short, resumed.Ref, resumed.Revision)
		cancel()
		if err == nil && now.Revision > resumed.Revision {
			return false, nil
		}
	}
	return true, nil
}

// unlessEnded returns an error of a call, unless ctx has ended meanwhile.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // that the time is over is not an error of the call
	}
	return err
}

// firstLine returns the first line of a text.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// resumeLook is how often a caller looks whether a turn was taken.
const resumeLook = 50 * time.Millisecond
