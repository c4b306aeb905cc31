// Package abidetest tests orchestrations: with virtual time, with activities that are
// stubs, and against histories of the past.
//
// # Virtual time
//
// [Run] runs a test in a bubble of package testing/synctest, with a real engine on a store
// in memory. Time there is virtual: whenever everything waits, it jumps to where something
// happens next, so that an orchestration that takes months takes milliseconds.
//
//	func TestOrder(t *testing.T) {
//		abidetest.Run(t, func(t *testing.T, env *abidetest.Env) {
//			env.Register(Order, Remind)
//			charge := abidetest.Stub(env, Charge, func(ctx context.Context, in OrderIn) (string, error) {
//				return "charge-1", nil
//			})
//			order := abidetest.Start(env, Order, OrderIn{ID: "1"})
//			env.After(49*time.Hour, func() {
//				abidetest.Raise(env, Approved, order.ID(), Approval{By: "the manager"})
//			})
//			if got := order.Result(); got.ChargeID != "charge-1" || charge.Calls() != 1 {
//				t.Errorf("got %+v after %d charges", got, charge.Calls())
//			}
//		})
//	}
//
// The engine is the one of production: what a test sees of retries, timeouts, children and
// events is what happens. When the test is over, everything that ran in it is replayed at
// another virtual time, so that code that does not do the same thing each time makes the test
// fail, and so does a timer whose time was computed from time.Now.
//
// [Env.Store] is for services that run beside orchestrations: schedules, webhooks, tenant timers and
// the server work in virtual time as well.
//
// # Histories
//
// [Replay] replays histories that were recorded, by [Record] or [RecordAll], from a store
// that is in use. Kept beside the code, they tell before a deploy whether today's code can
// go on with what yesterday's began.
package abidetest
