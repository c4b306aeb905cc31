package target

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

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

	// Under are limits of the instances, at most 8, and Priority is their place among what waits for
	// these, from -100 to 100.
	Under    []Under
	Priority int
}

// Under is a limit under which a [Start] target has its instances run, see [abide.Under]. An instance is
// started in any case, so that its action completes at once; until the limit admits the instance, it is
// pending, and holds no slot.
type Under struct {
	// Limit is the limit, in the tenant of the action.
	Limit *abide.Limit

	// Key is the template of the key of a limit that has one for each, such as "{slug}". What it comes to
	// must have 1 to 512 bytes.
	Key string
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
	under         []under
	priority      int
}

// under is a limit with the template of its key, which is empty if the limit has no keys.
type under struct {
	limit *abide.Limit
	key   template
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
	s := &Start{
		client:        cfg.Client.AsClient(),
		orchestration: abide.OrchestrationNamed[json.RawMessage, json.RawMessage](cfg.Orchestration, abide.Version(cfg.Version)),
		id:            id, all: cfg.All, priority: cfg.Priority,
	}
	for _, u := range cfg.Under {
		key, err := parseTemplate("Under.Key", u.Key)
		if err != nil {
			return nil, err
		}
		s.under = append(s.under, under{u.Limit, key})
	}
	if err := s.checkLimits(); err != nil {
		return nil, err
	}
	return s, nil
}

// checkLimits reports whether instances can have the limits, with the keys of an action that has an ID and
// a slug.
func (s *Start) checkLimits() error {
	r, err := s.orchestration.Prepare(s.client, nil, s.options(&action.Action{ID: "id", Tenant: "tenant", Slug: "slug"})...)
	if err != nil {
		return invalid("StartConfig", "%v", err)
	}
	if err := engine.CheckLimits(r.Limits, int32(min(max(r.Priority, math.MinInt32), math.MaxInt32))); err != nil {
		return invalid("StartConfig.Under", "is not allowed: %v", err)
	}
	return nil
}

// options returns how the instance of an action is started.
func (s *Start) options(a *action.Action) []abide.StartOption {
	opts := []abide.StartOption{abide.ID(s.id.expand(a, nil)), abide.Tenant(a.Tenant), abide.Priority(s.priority)}
	for _, u := range s.under {
		opts = append(opts, abide.UnderKey(u.limit, u.key.expand(a, nil)))
	}
	return opts
}

// Run starts the instance.
func (s *Start) Run(ctx context.Context, r action.Run) (action.Outcome, error) {
	input, err := asJSON(&r, s.all)
	if err != nil {
		return action.Outcome{}, fmt.Errorf("target: start %s: %w", s.orchestration.Name(), err)
	}
	instance, err := patiently(ctx, func() (*abide.Instance[json.RawMessage], error) {
		return s.orchestration.Start(ctx, s.client, input, s.options(&r.Action)...)
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
