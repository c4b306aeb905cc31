package outbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/backoff"
)

// Sink is a destination of envelopes.
type Sink struct {
	// Name is stored with every envelope that waits for the sink, so it stays the same
	// for as long as there are any. It holds letters, digits, dots, dashes and
	// underscores.
	Name string

	// Bus publishes to the sink.
	Bus bus.EventBus

	// Batch is the largest number of envelopes of one Publish. Zero means the result of the
	// method Batch() int of the Bus, if it has one, or else 256. Publishers is the number of
	// concurrent batches. Zero means 2.
	Batch      int
	Publishers int

	// Timeout is the timeout of one Publish. Zero means a minute.
	Timeout time.Duration

	// Retry is the retry policy. Zero fields are those of [DefaultRetry].
	Retry Retry
}

// Retry is a retry policy.
type Retry struct {
	// Attempts is the number of attempts before an envelope is put into quarantine. An attempt
	// during which the process died counts.
	Attempts int

	// First is the delay after the first attempt. It doubles with each attempt, up to Cap. Each
	// delay is shortened by up to a fifth, by a hash of the envelope and the attempt, so that
	// envelopes that failed together are not retried together. A delay of [bus.RetryAfter] takes
	// precedence.
	First time.Duration
	Cap   time.Duration
}

// DefaultRetry retries for about a day.
var DefaultRetry = Retry{Attempts: 36, First: time.Second, Cap: time.Hour}

// Limits of the fields of a [Sink].
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

// CheckSink returns an error that matches [bus.ErrInvalid] unless the name of a sink is valid.
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
