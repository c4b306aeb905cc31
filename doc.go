// Package abide is a durable execution engine: ordinary Go functions that wait for
// days, survive crashes and deploys, and keep every appointment.
//
// # Orchestrations, activities, steps
//
// An orchestration is a function that says what happens, in which order, and what to
// wait for:
//
//	var Order = abide.NewOrchestration("order", func(ctx abide.Context, in OrderIn) (Receipt, error) {
//		id, err := Charge.Call(ctx, in, abide.Retry(5))
//		if err != nil {
//			return Receipt{}, err
//		}
//		if err := abide.Sleep(ctx, 72*time.Hour); err != nil {
//			return Receipt{}, err
//		}
//		return Receipt{ChargeID: id}, nil
//	})
//
// What it does is kept as its history, event by event. When its process is gone, the
// next one runs the function again from its beginning, and everything that it did
// before is answered from history, until it is where it was. So the function must do
// the same thing each time: it takes its time from [Now], its random numbers from
// [Rand], waits with [Sleep], [Select] and [Event.Wait], runs things beside each other with
// [Go], and leaves everything else to activities and steps. A [Context] is not a
// context.Context, so handing it to I/O does not compile; package vet finds what the
// compiler does not.
//
// An activity is a function with side effects. It is run by any process that has
// registered it, at least once, with retries. A step is a function with side effects
// that is run on the spot, and its result is in history too: less ado, and no retries
// elsewhere.
//
// # Engines and clients
//
// [Open] opens a store and serves what the configuration names until it is closed. An
// [Engine] is a [Client] too, and a client starts instances, talks to them, and reads
// their state. The backend of the store is imported for its registration, as database
// drivers are:
//
//	import _ "github.com/abidehq/abide/store/pebblestore" // the embedded store
//
//	engine, err := abide.Open(ctx, abide.Config{Register: []abide.Definition{Order, Charge}})
//	…
//	defer engine.Close()
//	instance, err := Order.Start(ctx, engine, in, abide.ID("order-1"))
//	…
//	receipt, err := instance.Result(ctx)
//
// # When code changes
//
// An instance keeps the version of the orchestration with which it was started (see
// [Version]), and [Changed] guards a change within a version. Code that does not do what
// its history says makes its instance stall: nothing is lost. The next build resumes it
// (see [Config.Build]), and so does [Client.Resume].
//
// # Tests
//
// Package abidetest runs orchestrations in virtual time, three days in milliseconds, with
// stubbed activities, and replays recorded histories against the code of today. The
// folder examples has programs of a page each, with their tests.
package abide
