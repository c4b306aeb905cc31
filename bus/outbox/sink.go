package outbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/backoff"
)

// Sink is where envelopes go.
type Sink struct {
	// Name is stored with every envelope that waits for the sink, so it stays the same
	// for as long as there are any. It holds letters, digits, dots, dashes and
	// underscores.
	Name string

	// Bus takes envelopes there.
	Bus bus.EventBus

	// Batch is how many envelopes are published at once at most: what the Bus says if it
	// has a method Batch() int, or else 256, unless it says otherwise. Publishers is how
	// many batches are under way at a time: 2, unless it says otherwise.
	Batch      int
	Publishers int

	// Timeout is how long publishing a batch may take: a minute, unless it says
	// otherwise.
	Timeout time.Duration

	// Retry says when to try again, and how often. Zero fields are those of
	// [DefaultRetry].
	Retry Retry
}

// Retry says how often an envelope is tried, and how long to wait in between.
type Retry struct {
	// Attempts is how often an envelope is tried before it goes to quarantine, a
	// process that died while it tried included.
	Attempts int

	// First is the wait after the first attempt. It doubles each time, up to Cap. Each wait is
	// shortened by up to a fifth, by a hash of the envelope and the attempt, so that envelopes
	// that failed together do not come back together. A sink that says how long it wants to be
	// left alone is left alone for that long.
	First time.Duration
	Cap   time.Duration
}

// DefaultRetry tries for about a day.
var DefaultRetry = Retry{Attempts: 36, First: time.Second, Cap: time.Hour}

// What the fields of a sink may be at most.
const (
	MaxBatch      = 10_000
	MaxPublishers = 256
	MaxAttempts   = 10_000
	MaxWait       = 7 * 24 * time.Hour
)

func (s *Sink) setDefaults() {
	if b, ok := s.Bus.(interface{ Batch() int }); ok && s.Batch == 0 {
		s.Batch = b.Batch()
	}
	for _, f := range []struct {
		field *int
		value int
	}{{&s.Batch, 256}, {&s.Publishers, 2}, {&s.Retry.Attempts, DefaultRetry.Attempts}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	if s.Timeout == 0 {
		s.Timeout = time.Minute
	}
	if s.Retry.First == 0 {
		s.Retry.First = DefaultRetry.First
	}
	if s.Retry.Cap == 0 {
		s.Retry.Cap = max(DefaultRetry.Cap, s.Retry.First)
	}
}

// CheckSink returns an error that matches [bus.ErrInvalid] unless a sink can have that
// name.
func CheckSink(name string) error {
	if err := bus.CheckName("name of a sink", name, MaxSink); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_' {
			return fmt.Errorf("outbox: sink %q: %q in its name; letters, digits, dots, dashes and underscores are allowed: %w", name, r, bus.ErrInvalid)
		}
	}
	return nil
}

// validate returns an error that names the field and what is allowed.
func (s *Sink) validate() error {
	if err := CheckSink(s.Name); err != nil {
		return err
	}
	if s.Bus == nil {
		return fmt.Errorf("outbox: sink %q has no Bus: %w", s.Name, bus.ErrInvalid)
	}
	for _, f := range []struct {
		name               string
		value, least, most int64
	}{
		{"Batch", int64(s.Batch), 1, MaxBatch},
		{"Publishers", int64(s.Publishers), 1, MaxPublishers},
		{"Retry.Attempts", int64(s.Retry.Attempts), 1, MaxAttempts},
	} {
		if f.value < f.least || f.value > f.most {
			return fmt.Errorf("outbox: sink %q: %s is %d; %d to %d is allowed: %w", s.Name, f.name, f.value, f.least, f.most, bus.ErrInvalid)
		}
	}
	for _, f := range []struct {
		name         string
		value, least time.Duration
	}{
		{"Timeout", s.Timeout, time.Millisecond},
		{"Retry.First", s.Retry.First, time.Millisecond},
		{"Retry.Cap", s.Retry.Cap, s.Retry.First},
	} {
		if f.value < f.least || f.value > MaxWait {
			return fmt.Errorf("outbox: sink %q: %s is %v; %v to %v is allowed: %w", s.Name, f.name, f.value, f.least, MaxWait, bus.ErrInvalid)
		}
	}
	return nil
}

// delay returns how long to wait after an attempt of an envelope, the first being 1.
func (r Retry) delay(attempt int, name string, err error) time.Duration {
	if wish, ok := bus.RetryDelay(err); ok && wish > 0 {
		return min(wish, MaxWait)
	}
	return backoff.Exponential{First: r.First, Max: r.Cap, Factor: 2}.Delay(name, attempt)
}

var errNoOutcome = errors.New("the attempts ended without an outcome: the process died, or lost its claim")
