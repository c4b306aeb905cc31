package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/timer"
)

// NewTimer says when a timer fires, and what comes with it.
type NewTimer struct {
	DueAt         time.Time       `json:"due_at,omitzero" doc:"When it fires; at once if it is past. Either this or delay is needed."`
	Delay         *Duration       `json:"delay,omitempty" doc:"How long from now it fires, by the store's clock; 0s means at once."`
	CorrelationID string          `json:"correlation_id,omitempty" doc:"That of the request which led to this. It goes into the envelope."`
	Payload       json.RawMessage `json:"payload,omitempty" doc:"Any JSON value. It goes into the envelope."`
}

// Request returns what the request says, or an error that matches [timer.ErrInvalid] if it
// has no time: leaving out a field is more often a mistake than a wish for now.
func (n *NewTimer) Request(tenant, key string) (timer.Request, error) {
	r := timer.Request{Tenant: tenant, Key: key, DueAt: n.DueAt, CorrelationID: n.CorrelationID, Payload: n.Payload}
	switch {
	case n.Delay != nil:
		r.Delay = time.Duration(*n.Delay)
	case n.DueAt.IsZero():
		return r, fmt.Errorf(`timer %s/%s has neither due_at nor delay; one of them is needed, and a delay of "0s" means at once: %w`, tenant, key, timer.ErrInvalid)
	}
	return r, nil
}

// ToNewTimer is the inverse of [NewTimer.Request].
func ToNewTimer(r *timer.Request) NewTimer {
	n := NewTimer{DueAt: r.DueAt, CorrelationID: r.CorrelationID, Payload: r.Payload}
	if delay := Duration(r.Delay); delay != 0 || r.DueAt.IsZero() {
		n.Delay = &delay
	}
	return n
}

// NamedTimer is one of many timers to schedule.
type NamedTimer struct {
	Tenant    string `json:"tenant,omitempty" default:"default" doc:"Whose timer it is."`
	Key       string `json:"key" minLength:"1" doc:"Its name within the tenant."`
	IfVersion int64  `json:"if_version,omitempty" minimum:"0" doc:"The version that it must have."`
	IfAbsent  bool   `json:"if_absent,omitempty" doc:"There must be none, whatever its status."`

	NewTimer
}

// NewTimers are timers to schedule in one commit.
type NewTimers struct {
	Timers []NamedTimer `json:"timers" minItems:"1" maxItems:"10000" doc:"All of them are scheduled, or none."`
}

// Requests returns what the requests say, or the error of the first that is wrong.
func (n *NewTimers) Requests() ([]timer.Request, error) {
	requests := make([]timer.Request, len(n.Timers))
	for i := range n.Timers {
		t := &n.Timers[i]
		var err error
		if requests[i], err = t.Request(t.Tenant, t.Key); err != nil {
			return nil, fmt.Errorf("timers[%d]: %w", i, err)
		}
		requests[i].IfVersion, requests[i].IfAbsent = t.IfVersion, t.IfAbsent
	}
	return requests, nil
}

// ToNewTimers is the inverse of [NewTimers.Requests].
func ToNewTimers(requests []timer.Request) NewTimers {
	n := NewTimers{Timers: make([]NamedTimer, len(requests))}
	for i := range requests {
		r := &requests[i]
		n.Timers[i] = NamedTimer{Tenant: r.Tenant, Key: r.Key, IfVersion: r.IfVersion, IfAbsent: r.IfAbsent, NewTimer: ToNewTimer(r)}
	}
	return n
}

// Timer is an appointment of a tenant.
type Timer struct {
	Tenant        string          `json:"tenant"`
	Key           string          `json:"key"`
	Status        string          `json:"status" enum:"armed,fired,cancelled"`
	DueAt         time.Time       `json:"due_at" doc:"When it fires, or should have fired."`
	RegisteredAt  time.Time       `json:"registered_at" doc:"When it was scheduled for the first time since it last fired or was cancelled."`
	FiredAt       time.Time       `json:"fired_at,omitzero"`
	CancelledAt   time.Time       `json:"cancelled_at,omitzero"`
	CorrelationID string          `json:"correlation_id,omitempty"`
	Payload       json.RawMessage `json:"payload,omitempty"`
	EnvelopeID    string          `json:"envelope_id,omitempty" doc:"The ID of the envelope that is published when it fires."`
	Deliveries    []TimerDelivery `json:"deliveries,omitempty" doc:"The delivery of the envelope to each sink."`
	Arming        int64           `json:"arming" doc:"How often it was armed. Moving it does not count."`
	Version       int64           `json:"version" doc:"Grows with each change; it is the ETag."`
}

