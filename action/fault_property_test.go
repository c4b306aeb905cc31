package action_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store/storetest"
)

// step is a call of a client, or an event.
type step struct {
	verb  string
	actor int // which process does it, or which one it happens to
	id    string
	wait  time.Duration
	once  int // faults happen once in so many times
}

func (s step) String() string {
	return fmt.Sprintf("%s by %d: %s %v 1/%d", s.verb, s.actor, s.id, s.wait, s.once)
}

const actors = 2

var (
	// What a run does follows from the beginning of the ID: see someBehaviour. What ends
	// with ! is idempotent, and what ends with + may be tried again.
	someIDs = []string{"a", "b!", "slow", "slow!", "fail", "fail+", "once", "once+", "once!+"}

	someVerbs = rapid.SampledFrom([]string{
		"add", "add", "add", "receive", "receive", "cancel", "cancel", "retry", "retry",
		"pass", "pass", "pass", "tick", "schedule", "faults", "kill", "stop", "freeze",
	})
	someWaits = rapid.OneOf(
		rapid.SampledFrom([]time.Duration{0, time.Millisecond, faultRate, faultLease}),
		rapid.Map(rapid.IntRange(1, 20_000), func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }),
	)
	someSteps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			verb: someVerbs.Draw(t, "verb"), actor: rapid.IntRange(0, actors-1).Draw(t, "actor"),
			id:   rapid.SampledFrom(someIDs).Draw(t, "id"),
			wait: someWaits.Draw(t, "wait"), once: rapid.SampledFrom([]int{0, 2, 5, 20}).Draw(t, "once"),
		}
	}), 20, 80)
)

// TestAnyInterleaving: whatever callers ask for, and whatever happens meanwhile, nothing is
// lost, nothing runs twice at the same time, and nothing runs more often than it may.
func TestAnyInterleaving(t *testing.T) {
	t.Parallel()
	rounds := 1
	if testenv.Long() {
		rounds = 100
	}
	for range rounds {
		rapid.Check(t, func(rt *rapid.T) {
			seed := rapid.Uint64().Draw(rt, "seed")
			steps := someSteps.Draw(rt, "steps")
			var problems []string
			synctest.Test(t, func(t *testing.T) { problems = runSteps(t, seed, steps) })
			if len(problems) > 0 {
				rt.Fatalf("%s", strings.Join(problems, "\n"))
			}
		})
	}
}

// actor is a process that comes back after it has died.
type actor struct {
	w       *faultWorld
	name    string
	mu      sync.Mutex // of rnd
	rnd     *rand.Rand
	faulty  *storetest.Faulty
	process *process
	gate    *rig.Gate
}

// start starts the process.
func (a *actor) start() {
	a.gate = &rig.Gate{}
	a.faulty = storetest.NewFaulty(&rig.Hooked{Store: a.w.Store, Hook: a.gate.Hook}, nil)
	a.process = a.w.service(a.name, a.faulty)
	a.process.running = rig.Run(a.w.T, a.process)
}

// faults has calls fail once in so many times, except those that renew leases: who cannot
// renew them for long enough loses them without learning of it.
func (a *actor) faults(once int) {
	a.faulty.Plan(func(c storetest.Call) storetest.Fault {
		a.mu.Lock()
		defer a.mu.Unlock()
		if once == 0 || c.Method == "Renew" || a.rnd.IntN(once) > 0 {
			return storetest.NoFault
		}
		return []storetest.Fault{storetest.FailBefore, storetest.FailAfter}[a.rnd.IntN(2)]
	})
}

// request returns what adds an action of that ID.
func request(id string) action.Request {
	r := action.Request{ID: id, Idempotent: strings.Contains(id, "!"), Target: "do"}
	if strings.HasSuffix(id, "+") {
		r.Target = "again"
	}
	return r
}

// runSteps does the steps, lets everything come to its end, and returns what is wrong then.
func runSteps(t *testing.T, seed uint64, steps []step) []string {
	w := newFaultWorld(t)
	w.behave, w.troubled = someBehaviour, true
	var all [actors]*actor
	for i := range all {
		all[i] = &actor{w: w, name: fmt.Sprint("process ", i), rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
		all[i].start()
	}
	var hooks []string
	for i, s := range steps {
		a := all[s.actor]
		switch s.verb {
		case "add":
			req := request(s.id)
			req.Delay = s.wait
			_ = w.add(a.process, req)
		case "receive":
			if id, err := w.receive(a.process, fmt.Sprint(i/10), request(s.id).Target); err == nil {
				hooks = append(hooks, id)
			}
		case "cancel", "retry":
			id := s.id
			if len(hooks) > 0 && s.once == 5 {
				id = hooks[i%len(hooks)]
			}
			if s.verb == "cancel" {
				_ = w.cancel(a.process, id)
			} else {
				_ = w.retry(a.process, id)
			}
		case "schedule":
			_, _ = a.process.AddSchedule(context.Background(), action.Plan{
				Tenant: "acme", Slug: "app", Target: "do", ID: "s", Every: 3 * time.Second, Count: 5, Overlap: action.OverlapQueue, CatchUp: action.CatchUpAll,
			})
		case "tick":
			_ = a.process.Tick(context.Background())
		case "faults":
			a.faults(s.once)
		default:
			a.happen(s)
		}
	}
	for _, a := range all {
		a.faults(0)
	}
	<-time.After(5 * time.Minute)
	return w.findProblems()
}

// happen does what nobody asks for.
func (a *actor) happen(s step) {
	switch s.verb {
	case "pass":
		<-time.After(s.wait)
	case "kill":
		a.faulty.Kill()
		a.process.die()
		a.process.running.Kill()
		<-time.After(s.wait)
		a.start()
	case "stop":
		a.faults(0)
		a.process.running.Stop()
		a.start()
	case "freeze":
		open := a.gate.Shut()
		a.process.freeze(true)
		<-time.After(s.wait)
		a.process.freeze(false)
		open()
	}
}
