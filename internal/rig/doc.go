// Package rig is the kit of tests: what a test of a service needs besides the service.
//
//   - A [Rig] is a store of the kind that the tests run on, and the time at which the test
//     began. [Bubble] runs a test in virtual time, and [Pass] lets time pass.
//   - A [Process] is a service under test that runs. It can be stopped and, on a store that
//     can fail, killed.
//   - A [Recorder] keeps what others are told: the envelopes of a sink. A [Log] keeps the
//     lines of a logger, and [Metrics] reads metrics as Prometheus does.
//   - Faults are wrappers of a store. storetest.Faulty has calls fail, before or after they
//     have their effect, or cuts a process off. [Hooked] calls a function around each call:
//     [Freezer] holds a process up from one call on, [Gate] while it is shut, [Delays] each
//     call for a while. [FaultAtEveryCall] and [AtEveryCall] run a scenario once for each
//     call that it makes to the store, and a [Caller] repeats calls as clients do.
//   - A [Ledger] is what callers were told, by key. In the end it is held against what is
//     there, and reports the differences.
//   - A [Child] is the test binary as a process of its own, which can be killed for real.
//
// Comparisons are in internal/check. A test of a service looks like this:
//
//	func TestFires(t *testing.T) {
//		rig.Bubble(t, func(t *testing.T) {
//			r := rig.New(t)
//			sink := &rig.Recorder{}
//			s, err := timer.New(timer.Config{Store: r.Store, Logger: rig.Quiet, Sinks: []outbox.Sink{{Name: "sink", Bus: sink}}})
//			check.OK(t, err)
//			rig.Run(t, s)
//			_, err = s.Schedule(t.Context(), timer.Request{Tenant: "acme", Key: "k", Delay: time.Hour})
//			check.OK(t, err)
//			rig.Pass(time.Hour)
//			check.Equal(t, "envelopes", len(sink.Accepted()), 1)
//		})
//	}
//
// A package whose tests share more than that embeds the rig in a type of its own, called
// fixture.
package rig
