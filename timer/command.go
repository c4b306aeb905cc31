package timer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/store"
)

// Types of envelopes that carry commands, see [Service.Handle].
const (
	TypeScheduleTimer = "ScheduleTimer"
	TypeCancelTimer   = "CancelTimer"
)

// ScheduleTimer is the payload of an envelope that schedules a timer of the envelope's
// tenant, with the envelope's correlation ID. Either DueAt or DelayMs must be set, and a
// field that is not listed here is refused.
type ScheduleTimer struct {
	ServiceCallID string `json:"serviceCallId"` // the timer's key

	// DueAt is when it fires: RFC 3339 text, or milliseconds since 1970. It must not be
	// before [MinDueAt].
	DueAt *Instant `json:"dueAt,omitempty"`

	// DelayMs is the delay in milliseconds, counted from when the command is applied. Zero
	// means at once.
	DelayMs *int64 `json:"delayMs,omitempty"`

	Payload json.RawMessage `json:"payload,omitempty"`
}

// CancelTimer is the payload of an envelope that cancels a timer of the envelope's
// tenant.
type CancelTimer struct {
	ServiceCallID string `json:"serviceCallId"`
}

// Instant is a time whose JSON form is RFC 3339 text or a number of milliseconds since 1970.
type Instant struct{ time.Time }

// UnmarshalJSON reads either form.
func (i *Instant) UnmarshalJSON(data []byte) error {
	if ms, err := strconv.ParseInt(string(data), 10, 64); err == nil {
		i.Time = time.UnixMilli(ms).UTC()
		return nil
	}
	return i.Time.UnmarshalJSON(data)
}

// commands is the queue of commands that were redriven from quarantine, and their route.
const commands = "commands"

// Handle applies a command that arrived as an envelope. At is its position in the log that it
// was read from: a command that is delivered again, or out of order, changes nothing.
//
// An error that matches [bus.ErrInvalid] means that the command can never be applied: see
// [Service.Refuse]. After any other error the call should be retried.
func (s *Service) Handle(ctx context.Context, e bus.Envelope, at bus.Position) error {
	applied, err := s.handle(ctx, e, at)
	switch {
	case errors.Is(err, ErrInvalid), errors.Is(err, ErrQuota):
		return fmt.Errorf("%w: %w", err, bus.ErrInvalid)
	case err != nil:
		return err
	case applied:
		s.meters.outcome(ctx, "applied")
	default:
		s.meters.outcome(ctx, "stale")
	}
	return nil
}

func (s *Service) handle(ctx context.Context, e bus.Envelope, at bus.Position) (applied bool, err error) {
	if err := e.Validate(); err != nil {
		return false, err
	}
	switch e.Type {
	case TypeScheduleTimer:
		var c ScheduleTimer
		if err := unmarshal(&e, &c, "are serviceCallId, dueAt, delayMs, payload"); err != nil {
			return false, err
		}
		r, err := c.request(&e)
		if err != nil {
			return false, err
		}
		r.Position = at
		_, n, err := s.schedule(ctx, "schedule", []Request{r})
		return n == 1, err
	case TypeCancelTimer:
		var c CancelTimer
		if err := unmarshal(&e, &c, "is serviceCallId"); err != nil {
			return false, err
		}
		if err := checkName("cancel", e.TenantID, c.ServiceCallID); err != nil {
			return false, err
		}
		return s.apply(ctx, e.TenantID, c.ServiceCallID, at)
	default:
		return false, invalid("command", "envelope %s is of type %q; %s and %s are allowed", e.ID, e.Type, TypeScheduleTimer, TypeCancelTimer)
	}
}

// request returns the command as a request. A command without a usable time is refused: to
// fire at once is what it least wants.
func (c *ScheduleTimer) request(e *bus.Envelope) (Request, error) {
	const verb = "schedule"
	r := Request{Tenant: e.TenantID, Key: c.ServiceCallID, CorrelationID: e.CorrelationID, Payload: c.Payload}
	at := r.Tenant + "/" + r.Key
	switch most := MaxDelay.Milliseconds(); {
	case c.DueAt == nil && c.DelayMs == nil:
		return r, invalid(verb, "%s has neither dueAt nor delayMs; one of them is needed, and a delayMs of 0 means at once", at)
	case c.DueAt != nil && c.DelayMs != nil:
		return r, invalid(verb, "%s has a due time and a delay; only one is allowed", at)
	case c.DueAt != nil && c.DueAt.Before(MinDueAt):
		return r, invalid(verb, "%s has a dueAt of %s, before %s; a number is in milliseconds since 1970",
			at, c.DueAt.Format(time.RFC3339Nano), MinDueAt.Format(time.RFC3339))
	case c.DueAt != nil:
		r.DueAt = c.DueAt.Time
	case *c.DelayMs < 0 || *c.DelayMs > most:
		return r, invalid(verb, "%s has a delay of %d ms, 0 to %d is allowed", at, *c.DelayMs, most)
	default:
		r.Delay = time.Duration(*c.DelayMs) * time.Millisecond
	}
	return r, nil
}

