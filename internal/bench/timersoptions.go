package bench

import (
	"context"
	"io"
	"log/slog"
	"os/exec"
	"time"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// WorkloadTimers is that of tenant timers, which [RunTimers] measures.
const WorkloadTimers Workload = "timers"

// TimersOptions say what to measure of tenant timers. Errors name them as the command
// line does.
type TimersOptions struct {
	// Store is the URL of the store. Its backend must be imported.
	Store string

	// Pending is how many timers the store holds that are not due in the run. They are
	// there before anything else is measured. A store that has as many already is used as
	// it is.
	Pending int

	// Idle is how long the CPU of the process is measured while they are pending, and
	// Reopen says how the store is opened again then.
	Idle   time.Duration
	Reopen Reopen

	// LoadCommand returns the command of a process that calls [LoadTimers] with the same
	// options and prints [LoadedLine] to its standard output. It is needed for
	// [ReopenCrash] alone.
	LoadCommand func(ctx context.Context) (*exec.Cmd, error)

	// Clients is how many goroutines schedule timers singly, for the Duration. A Duration
	// of zero leaves that out.
	Clients  int
	Duration time.Duration

	// N timers are due at random times within Over.
	N    int
	Over time.Duration

	// Herd timers of one tenant are due at the same instant, a few of another tenant while
	// they are drained. If it is not zero, nothing is scheduled singly, and N and Over
	// mean nothing.
	Herd int

	// Lead is how long before they are due timers are scheduled. Zero means as long as
	// it probably takes until all of them are there.
	Lead time.Duration

	// Bulk is how many timers are scheduled in one commit, Tenants how many tenants they
	// belong to, and Payload how many bytes each of them carries.
	Bulk    int
	Tenants int
	Payload int

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
	maxTimers  = 10_000_000 // that are measured one by one
	maxPending = 100_000_000
	maxTenants = 10_000

	// besides is more than a timer takes in a commit besides its payload, which is in its
	// record and in its message.
	besides = 512
)

// Validate reports whether the options make sense. The error names what is allowed and
// matches [ErrOptions].
func (o *TimersOptions) Validate() error {
	if o.Store == "" {
		return invalid("no --store: its URL looks like memory:// or pebble://data")
	}
	for _, check := range []func() error{o.checkNumbers, o.checkTimes, o.checkReopen} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (o *TimersOptions) checkNumbers() error {
	for _, f := range []struct {
		flag               string
		value, least, most int
	}{
		{"pending", o.Pending, 0, maxPending},
		{"clients", o.Clients, 1, maxClients},
		{"n", o.N, 1, maxTimers},
		{"herd", o.Herd, 0, maxTimers},
		{"bulk", o.Bulk, 1, timer.MaxBulk},
		{"tenants", o.Tenants, 1, maxTenants},
		{"payload", o.Payload, 0, timer.DefaultPayload},
	} {
		if f.value < f.least || f.value > f.most {
			return invalid("--%s is %d; allowed are %d to %d", f.flag, f.value, f.least, f.most)
		}
	}
	if bytes := o.Bulk * (2*o.Payload + besides); bytes > store.MaxTxBytes {
		return invalid("--bulk is %d and --payload %d: that is about %d bytes in a commit, and at most %d are allowed", o.Bulk, o.Payload, bytes, store.MaxTxBytes)
	}
	return nil
}

func (o *TimersOptions) checkTimes() error {
	switch {
	case o.Duration < 0:
		return invalid("--duration is %v: must not be negative", o.Duration)
	case o.Over <= 0 || o.Over > maxOver:
		return invalid("--over is %v; allowed are more than 0 and at most %v", o.Over, maxOver)
	case o.Lead < 0 || o.Lead > maxOver:
		return invalid("--lead is %v; allowed are 0 to %v", o.Lead, maxOver)
	case o.Idle < 0:
		return invalid("--idle is %v: must not be negative", o.Idle)
	}
	return nil
}

func (o *TimersOptions) checkReopen() error {
	switch {
	case o.Reopen != ReopenNever && o.Reopen != ReopenClean && o.Reopen != ReopenCrash:
		return invalid("--reopen is %q; known are: clean, crash", o.Reopen)
	case o.Reopen != ReopenNever && o.Pending == 0:
		return invalid("--reopen opens a store with timers that are pending: it needs --pending")
	case o.Reopen != ReopenNever && schemeOf(o.Store) == "memory":
		return invalid("--reopen is not possible with a memory: store, which does not outlive its process")
	case o.Reopen == ReopenCrash && o.LoadCommand == nil:
		return invalid("--reopen=crash needs a command that loads the store")
	}
	return nil
}
