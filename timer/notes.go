package timer

import (
	"context"
	"errors"

	"github.com/abidehq/abide/bus/outbox"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// notes keeps account, in the records of timers, of what becomes of their envelopes.
type notes struct{ s *Service }

var _ outbox.Notes = notes{}

// Note returns the records of timers with the outcomes of their envelopes. With one sink it
// takes those that have just fired to be, the first time, as they were then, so that
// nothing need be read; that is wrong only for a timer that was armed again meanwhile,
// whose version tells. Later it reads them: one that was removed and scheduled anew may
// have any version.
func (n notes) Note(ctx context.Context, outcomes []*outbox.Outcome, again bool) ([]store.PutRecord, error) {
	puts := make([]store.PutRecord, 0, len(outcomes))
	for _, o := range outcomes {
		t, alone, err := parseNote(o)
		if err != nil {
			n.s.log.Error("envelope is not a timer's", "sink", o.Sink, "envelope", o.Envelope.ID, "error", err)
			continue
		}
		if again || !alone || o.Attempt > 1 || o.At.Sub(t.FiredAt) >= minRetention {
			t, err = n.s.get(ctx, "note", t.Tenant, t.Key)
			switch {
			case errors.Is(err, ErrNotFound):
				continue
			case errors.Is(err, store.ErrCorrupt):
				n.s.log.Error("outcome of envelope not recorded", "sink", o.Sink, "envelope", o.Envelope.ID, "error", err)
				continue
			case err != nil:
				return nil, err
			}
		}
		if t.EnvelopeID == o.Envelope.ID && t.deliver(o) {
			puts = append(puts, store.PutRecord{Record: t.record(), Expect: t.Version})
		}
	}
	return puts, nil
}

// maxError is how much of an error is kept.
const maxError = 512

// deliver notes an outcome, and reports whether there is a delivery that it is of.
func (t *Timer) deliver(o *outbox.Outcome) bool {
	for i := range t.Deliveries {
		d := &t.Deliveries[i]
		if d.Sink != o.Sink {
			continue
		}
		*d = Delivery{Sink: o.Sink, State: o.State, Attempts: o.Attempt, At: o.At, Next: o.Next}
		if o.Err != nil {
			d.Error = base.Shorten(o.Err.Error(), maxError)
		}
		return true
	}
	return false
}