// unmarshal decodes the payload of a command, and refuses fields that it does not know.
func unmarshal(e *bus.Envelope, into any, allowed string) error {
	d := json.NewDecoder(bytes.NewReader(e.Payload))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return invalid("command", "payload of envelope %s, a %s: %v; allowed %s", e.ID, e.Type, err, allowed)
	}
	return nil
}

// Refuse puts a command that can never be applied into quarantine, from where it can be redriven
// once the cause is fixed. Data is the message as it was received.
//
// The quarantine is that of the envelope's tenant. If data is no envelope it is that of
// tenant, which the transport knows, such as from a subject of NATS. If tenant is empty as
// well, the entry is in the default tenant's quarantine without the data, since that may
// belong to another tenant.
func (s *Service) Refuse(ctx context.Context, tenant string, data []byte, at bus.Position, why error) error {
	if e, err := bus.Decode(data); err == nil {
		tenant = e.TenantID
	} else if bus.CheckName("tenant", tenant, MaxTenant) != nil {
		tenant = ""
		why = fmt.Errorf("%w (%d bytes not kept: unknown tenant)", why, len(data))
		data = nil
	}
	if most := s.store.Limits().Body; len(data) > most {
		data = data[:most]
	}
	now := s.now(ctx)
	name := fmt.Sprintf("%s/%d", at.Source, at.Sequence)
	if at.Source == "" {
		name = base.NewUUID(now)
	}
	m := store.Message{
		Key: store.Key{Queue: commands, Tenant: tenant, Name: name},
		ID:  "command", Body: data, PutAt: now, Attempt: 1,
	}
	q := store.Quarantine(m, commands, outbox.ReasonRefused, now)
	q.Record.Key.ID = "command-" + name // refused twice, it is there once
	q.Record.Tags[store.TagError] = base.Shorten(why.Error(), store.MaxName)
	if err := s.store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{q}}); err != nil {
		return wrap("refuse command", tenant, m.Key.Name, err)
	}
	s.meters.outcome(ctx, "refused")
	s.log.Error("timer command refused, in quarantine", "tenant", tenant, "source", at.Source, "sequence", at.Sequence, "error", why)
	return nil
}

// applyAll applies commands that were redriven, until ctx ends.
func (s *Service) applyAll(ctx context.Context) error {
	loop := claimloop.Loop{
		Store: s.store, Clock: s.clock,
		Request: store.ClaimRequest{
			Queue: commands, Routes: []string{commands}, Max: 16, MaxMessages: 1, Lease: s.cfg.LeaseDuration,
		},
		Handle: func(ctx context.Context, claims []store.Claim) (err error) {
			for i := range claims {
				err = errors.Join(err, s.redriven(ctx, &claims[i]))
			}
			if err != nil {
				s.log.Debug("commands not applied, trying again", "error", err)
			}
			return err
		},
	}
	return loop.Run(ctx)
}

// redriven applies a command that was redriven: as one that has just arrived, since an operator
// redrives it to have it applied.
func (s *Service) redriven(ctx context.Context, c *store.Claim) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.LeaseDuration)
	defer cancel()
	tx := &store.Tx{Finish: []store.Finish{{Lease: c.Lease()}}}
	e, err := bus.Decode(c.Messages[0].Body)
	if err == nil {
		err = s.Handle(ctx, e, bus.Position{})
	}
	switch {
	case err == nil:
	case errors.Is(err, bus.ErrInvalid):
		q := store.Quarantine(c.Messages[0], c.Route, outbox.ReasonRefused, c.Now)
		q.Record.Tags[store.TagError] = base.Shorten(err.Error(), store.MaxName)
		tx.PutRecords = append(tx.PutRecords, q)
		s.meters.outcome(ctx, "refused")
	default:
		_ = s.store.Release(ctx, store.Release{Lease: c.Lease(), After: backoff.Jitter(time.Second, c.Key.Tenant+"/"+c.Key.Name, c.Attempt())})
		return err
	}
	return s.store.Commit(ctx, tx)
}
