package timer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// step is a call of a client, or an event.
type step struct {
	verb   string
	actor  int // which process does it, or which one it happens to
	tenant string
	key    string
	wait   time.Duration
	once   int // faults happen once in so many times
}

func (s step) String() string {
	return fmt.Sprintf("%s by %d: %s/%s %v 1/%d", s.verb, s.actor, s.tenant, s.key, s.wait, s.once)
}

const actors = 2

var (
	someKeys = []string{"a", "b", "c"}

	someVerbs = rapid.SampledFrom([]string{
		"schedule", "schedule", "schedule in", "schedule all", "snooze", "snooze", "cancel", "cancel", "cancel all",
		"pass", "pass", "pass", "faults", "sink faults", "kill", "stop", "freeze",
	})
	someWaits = rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, time.Millisecond, 100 * time.Millisecond, time.Second}),
		rapid.Map(rapid.IntRange(1, 20_000), func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }),
	)
	someSteps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			verb: someVerbs.Draw(t, "verb"), actor: rapid.IntRange(0, actors-1).Draw(t, "actor"),
			tenant: rapid.SampledFrom([]string{"acme", "other"}).Draw(t, "tenant"),
			key:    rapid.SampledFrom(someKeys).Draw(t, "key"),
			wait:   someWaits.Draw(t, "wait"), once: rapid.SampledFrom([]int{0, 2, 5, 20}).Draw(t, "once"),
		}
	}), 20, 80)
)

// TestAnyInterleaving: whatever callers ask for, and whatever happens meanwhile, each arming
// has one envelope at most, a cancelled one has none, and all that is armed fires in the end.
func TestAnyInterleaving(t *testing.T) {
	t.Parallel()
	rounds := 2
	if testenv.Long() {
		rounds = 300
	}
	for range rounds {
		rapid.Check(t, func(rt *rapid.T) {
			seed := rapid.Uint64().Draw(rt, "seed")
			steps := someSteps.Draw(rt, "steps")
			var problems []string
			synctest.Test(t, func(t *testing.T) {
				problems = runSteps(t, seed, steps)
			})
			if len(problems) > 0 {
				rt.Fatalf("%s", strings.Join(problems, "\n"))
			}
		})
	}
}

// actor is a process that comes back after it has died.
type actor struct {
	w    *faultWorld
	rnd  *rand.Rand
	mu   sync.Mutex
	now  *process
	fs   *storetest.Faulty
	gate rig.Gate
}

// start starts the process anew.
func (a *actor) start() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fs = storetest.NewFaulty(a.w.Store, nil)
	delay := rig.Delays(a.rnd.Uint64(), 3*time.Millisecond, new(atomic.Int64))
	a.now = a.w.process(&rig.Hooked{Store: a.fs, Hook: func(method string, after bool) {
		delay(method, after)
		a.gate.Hook(method, after)
	}})
}

func (a *actor) service() *timer.Service {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now.Service
}

// end ends the process, and starts another one.
func (a *actor) end(kill bool) {
	a.mu.Lock()
	if kill {
		a.fs.Kill()
	}
	a.now.running.Cancel()
	a.mu.Unlock()
	a.start()
}

// freeze holds up all calls for a while.
func (a *actor) freeze(d time.Duration) { time.AfterFunc(d, a.gate.Shut()) }

// fail has calls fail once in so many times, until it is told otherwise.
func (a *actor) fail(once int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fs.Plan(rig.Sometimes(a.rnd.Uint64(), once))
}

// runSteps does all the steps, then has everything work, and returns what is wrong in the
// end.
func runSteps(t *testing.T, seed uint64, steps []step) []string {
	w := newFaultWorld(t)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var all []*actor
	for range actors {
		a := &actor{w: w, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 0))}
		a.start()
		all = append(all, a)
	}
	for _, s := range steps {
		w.do(s, all, rnd)
	}
	<-time.After(30 * time.Second) // for what happens later
	for _, sink := range w.sinks {
		sink.plan(nil)
	}
	for _, a := range all {
		a.mu.Lock()
		last := a.now
		a.mu.Unlock()
		last.running.Stop()
	}
	w.process(w.Store)
	<-time.After(5 * time.Minute)
	w.ledger.check(w)
	return w.Problems()
}

// do does a step.
func (w *faultWorld) do(s step, all []*actor, rnd *rand.Rand) {
	a := all[s.actor]
	switch s.verb {
	case "schedule":
		_ = w.schedule(a.service(), s.tenant, s.key, w.soon(s.wait)) // what it says is in the ledger
	case "schedule in":
		_ = w.scheduleIn(a.service(), s.tenant, s.key, s.wait)
	case "schedule all":
		_ = w.scheduleAll(a.service(), s.tenant, someKeys, w.soon(s.wait))
	case "snooze":
		_ = w.snooze(a.service(), s.tenant, s.key, s.wait+1)
	case "cancel":
		_ = w.cancel(a.service(), s.tenant, s.key)
	case "cancel all":
		_ = w.cancelAll(a.service(), s.tenant)
	case "pass":
		<-time.After(s.wait)
	case "faults":
		a.fail(s.once)
	case "sink faults":
		w.sinks[s.actor].plan(sinkFaults(s.once, rnd.Uint64()))
	case "kill":
		time.AfterFunc(s.wait/100, func() { a.end(true) })
	case "stop":
		time.AfterFunc(s.wait/100, func() { a.end(false) })
	case "freeze":
		a.freeze(s.wait)
	}
}

// soon returns the time after a while, or a second ago.
func (*faultWorld) soon(d time.Duration) time.Time {
	if d == 0 {
		d = -time.Second
	}
	return time.Now().Add(d).Truncate(time.Millisecond)
}

// sinkFaults has a sink fail once in so many times, before it has accepted an envelope or
// after.
func sinkFaults(once int, seed uint64) func(n int, accepted bool) error {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 0))
	return func(int, bool) error {
		mu.Lock()
		defer mu.Unlock()
		if once == 0 || rnd.IntN(once) > 0 {
			return nil
		}
		return errors.New("the sink does not say whether it has accepted it")
	}
}
