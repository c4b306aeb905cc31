package target

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/engine"
)

// RaiseConfig configures a [Raise] target.
type RaiseConfig struct {
	// Client is where it is raised. Its codec must be [abide.JSON], or one that takes a
	// [json.RawMessage] for what it is.
	Client abide.Caller

	// Event is the name of the event.
	Event string

	// Instance is the template of the ID of the instance, such as "order-{slug}". It belongs
	// to the tenant of the action, and need not exist yet.
	Instance string

	// All has an [Input] come with the event, with the headers of a webhook and with a body
	// that need not be JSON. Without it, it is the payload, or the body of the webhook,
	// itself.
	All bool
}

// Raise raises an event for an instance.
//
// An action that is run again raises the same event, which is received once, unless the
// instance has received it already: then it gets it twice.
type Raise struct {
	client   *abide.Client
	event    *abide.Event[json.RawMessage]
	instance template
	all      bool
}

var _ action.Target = (*Raise)(nil)

// NewRaise returns a target. An error matches [action.ErrInvalid].
func NewRaise(cfg RaiseConfig) (*Raise, error) {
	if cfg.Client == nil {
		return nil, invalid("RaiseConfig.Client", "is nil; a client is needed")
	}
	if err := engine.CheckName("event", cfg.Event); err != nil {
		return nil, invalid("RaiseConfig.Event", "is not allowed: %v", err)
	}
	if cfg.Instance == "" {
		return nil, invalid("RaiseConfig.Instance", "is empty; it must be such as order-{slug}")
	}
	instance, err := parseTemplate("RaiseConfig.Instance", cfg.Instance)
	if err != nil {
		return nil, err
	}
	return &Raise{client: cfg.Client.AsClient(), event: abide.NewEvent[json.RawMessage](cfg.Event), instance: instance, all: cfg.All}, nil
}

// Run raises the event.
func (t *Raise) Run(ctx context.Context, r action.Run) (action.Outcome, error) {
	ref := abide.Ref{Tenant: r.Action.Tenant, ID: t.instance.expand(&r.Action, nil)}
	data, err := asJSON(&r, t.all)
	if err == nil {
		err = t.event.Raise(ctx, t.client, ref.ID, data, abide.Tenant(ref.Tenant), abide.ID(r.Action.ID))
	}
	if err != nil {
		return action.Outcome{}, fmt.Errorf("target: raise %s for %v: %w", t.event.Name(), ref, err)
	}
	return action.Outcome{Output: fmt.Sprintf("raised %s for instance %v", t.event.Name(), ref)}, nil
}
