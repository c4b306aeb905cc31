package target

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/engine"
)

// DefaultID is the default template of IDs and keys: it says for which day an action was planned, and
// has no slash, which would be %2F in the paths of the API.
const DefaultID = "{slug}-{date}-{id}"

// StartConfig configures a [Start] target.
type StartConfig struct {
	// Client is where it is started. Its codec must be [abide.JSON], or one that takes a
	// [json.RawMessage] for what it is.
	Client abide.Caller

	// Orchestration and Version say which orchestration it is. Any process may serve it.
	Orchestration string
	Version       string

	// ID is the template of the ID of the instance. Empty means [DefaultID].
	ID string

	// All has the orchestration get an [Input], with the headers of a webhook and with a body
	// that need not be JSON. Without it, it gets the payload, or the body of the webhook,
	// itself.
	All bool
}

// Start starts an instance in the tenant of the action, and does not wait for its result.
//
// An instance that exists with that ID is the one, and the action has completed. So it does
// no harm to run such an action again: its definition should say that it is idempotent.
type Start struct {
	client        *abide.Client
	orchestration *abide.Orchestration[json.RawMessage, json.RawMessage]
	id            template
	all           bool
}

var _ action.Target = (*Start)(nil)

// NewStart returns a target. An error matches [action.ErrInvalid].
func NewStart(cfg StartConfig) (*Start, error) {
	if cfg.Client == nil {
		return nil, invalid("StartConfig.Client", "is nil; a client is needed")
	}
	if err := engine.CheckName("orchestration", cfg.Orchestration); err != nil {
		return nil, invalid("StartConfig.Orchestration", "is not allowed: %v", err)
	}
	if err := engine.CheckVersion(cfg.Version); err != nil {
		return nil, invalid("StartConfig.Version", "is not allowed: %v", err)
	}
	if cfg.ID == "" {
		cfg.ID = DefaultID
	}
	id, err := parseTemplate("StartConfig.ID", cfg.ID)
	if err != nil {
		return nil, err
	}
	return &Start{
		client:        cfg.Client.AsClient(),
		orchestration: abide.OrchestrationNamed[json.RawMessage, json.RawMessage](cfg.Orchestration, abide.Version(cfg.Version)),
		id:            id, all: cfg.All,
	}, nil
}

// Run starts the instance.
func (s *Start) Run(ctx context.Context, r action.Run) (action.Outcome, error) {
	input, err := asJSON(&r, s.all)
	if err != nil {
		return action.Outcome{}, fmt.Errorf("target: start %s: %w", s.orchestration.Name(), err)
	}
	instance, err := patiently(ctx, func() (*abide.Instance[json.RawMessage], error) {
		return s.orchestration.Start(ctx, s.client, input, abide.ID(s.id.expand(&r.Action, nil)), abide.Tenant(r.Action.Tenant))
	})
	if err != nil {
		return action.Outcome{}, fmt.Errorf("target: start %s: %w", s.orchestration.Name(), err)
	}
	verb := "started"
	if instance.Existed() {
		verb = "found"
	}
	return action.Outcome{Output: fmt.Sprintf("%s instance %v", verb, instance.Ref())}, nil
}
