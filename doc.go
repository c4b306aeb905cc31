// Package abide is a durable execution engine: ordinary Go functions that wait for
// days, survive crashes and deploys, and keep every appointment.
//
// # Orchestrations, activities, steps
//
// An orchestration, which other systems call a workflow, is a function that coordinates
// activities, timers and events:
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
// Abide records what the function does as its history, event by event. After a crash, another
// process replays the function: it runs again from its beginning, and each call that is in
// history returns the recorded result. The function must therefore be deterministic. It takes the
// time from [Now] and random numbers from [Rand], waits with [Sleep], [Select] and [Event.Wait],
// runs coroutines with [Go], and leaves everything else to activities and steps. A [Context] is
// not a context.Context, so passing it to I/O does not compile; package vet finds what the
// compiler does not.
//
// An activity is a function with side effects. A process that has registered it executes it at
// least once, with retries. A step is a function with side effects that runs inside the
// orchestration's turn; its result is recorded as well.
//
// # Engines and clients
//
// [Open] opens a store and runs the registered orchestrations and activities. An [Engine] is also
// a [Client], which starts, inspects and controls instances. The backend of the store is imported
// for its registration, as database drivers are:
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
// An instance keeps the version of the orchestration with which it was started, see [Version];
// [Changed] guards a change within a version. If the code does not match the history of an
// instance, the instance stalls and nothing is lost. A process with another build resumes it, see
// [Config.Build], and so does [Client.Resume].
//
// # Tests
//
// Package abidetest runs orchestrations in virtual time, three days in milliseconds, with stubbed
// activities, and replays recorded histories against the current code. The examples folder has
// programs of a page each, with their tests.
package abide
