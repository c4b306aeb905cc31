package bench

import (
	"io"
	"log/slog"
	"time"
)

// WorkloadActions is that of actions, which [RunActions] measures.
const WorkloadActions Workload = "actions"

// ActionsOptions say what to measure of actions. Errors name them as the command line
// does.
type ActionsOptions struct {
	// Store is the URL of the store. Its backend must be imported.
	Store string

	// Pending is how many actions the store holds that are not due in the run. They are
	// there before anything else is measured. A store that has as many already is used as
	// it is.
	Pending int

	// Ticks is how many ticks are measured while nothing is due.
	Ticks int

	// N actions are due at the same time, and Slots of them run at a time.
	N     int
	Slots int

	// Clients is how many senders send webhooks with a body of so many bytes, for the
	// Duration. A Duration of zero leaves that out.
	Clients  int
	Duration time.Duration
	Body     int

	// Patience is how long to wait when nothing happens any more. Zero means half a
	// minute.
	Patience time.Duration

	// CPUProfile and MemProfile, if not nil, get profiles of what is measured; loading
	// what is pending is left out.
	CPUProfile io.Writer
	MemProfile io.Writer

	// Logger gets what the service has to say; nil is silent.
	Logger *slog.Logger

	// Progress tells a person how it goes; nil is silent.
	Progress *Progress
}

// What is allowed.
const (
	maxActions = 10_000_000
	maxTicks   = 1_000_000
	maxSlots   = 100_000
	maxBody    = 128 << 10
)

// Validate reports whether the options make sense. The error names what is allowed and
// matches [ErrOptions].
func (o *ActionsOptions) Validate() error {
	if o.Store == "" {
		return invalid("no --store: its URL looks like memory:// or pebble://data")
	}
	for _, f := range []struct {
		flag               string
		value, least, most int
	}{
		{"pending", o.Pending, 0, maxPending},
		{"ticks", o.Ticks, 1, maxTicks},
		{"n", o.N, 1, maxActions},
		{"slots", o.Slots, 1, maxSlots},
		{"clients", o.Clients, 1, maxClients},
		{"body", o.Body, 0, maxBody},
	} {
		if f.value < f.least || f.value > f.most {
			return invalid("--%s is %d; allowed are %d to %d", f.flag, f.value, f.least, f.most)
		}
	}
	if o.Duration < 0 {
		return invalid("--duration is %v: must not be negative", o.Duration)
	}
	return nil
}