// TimerDelivery is the delivery of a timer's envelope to a sink.
type TimerDelivery struct {
	Sink     string    `json:"sink"`
	State    string    `json:"state" enum:"pending,published,retrying,failed"`
	Attempts int       `json:"attempts,omitempty"`
	At       time.Time `json:"at,omitzero" doc:"Of the last attempt."`
	Next     time.Time `json:"next,omitzero" doc:"When it is tried again, if it is."`
	Error    string    `json:"error,omitempty" doc:"What the sink said."`
}

// FromTimer returns a timer for the wire.
func FromTimer(t *timer.Timer) Timer {
	out := Timer{
		Tenant: t.Tenant, Key: t.Key, Status: string(t.Status), DueAt: t.DueAt, RegisteredAt: t.RegisteredAt,
		FiredAt: t.FiredAt, CancelledAt: t.CancelledAt, CorrelationID: t.CorrelationID, Payload: t.Payload,
		EnvelopeID: t.EnvelopeID, Arming: t.Arming, Version: t.Version,
	}
	for i := range t.Deliveries {
		out.Deliveries = append(out.Deliveries, fromDelivery(&t.Deliveries[i]))
	}
	return out
}

// Timer is the inverse of [FromTimer].
func (t *Timer) Timer() timer.Timer {
	out := timer.Timer{
		Tenant: t.Tenant, Key: t.Key, Status: timer.Status(t.Status), DueAt: t.DueAt, RegisteredAt: t.RegisteredAt,
		FiredAt: t.FiredAt, CancelledAt: t.CancelledAt, CorrelationID: t.CorrelationID, Payload: t.Payload,
		EnvelopeID: t.EnvelopeID, Arming: t.Arming, Version: t.Version,
	}
	for i := range t.Deliveries {
		d := &t.Deliveries[i]
		out.Deliveries = append(out.Deliveries, timer.Delivery{
			Sink: d.Sink, State: outbox.State(d.State), Attempts: d.Attempts, At: d.At, Next: d.Next, Error: d.Error,
		})
	}
	return out
}

func fromDelivery(d *timer.Delivery) TimerDelivery {
	return TimerDelivery{Sink: d.Sink, State: string(d.State), Attempts: d.Attempts, At: d.At, Next: d.Next, Error: d.Error}
}

// TimerList is a page of timers, or the result of [NewTimers], in their order.
type TimerList struct {
	Timers        []Timer `json:"timers"`
	NextPageToken string  `json:"next_page_token,omitempty" doc:"What to ask for the next page with; not there on the last one."`
}

// FromTimers returns timers for the wire.
func FromTimers(timers []timer.Timer, next string) TimerList {
	list := TimerList{Timers: make([]Timer, len(timers)), NextPageToken: next}
	for i := range timers {
		list.Timers[i] = FromTimer(&timers[i])
	}
	return list
}

// All is the inverse of [FromTimers].
func (l *TimerList) All() []timer.Timer {
	timers := make([]timer.Timer, len(l.Timers))
	for i := range l.Timers {
		timers[i] = l.Timers[i].Timer()
	}
	return timers
}

// TimerSnooze says by how much a timer fires later.
type TimerSnooze struct {
	Delay Duration `json:"delay" doc:"Counted from when it is due, or from now if it was due or has fired."`
}

// TimerRedelivery says where the envelope of a timer is to go once more.
type TimerRedelivery struct {
	Sink string `json:"sink" minLength:"1" doc:"One that it went to, or another one that the server has."`
}

// TimerCancellation says which armed timers of a tenant are cancelled: those that match all
// that is set.
type TimerCancellation struct {
	Tenant        string    `json:"tenant" minLength:"1" doc:"Whose timers they are."`
	From          time.Time `json:"from,omitzero" doc:"Due at that time or later."`
	To            time.Time `json:"to,omitzero" doc:"Due before that time."`
	CorrelationID string    `json:"correlation_id,omitempty"`
	KeyPrefix     string    `json:"key_prefix,omitempty" doc:"What their keys begin with."`
}

// TimersCancelled is how many timers were cancelled.
type TimersCancelled struct {
	Cancelled int `json:"cancelled"`
}
