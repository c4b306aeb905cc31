package action

import (
	"context"
	"time"
)

// Target is what does an action. Package [github.com/abidehq/abide/action/target] has
// commands, HTTP requests and more.
type Target interface {
	// Run does it. If it returns an error, the action has failed, with what else is in the
	// outcome. It returns soon after ctx has ended; [context.Cause] says why it did.
	Run(ctx context.Context, r Run) (Outcome, error)
}

// Run is what a target is to do.
type Run struct {
	// Action as it is while it runs.
	Action Action

	// Body is that of a webhook, byte for byte as it was received.
	Body []byte
}

// Func is a function that is a target.
type Func func(ctx context.Context, r Run) (Outcome, error)

// Run calls f.
func (f Func) Run(ctx context.Context, r Run) (Outcome, error) { return f(ctx, r) }

// Definition says how a target is used.
type Definition struct {
	Target Target

	// Timeout is how long a run may take: an hour, unless it says otherwise.
	Timeout time.Duration

	// Attempts is how often an action is run that fails: once, unless it says otherwise.
	// After the first time it waits for Backoff, a second unless it says otherwise, then
	// twice as long each time, up to an hour.
	Attempts int
	Backoff  time.Duration

	// Idempotent says that all actions of the target are: they are run again, three times
	// at most or as often as Attempts says, if the process died that ran them.
	Idempotent bool
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
	}
	return nil
}

// delay returns how long to wait after an attempt that failed, the first being 1.
func (d *Definition) delay(attempt int) time.Duration {
	wait := d.Backoff
	for i := 1; i < attempt && wait < maxBackoff; i++ {
		wait *= 2
	}
	return min(wait, maxBackoff)
}
