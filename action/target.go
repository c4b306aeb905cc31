package action

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/backoff"
)

// Target runs actions. Package [github.com/abidehq/abide/action/target] has commands, HTTP
// requests and more.
type Target interface {
	// Run runs an action. If it returns an error, the action fails; the outcome is stored in
	// either case. An error that matches [ErrState] is not retried, whatever
	// [Definition.Attempts] is. It must return soon after ctx ends; [context.Cause] returns the
	// reason.
	Run(ctx context.Context, r Run) (Outcome, error)
}

// Run is the input of a target.
type Run struct {
	// Action is the action, whose status is running.
	Action Action

	// Body is the body of the webhook as it was received.
	Body []byte
}

// Func adapts a function to [Target].
type Func func(ctx context.Context, r Run) (Outcome, error)

// Run calls f.
func (f Func) Run(ctx context.Context, r Run) (Outcome, error) { return f(ctx, r) }

// Definition is a target and how it is run.
type Definition struct {
	Target Target

	// Timeout is the largest duration of a run. Zero means an hour.
	Timeout time.Duration

	// Attempts is the largest number of runs of an action that fails. Zero means 1. Backoff is
	// the delay before the second run; zero means a second. It doubles with each further run, up
	// to an hour. Each delay is shortened by up to a fifth, by a hash of the action and the
	// attempt, so that actions that failed together are not retried together.
	Attempts int
	Backoff  time.Duration

	// Tenants are the tenants that the target serves; nil means all. An action of another tenant
	// is refused with [ErrForbidden] when it is added, and fails if it was added by a process
	// that does not have the target.
	Tenants []string

	// HooksOnly restricts the target to actions of webhooks, see [Service.Receive]. Adding an
	// action or a schedule for it is refused with [ErrForbidden], so that nothing bypasses the
	// verification of the webhook.
	HooksOnly bool

	// Idempotent makes all actions of the target idempotent: they are run again if the process
	// that ran them died, up to three times or Attempts, whichever is more.
	Idempotent bool

	// MaxInFlight limits how many actions of the target run concurrently in this process, so that one
	// that is slow cannot take all of [Config.Slots]. Zero means no limit but these. What is beyond
	// that stays pending, and is not claimed.
	MaxInFlight int
}

// crashAttempts is how often an idempotent action is run whose process died.
const crashAttempts = 3

const (
	maxAttempts = 1_000
	maxBackoff  = time.Hour
)

func (d *Definition) setDefaults(name string) error {
	if err := checkName("new service", "name of a target", name, MaxTarget); err != nil {
		return err
	}
	if d.Target == nil {
		return invalid("new service", "target %q has no Target", name)
	}
	d.Tenants = slices.Clone(d.Tenants)
	for _, tenant := range d.Tenants {
		if err := checkName("new service", "tenant of target "+strconv.Quote(name), tenant, MaxTenant); err != nil {
			return err
		}
	}
	if d.Timeout == 0 {
		d.Timeout = time.Hour
	}
	if d.Attempts == 0 {
		d.Attempts = 1
	}
	if d.Backoff == 0 {
		d.Backoff = time.Second
	}
	switch {
	case d.Timeout < 0:
		return invalid("new service", "target %q: Timeout is %v, which is negative", name, d.Timeout)
	case d.Attempts < 1 || d.Attempts > maxAttempts:
		return invalid("new service", "target %q: Attempts is %d; 1 to %d is allowed", name, d.Attempts, maxAttempts)
	case d.Backoff < time.Millisecond || d.Backoff > maxBackoff:
		return invalid("new service", "target %q: Backoff is %v; %v to %v is allowed", name, d.Backoff, time.Millisecond, maxBackoff)
	case d.MaxInFlight < 0:
		return invalid("new service", "target %q: MaxInFlight is %d, which is negative", name, d.MaxInFlight)
	}
	return nil
}

// delay returns how long to wait after the latest attempt of an action that failed.
func (d *Definition) delay(a *Action) time.Duration {
	return backoff.Exponential{First: d.Backoff, Max: maxBackoff, Factor: 2}.Delay(a.Tenant+"/"+a.ID, a.Attempt)
}

// permits reports whether the target does actions of a tenant that have that trigger.
func (d *Definition) permits(tenant string, kind TriggerKind) bool {
	if d.HooksOnly && kind != Webhook {
		return false
	}
	return d.Tenants == nil || slices.Contains(d.Tenants, tenant)
}

// Targets returns the names of this service's targets that a tenant can add actions and
// schedules for, sorted. An empty tenant means any tenant.
func (s *Service) Targets(tenant string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.cfg.Targets)) {
		d := s.cfg.Targets[name]
		if tenant == "" && !d.HooksOnly || tenant != "" && d.permits(tenant, Scheduled) {
			names = append(names, name)
		}
	}
	return names
}

// shared returns the targets of this service that every tenant can add actions and schedules for.
func (s *Service) shared() []string {
	var names []string
	for _, name := range s.targets {
		if d := s.cfg.Targets[name]; d.Tenants == nil && !d.HooksOnly {
			names = append(names, name)
		}
	}
	return names
}

// permit returns an error that matches [ErrForbidden] if the target is one of this service's
// and not for the tenant. The error names only targets that the tenant can use. A target of
// another process is permitted: that process decides when it runs the action.
func (s *Service) permit(verb, tenant, target string, kind TriggerKind) error {
	d, ours := s.cfg.Targets[target]
	if !ours || d.permits(tenant, kind) {
		return nil
	}
	can := "it can use none of this process"
	if names := s.Targets(tenant); len(names) > 0 {
		can = "it can use " + strings.Join(names, ", ")
	}
	return fmt.Errorf("action: %s: target %q is not for %s actions of tenant %q; %s: %w", verb, target, kind, tenant, can, ErrForbidden)
}
