package outbox

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/store"
)

// Handed is an envelope that bypasses the outbox: the relay publishes it immediately. Until it
// is settled, it can be rebuilt from the store.
type Handed struct {
	// Claim is what the envelope was made of. It is finished when the envelope is settled, and
	// not before: if the process dies, another one claims it and builds the same envelope of it.
	Claim *store.Claim

	// Name, Envelope and Note are those of [Put].
	Name     string
	Envelope bus.Envelope
	Note     []byte
}

const (
	// quick is the largest duration of a batch at a sink that callers wait for.
	quick = 20 * time.Millisecond

	// handTimeout is how long a sink that was quick may take. What it has not accepted by then
	// is retried from the outbox, where no caller waits for it.
	handTimeout = 2 * time.Second
)

// Quick reports whether a sink is one of the relay's, and has taken what it was given
// lately without delay: then [Relay.Hand] is less work than putting envelopes into the
// outbox, and claiming them from there.
func (r *Relay) Quick(sink string) bool {
	p := r.publishers[sink]
	return p != nil && p.speed.quick() && !p.breaker.open(r.clock)
}

// Hand publishes envelopes to a sink that is [Relay.Quick], and settles them. What the sink
// does not accept is put into the outbox, in the commit that finishes its claim, and is
// tried again from there; so is what it has no time for.
func (r *Relay) Hand(ctx context.Context, sink string, handed []Handed) {
	p := r.publishers[sink]
	first := true
	for batch := range slices.Chunk(handed, p.sink.Batch) {
		items := make([]*item, len(batch))
		for i := range batch {
			items[i] = newHanded(&batch[i], p.sink)
		}
		if first || r.Quick(sink) {
			p.deliver(ctx, items, min(handTimeout, p.sink.Timeout))
		} else {
			p.postpone(items)
		}
		first = false
	}
}

// postpone puts envelopes into the outbox that were handed over, without having tried.
func (p *publisher) postpone(items []*item) {
	for _, it := range items {
		it.State, it.Attempt = Pending, 0
	}
	p.commit(items)
}

func newHanded(h *Handed, sink *Sink) *item {
	m := Put(sink.Name, h.Name, &h.Envelope, h.Note)
	m.Attempt, m.PutAt = 1, h.Claim.Now
	it := &item{claim: h.Claim, m: &m, handed: true}
	it.Outcome = Outcome{Sink: sink.Name, Name: h.Name, Note: h.Note, Envelope: h.Envelope, Attempt: 1, At: h.Claim.Now}
	return it
}

// later returns the message that has a handed envelope tried again.
func (it *item) later() store.Message {
	m := *it.m
	m.Body = encode(&it.Envelope, it.Note, it.Attempt)
	m.VisibleAt = it.Next
	return m
}

// speed is how fast a sink takes what it is given.
type speed struct {
	tried atomic.Bool
	last  atomic.Int64 // how long the last batch took, in nanoseconds; 0 if there was none or it failed
}

func (s *speed) note(took time.Duration, err error) {
	s.tried.Store(true)
	if err != nil {
		s.last.Store(0)
		return
	}
	s.last.Store(max(int64(took), 1))
}

// quick reports whether the sink is quick. A sink that was never tried counts as quick once.
func (s *speed) quick() bool {
	last := s.last.Load()
	return last > 0 && last < int64(quick) || last == 0 && s.tried.CompareAndSwap(false, true)
}
