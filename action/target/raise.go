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
//
// An event for an instance that has ended is dropped. A webhook that comes late is no failure: its
// action completes, and its output says that the event was dropped. So does an action that is run
// again, since an earlier run may have raised the event. Another action fails with
// [action.ErrState], and is not retried.
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
	raised, err := t.raise(ctx, &r, ref)
	if err != nil {
		return action.Outcome{}, fmt.Errorf("target: raise %s for %v: %w", t.event.Name(), ref, err)
	}
	verb, more := "raised", ""
	switch raised.Outcome {
	case abide.OutcomeEnded:
		verb, more = "dropped", ", which has ended: it is "+string(raised.Status)
	case abide.OutcomeNoInstance:
		more = ", which does not exist; kept until it is started"
	case abide.OutcomeKept:
		more = ", which does not wait for it; kept until it does"
	default:
	}
	return action.Outcome{Output: fmt.Sprintf("%s %s for instance %v%s", verb, t.event.Name(), ref, more)}, nil
}

// raise raises the event, and returns what it has found.
func (t *Raise) raise(ctx context.Context, r *action.Run, ref abide.Ref) (abide.Raised, error) {
	data, err := asJSON(r, t.all)
	if err != nil {
		return abide.Raised{}, err
	}
	opts := []abide.RaiseOption{abide.Tenant(ref.Tenant), abide.ID(r.Action.ID)}
	if r.Action.Trigger.Kind == action.Webhook || r.Action.Attempt > 1 {
		opts = append(opts, abide.IgnoreEnded())
	}
	request, err := t.event.Prepare(t.client, ref.ID, data, opts...)
	if err != nil {
		return abide.Raised{}, err
	}
	raised, err := patiently(ctx, func() ([]abide.Raised, error) { return t.client.Raise(ctx, request) })
	if err != nil {
		return abide.Raised{}, err
	}
	return raised[0], nil
}
