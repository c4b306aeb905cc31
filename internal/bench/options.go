package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"time"

	"github.com/abidehq/abide/store"
)

// ErrOptions matches the errors of options that make no sense. Nothing was run.
var ErrOptions = errors.New("invalid options")

// Options say what to measure.
type Options struct {
	// Store is the URL of the store. Its backend must be imported.
	Store string

	Workload Workload

	// Committers is the number of goroutines that commit, and Claimers the number of
	// those that claim for them.
	Committers int
	Claimers   int

	// Instances is the number of keys that turns are committed for. A store that has
	// more already keeps them.
	Instances int

	Keys KeyOrder

	// Duration ends a measurement after a while, and Commits after so many commits
	// or claims, whichever comes first. Zero is without end; one must be set.
	Duration time.Duration
	Commits  int64

	// Pending is how many messages the queue holds that are not visible yet.
	Pending int

	// Consumed is how many messages are consumed between two measurements of the
	// claim workload. Zero means a single measurement.
	Consumed int

	// Idle is how long to wait, doing nothing, while the CPU is measured.
	Idle time.Duration

	// Reopen says how the store is opened again once it is loaded.
	Reopen Reopen

	// LoadCommand returns the command of a process that calls [Load] with the same
	// options and prints [LoadedLine] to its standard output. It is needed for
	// [ReopenCrash] alone.
	LoadCommand func(ctx context.Context) (*exec.Cmd, error)

	// OpenRaw opens the engine below the store in an empty folder, which is made in
	// RawParent. If it is not nil, it is measured in turns with the store, in as many
	// Rounds.
	OpenRaw   func(dir string) (RawDB, error)
	RawParent string
	Rounds    int

	// CPUProfile and MemProfile, if not nil, get profiles of what is measured; loading
	// is left out.
	CPUProfile io.Writer
	MemProfile io.Writer

	// Progress tells a person how it goes; nil is silent.
	Progress *Progress
}

// Reopen says how a store is opened again once it is loaded.
type Reopen string

// Ways to open a store again.
const (
	ReopenNever Reopen = ""      // it stays open
	ReopenClean Reopen = "clean" // after it was closed
	ReopenCrash Reopen = "crash" // after the process that loaded it was killed
)

// Workload is what is measured.
type Workload string

// Workloads.
const (
	WorkloadCommit Workload = "commit"
	WorkloadClaim  Workload = "claim"
)

// Validate reports whether the options make sense. The error names what is allowed
// and matches [ErrOptions].
func (o *Options) Validate() error {
	for _, check := range []func() error{o.checkNames, o.checkNumbers, o.checkTogether} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (o *Options) checkNames() error {
	switch {
	case o.Store == "":
		return invalid("no store")
	case o.Workload != WorkloadCommit && o.Workload != WorkloadClaim:
		return invalid("unknown workload %q; known are: commit, claim", o.Workload)
	case o.Keys != KeysOrdered && o.Keys != KeysRandom:
		return invalid("unknown order of keys %q; known are: ordered, random", o.Keys)
	case o.Reopen != ReopenNever && o.Reopen != ReopenClean && o.Reopen != ReopenCrash:
		return invalid("unknown way to reopen %q; known are: clean, crash", o.Reopen)
	}
	return nil
}

func (o *Options) checkNumbers() error {
	switch {
	case o.Committers < 1 || o.Committers > store.MaxClaim:
		return invalid("committers is %d; allowed are 1 to %d", o.Committers, store.MaxClaim)
	case o.Claimers < 1 || o.Claimers > store.MaxClaim:
		return invalid("claimers is %d; allowed are 1 to %d", o.Claimers, store.MaxClaim)
	case o.Instances < o.Committers:
		return invalid("instances is %d and committers %d: each committer needs an instance", o.Instances, o.Committers)
	case o.Duration < 0:
		return invalid("duration is %v: must not be negative", o.Duration)
	case o.Commits < 0:
		return invalid("commits is %d: must not be negative", o.Commits)
	case o.Pending < 0:
		return invalid("pending is %d: must not be negative", o.Pending)
	case o.Consumed < 0:
		return invalid("consumed is %d: must not be negative", o.Consumed)
	case o.Idle < 0:
		return invalid("idle is %v: must not be negative", o.Idle)
	case o.Rounds < 1:
		return invalid("rounds is %d; allowed are 1 and more", o.Rounds)
	case o.Duration == 0 && o.Commits == 0:
		return invalid("neither duration nor commits ends the measurement")
	}
	return nil
}

func (o *Options) checkTogether() error {
	switch {
	case o.Consumed > 0 && o.Workload != WorkloadClaim:
		return invalid("consumed is for the workload %s; this one is %s", WorkloadClaim, o.Workload)
	case o.OpenRaw != nil && o.Workload != WorkloadCommit:
		return invalid("raw is for the workload %s; this one is %s", WorkloadCommit, o.Workload)
	case o.OpenRaw != nil && o.Commits > 0 && o.Commits < int64(o.Rounds):
		return invalid("commits is %d and rounds %d: each round needs a commit", o.Commits, o.Rounds)
	case o.Reopen != ReopenNever && schemeOf(o.Store) == "memory":
		return invalid("a memory: store does not outlive its process and cannot be reopened")
	case o.Reopen == ReopenCrash && o.LoadCommand == nil:
		return invalid("reopening after a crash needs a command that loads the store")
	}
	return nil
}

// schemeOf returns the scheme of a store's URL: the rest may hold a password.
func schemeOf(storeURL string) string {
	u, err := url.Parse(storeURL)
	if err != nil {
		return ""
	}
	return u.Scheme
}

// optionsError matches [ErrOptions] and says only what its cause says.
type optionsError struct{ error }

func (e optionsError) Unwrap() error { return e.error }

// Is reports whether target is [ErrOptions].
func (e optionsError) Is(target error) bool { return target == ErrOptions }

func invalid(format string, args ...any) error {
	return optionsError{fmt.Errorf("bench: "+format, args...)}
}
