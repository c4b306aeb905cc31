package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os/exec"
	"time"

	"github.com/spf13/pflag"
)

// ErrOptions matches errors of invalid options. Nothing was run.
var ErrOptions = errors.New("invalid options")

// Config is what all workloads have in common.
type Config struct {
	// URL is that of the store. Its backend must be imported.
	URL string

	// Idle is how long the CPU of the process is measured while nothing is due. Zero skips
	// that.
	Idle time.Duration

	// Reopen says how the store of a [Loader] is opened again before it is measured.
	Reopen Reopen

	// LoadCommand returns the command of a process that calls [Load] with the same options
	// and prints [LoadedLine]. It is needed for [ReopenCrash] alone.
	LoadCommand func(ctx context.Context) (*exec.Cmd, error)

	// Warmup is how long each [Run.Loop] runs before operations count.
	Warmup time.Duration

	// Patience is how long to wait when nothing happens any more. Defaults to 30 s.
	Patience time.Duration

	// CPUProfile and MemProfile, if not nil, receive profiles of what is measured.
	CPUProfile io.Writer
	MemProfile io.Writer

	// ProfileLoad has the CPU profile begin with loading the store, which otherwise is left
	// out. What another process loads is not in it.
	ProfileLoad bool

	// Logger receives the log of what is measured. Defaults to none.
	Logger *slog.Logger

	// Progress shows the progress; nil is silent.
	Progress *Progress
}

// Reopen is how a store is opened again once it is loaded.
type Reopen string

// Values of [Reopen].
const (
	ReopenNever Reopen = ""      // it stays open
	ReopenClean Reopen = "clean" // after it was closed
	ReopenCrash Reopen = "crash" // after the process that loaded it was killed
)

// defaultPatience is longer than anything that a healthy store takes.
const defaultPatience = 30 * time.Second

// IdleFlag adds --idle to the flags of a workload that calls [Run.MeasureIdle].
func (c *Config) IdleFlag(f *pflag.FlagSet, value time.Duration, usage string) {
	f.DurationVar(&c.Idle, "idle", value, usage)
}

// ReopenFlag adds --reopen to the flags of a [Loader].
func (c *Config) ReopenFlag(f *pflag.FlagSet) {
	f.Var((*reopenValue)(&c.Reopen), "reopen", "open the loaded store again before measuring: clean (closed before) or crash (its process killed)")
	f.Lookup("reopen").NoOptDefVal = string(ReopenClean)
}

// WarmupFlag adds --warmup to the flags of a workload that is a [Loop].
func (c *Config) WarmupFlag(f *pflag.FlagSet) {
	f.DurationVar(&c.Warmup, "warmup", 0, "how long to run before operations are counted")
}

// reopenValue is the value of --reopen.
type reopenValue Reopen

// Set implements pflag.Value.
func (v *reopenValue) Set(text string) error {
	if r := Reopen(text); r != ReopenClean && r != ReopenCrash {
		return errors.New("known are: clean, crash")
	}
	*v = reopenValue(text)
	return nil
}

// String implements pflag.Value.
func (v *reopenValue) String() string { return string(*v) }

// Type implements pflag.Value.
func (v *reopenValue) Type() string { return "string" }

// Validate checks the options and those of a workload. Errors match [ErrOptions].
func (c *Config) Validate(w Workload) error {
	_, loads := w.(Loader)
	switch {
	case c.URL == "":
		return Invalid("no --store: its URL looks like memory:// or pebble://data")
	case c.Idle < 0:
		return Invalid("--idle is %v: must not be negative", c.Idle)
	case c.Warmup < 0:
		return Invalid("--warmup is %v: must not be negative", c.Warmup)
	case c.Reopen != ReopenNever && !loads:
		return Invalid("--reopen needs a workload that loads the store")
	case c.Reopen != ReopenNever && Scheme(c.URL) == "memory":
		return Invalid("--reopen is not possible with a memory: store, which does not outlive its process")
	case c.Reopen == ReopenCrash && c.ProfileLoad:
		return Invalid("--profile-load is not possible with --reopen=crash: another process loads the store")
	case c.Reopen == ReopenCrash && c.LoadCommand == nil:
		return Invalid("--reopen=crash needs a command that loads the store")
	}
	return w.Validate(c)
}

// Scheme returns the scheme of a store's URL: the rest may hold a password.
func Scheme(storeURL string) string {
	u, err := url.Parse(storeURL)
	if err != nil {
		return ""
	}
	return u.Scheme
}

// optionsError matches [ErrOptions] and has the text of its cause.
type optionsError struct{ error }

func (e optionsError) Unwrap() error { return e.error }

// Is reports whether target is [ErrOptions].
func (e optionsError) Is(target error) bool { return target == ErrOptions }

// Invalid returns an error that matches [ErrOptions].
func Invalid(format string, args ...any) error {
	return optionsError{fmt.Errorf("bench: "+format, args...)}
}

// Within returns an error unless the value of a flag is within its bounds.
func Within[T int | int64 | time.Duration](flag string, value, least, most T) error {
	if value < least || value > most {
		return Invalid("--%s is %v; allowed are %v to %v", flag, value, least, most)
	}
	return nil
}

// NotNegative returns an error if the value of a flag is below zero.
func NotNegative[T int | int64 | time.Duration](flag string, value T) error {
	if value < 0 {
		return Invalid("--%s is %v: must not be negative", flag, value)
	}
	return nil
}

// Bounds of options that several workloads have.
const (
	MaxClients = 10_000
	MaxLoad    = 100_000_000 // things that a store is loaded with
	MaxDue     = 10_000_000  // things that are measured one by one
	MaxOver    = 24 * time.Hour
)
