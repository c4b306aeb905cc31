// Package bustest is the suite that every adapter of the bus passes. An adapter's
// test says
//
//	bustest.Run(t, func(t *testing.T) bustest.Sink { … })
//
// and gets one subtest for each rule of [bus.EventBus], named by the rule.
package bustest

import (
	"testing"

	"github.com/abidehq/abide/bus"
)

// Sink is a bus under test, and the place to which it takes envelopes.
type Sink struct {
	// Bus leads to the sink, to which nobody else leads.
	Bus bus.EventBus

	// Received returns all the envelopes that have arrived, in the order of their
	// arrival. It is called while the sink is up and nothing is being published.
	Received func() []bus.Envelope

	// Deduplicates says that an envelope which is published again does not arrive
	// again.
	Deduplicates bool

	// TooLarge is the size in bytes of a payload that the sink refuses, or 0 if it
	// takes whatever it is given. Every sink takes 256 KiB.
	TooLarge int

	// Stop makes the sink unreachable and Start brings it back, with all that it had
	// accepted. Both are nil if the sink cannot go away.
	Stop, Start func()

	// Hang makes the sink take what it is given and answer nothing, until resume is
	// called. It is nil if the sink cannot do so.
	Hang func() (resume func())
}

// Factory returns a new sink to which nothing has been published, and takes it away
// with t.Cleanup.
type Factory func(t *testing.T) Sink

// Run checks all the rules, each with a sink of its own.
func Run(t *testing.T, factory Factory) {
	t.Helper()
	for _, rule := range []struct {
		name  string
		check func(*testing.T, Sink)
	}{
		{"every field arrives byte for byte", everyField},
		{"any name is taken", anyName},
		{"payloads arrive as they are", payloads},
		{"an envelope that is too large fails alone", tooLarge},
		{"envelopes arrive in their order", order},
		{"nothing to publish is fine", nothing},
		{"an envelope that is published again is recognised", again},
		{"an envelope that is published twice at once is recognised", twiceAtOnce},
		{"arguments are neither kept nor changed", arguments},
		{"many may publish at a time", concurrent},
		{"a context that has ended publishes nothing", ended},
		{"a context that ends is the end of waiting", ends},
		{"a sink that was away gets everything", away},
	} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			rule.check(t, factory(t))
		})
	}
}
