package bench

import (
	"context"
	"io"
	"log/slog"
	"os/exec"
	"time"
)

// Workloads of an engine.
const (
	WorkloadHello    Workload = "hello"    // one activity
	WorkloadSequence Workload = "sequence" // activities or steps, one after another
	WorkloadFanout   Workload = "fanout"   // many activities at once
	WorkloadSleep    Workload = "sleep"    // instances that wait for a time
	WorkloadEvents   Workload = "events"   // instances that wait for events
	WorkloadIdle     Workload = "idle"     // hello, one at a time
)

// EngineOptions say what to measure of an engine. Errors name them as the command line
// does.
type EngineOptions struct {
	// Store is the URL of the store. Its backend must be imported.
	Store string

	Workload Workload

	// N ends a measurement after so many orchestrations, and Duration after a while,
	// whichever comes first. Zero is without end; one must be set. With
	// [WorkloadSleep] it is N.
	N        int64
	Duration time.Duration

	// Clients is how many goroutines start an orchestration, wait for its result, and
	// start the next one. With [WorkloadIdle] and [WorkloadSleep] it means nothing.
	Clients int

	// Length is how many activities, steps or events an orchestration of
	// [WorkloadSequence] or [WorkloadEvents] has.
	Length int

	// Steps makes a sequence one of steps.
	Steps bool

	// Width is how many activities an orchestration of [WorkloadFanout] has.
	Width int

	// Over is the time over which the instances of [WorkloadSleep] wake, and Lead how
	// long before that they are started. A Lead of zero means as long as it probably
	// takes until all of them sleep.
	Over time.Duration
	Lead time.Duration

	// Idle and Reopen make the instances of [WorkloadSleep] sleep for longer than the run
	// takes: Idle is how long the CPU of the process is measured while they do, and
	// Reopen says how the store is opened again.
	Idle   time.Duration
	Reopen Reopen

	// LoadCommand returns the command of a process that calls [LoadEngine] with the same
	// options and prints [LoadedLine] to its standard output. It is needed for
	// [ReopenCrash] alone.
	LoadCommand func(ctx context.Context) (*exec.Cmd, error)

	// Patience is how long to wait when nothing happens any more. Zero means half a
	// minute.
	Patience time.Duration

	// CPUProfile and MemProfile, if not nil, get profiles of what is measured.
	CPUProfile io.Writer
	MemProfile io.Writer

	// Logger gets what the engine has to say; nil is silent.
	Logger *slog.Logger

	// Progress tells a person how it goes; nil is silent.
	Progress *Progress
}

// What is allowed.
const (
	maxClients = 10_000
	maxLength  = 10_000 // each takes a few events of a history, whose length is limited
	maxWidth   = 10_000
	maxNaps    = 10_000_000
	maxOver    = 24 * time.Hour
)

// asleep reports whether instances sleep for longer than the run takes.
func (o *EngineOptions) asleep() bool { return o.Idle > 0 || o.Reopen != ReopenNever }

// Validate reports whether the options make sense. The error names what is allowed
// and matches [ErrOptions].
func (o *EngineOptions) Validate() error {
	if o.Store == "" {
		return invalid("no --store: its URL looks like memory:// or pebble://data")
	}
	if o.N < 0 {
		return invalid("--n is %d: must not be negative", o.N)
	}
	if o.Duration < 0 {
		return invalid("--duration is %v: must not be negative", o.Duration)
	}
	switch o.Workload {
	case WorkloadSleep:
		return o.checkSleep()
	case WorkloadHello, WorkloadIdle, WorkloadSequence, WorkloadEvents, WorkloadFanout:
		return o.checkLoop()
	default:
		return invalid("unknown workload %q; known are: hello, sequence, fanout, sleep, events, idle", o.Workload)
	}
}

// checkLoop checks the options of clients that start one orchestration after another.
func (o *EngineOptions) checkLoop() error {
	hasLength := o.Workload == WorkloadSequence || o.Workload == WorkloadEvents
	switch {
	case o.N == 0 && o.Duration == 0:
		return invalid("neither --n nor --duration ends the measurement")
	case o.Workload != WorkloadIdle && (o.Clients < 1 || o.Clients > maxClients):
		return invalid("--clients is %d; allowed are 1 to %d", o.Clients, maxClients)
	case hasLength && (o.Length < 1 || o.Length > maxLength):
		return invalid("--length is %d; allowed are 1 to %d", o.Length, maxLength)
	case o.Workload == WorkloadFanout && (o.Width < 1 || o.Width > maxWidth):
		return invalid("--width is %d; allowed are 1 to %d", o.Width, maxWidth)
	}
	return nil
}

func (o *EngineOptions) checkSleep() error {
	switch {
	case o.N < 1 || o.N > maxNaps:
		return invalid("--n is %d; allowed are 1 to %d", o.N, maxNaps)
	case o.Over <= 0 || o.Over > maxOver:
		return invalid("--over is %v; allowed are more than 0 and at most %v", o.Over, maxOver)
	case o.Lead < 0 || o.Lead > maxOver:
		return invalid("--lead is %v; allowed are 0 to %v", o.Lead, maxOver)
	case o.Idle < 0:
		return invalid("--idle is %v: must not be negative", o.Idle)
	case o.Reopen != ReopenNever && o.Reopen != ReopenClean && o.Reopen != ReopenCrash:
		return invalid("--reopen is %q; known are: clean, crash", o.Reopen)
	case o.Reopen != ReopenNever && schemeOf(o.Store) == "memory":
		return invalid("--reopen is not possible with a memory: store, which does not outlive its process")
	case o.Reopen == ReopenCrash && o.LoadCommand == nil:
		return invalid("--reopen=crash needs a command that loads the store")
	}
	return nil
}
