package target

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/timer"
)

// TimerConfig configures a [Timer] target.
type TimerConfig struct {
	// Service schedules it.
	Service *timer.Service

	// Key is the template of the key of the timer. Empty means [DefaultID]. With a key such as
	// {slug}, a later action moves the timer.
	Key string

	// Delay is how long from the run of the action the timer is due. An input that is an
	// object with a dueAt, as RFC 3339 or in milliseconds since 1970, says so itself, and
	// must if there is no delay.
	Delay time.Duration
}

// Timer schedules a timer in the tenant of the action. The input, which must be JSON,
// becomes its payload, and the ID of the action its correlation ID.
//
// An action that is run again changes nothing about the timer that it has scheduled,
// unless another action has moved that meanwhile. So its definition should say that it is
// idempotent.
type Timer struct {
	service *timer.Service
	key     template
	delay   time.Duration
}

var _ action.Target = (*Timer)(nil)

// NewTimer returns a target. An error matches [action.ErrInvalid].
func NewTimer(cfg TimerConfig) (*Timer, error) {
	switch {
	case cfg.Service == nil:
		return nil, invalid("TimerConfig.Service", "is nil; a service is needed")
	case cfg.Delay < 0 || cfg.Delay > timer.MaxDelay:
		return nil, invalid("TimerConfig.Delay", "is %v; 0 to %v is allowed", cfg.Delay, timer.MaxDelay)
	case cfg.Key == "":
		cfg.Key = DefaultID
	}
	key, err := parseTemplate("TimerConfig.Key", cfg.Key)
	if err != nil {
		return nil, err
	}
	return &Timer{service: cfg.Service, key: key, delay: cfg.Delay}, nil
}

// Run schedules the timer.
func (t *Timer) Run(ctx context.Context, r action.Run) (action.Outcome, error) {
	request := timer.Request{
		Tenant: r.Action.Tenant, Key: t.key.expand(&r.Action, nil), CorrelationID: r.Action.ID,
		// An action stands in a log of its own, at its only position.
		Position: bus.Position{Source: "action/" + r.Action.ID, Sequence: 1},
	}
	err := t.plan(&request, &r)
	var done timer.Timer
	if err == nil {
		done, err = t.service.Schedule(ctx, request)
	}
	if err != nil {
		return action.Outcome{}, fmt.Errorf("target: schedule timer %s: %w", request.Key, err)
	}
	return action.Outcome{Output: fmt.Sprintf("timer %s is due at %s", done.Key, done.DueAt.Format(time.RFC3339Nano))}, nil
}

// plan sets when the timer is due, and its payload.
func (t *Timer) plan(request *timer.Request, r *action.Run) error {
	if len(raw(r)) > 0 {
		payload, err := asJSON(r, false)
		if err != nil {
			return err
		}
		request.Payload = payload
	}
	var own struct {
		DueAt *timer.Instant `json:"dueAt"`
	}
	if bytes.HasPrefix(bytes.TrimSpace(request.Payload), []byte("{")) {
		if err := json.Unmarshal(request.Payload, &own); err != nil {
			return fmt.Errorf("dueAt is not a time; RFC 3339 or milliseconds since 1970 are allowed: %w: %w", err, action.ErrInvalid)
		}
	}
	switch {
	case own.DueAt != nil && !own.DueAt.IsZero():
		request.DueAt = own.DueAt.Time
	case t.delay > 0:
		request.Delay = t.delay
	default:
		return fmt.Errorf("the input has no dueAt, and TimerConfig.Delay is not set: %w", action.ErrInvalid)
	}
	return nil
}
