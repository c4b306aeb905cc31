package bench

import (
	"io"
	"log/slog"
	"time"
)

// WorkloadServe is that of a server, which [RunServe] measures.
const WorkloadServe Workload = "serve"

// ServeOptions say what to measure of a server. Errors name them as the command line does.
type ServeOptions struct {
	// Store is the URL of the store. Its backend must be imported.
	Store string

	// Clients is how many clients start one instance after another over HTTP, for the
	// Duration. A Duration of zero leaves that out.
	Clients  int
	Duration time.Duration

	// Instances that are asleep and Timers that are armed are in the store when pages and
	// lists are measured: each page is asked for Pages times, and Lists is how many lists
	// there are in all. A store that has as many already is used as it is. Zero Instances
	// leave all of that out.
	Instances int
	Timers    int
	Pages     int
	Lists     int

	// Idle is how long the CPU of the process is measured while nothing happens. Zero
	// leaves that out.
	Idle time.Duration

	// Streams is how many clients follow what changes while instances are started: Changes
	// of them, Rate in a second. Zero leaves that out.
	Streams int
	Changes int
	Rate    int

	// Patience is how long to wait when nothing happens any more. Zero means half a
	// minute.
	Patience time.Duration

	// CPUProfile and MemProfile, if not nil, get profiles of all of it, loading included.
	CPUProfile io.Writer
	MemProfile io.Writer

	// Logger gets what the server has to say; nil is silent.
	Logger *slog.Logger

	// Progress tells a person how it goes; nil is silent.
	Progress *Progress
}

// What is allowed.
const (
	maxPages   = 100_000
	maxLists   = 10_000_000
	maxStreams = 9000 // a server has room for 10,000
	maxChanges = 1_000_000
	maxRate    = 1000
)

// Validate reports whether the options make sense. The error names what is allowed and
// matches [ErrOptions].
func (o *ServeOptions) Validate() error {
	if o.Store == "" {
		return invalid("no --store: its URL looks like memory:// or pebble://data")
	}
	for _, f := range []struct {
		flag               string
		value, least, most int
	}{
		{"clients", o.Clients, 1, maxClients},
		{"instances", o.Instances, 0, maxNaps},
		{"timers", o.Timers, 0, maxPending},
		{"pages", o.Pages, 1, maxPages},
		{"lists", o.Lists, 1, maxLists},
		{"streams", o.Streams, 0, maxStreams},
		{"changes", o.Changes, 1, maxChanges},
		{"rate", o.Rate, 1, maxRate},
	} {
		if f.value < f.least || f.value > f.most {
			return invalid("--%s is %d; allowed are %d to %d", f.flag, f.value, f.least, f.most)
		}
	}
	switch {
	case o.Duration < 0:
		return invalid("--duration is %v: must not be negative", o.Duration)
	case o.Idle < 0:
		return invalid("--idle is %v: must not be negative", o.Idle)
	case o.Duration == 0 && o.Instances == 0 && o.Idle == 0 && o.Streams == 0:
		return invalid("nothing is to be measured: --duration, --instances, --idle and --streams are all 0")
	}
	return nil
}
