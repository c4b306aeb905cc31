package faults_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store/storetest"
)

// run runs a flow on a store that fails as the plan says, and checks what comes of it.
// It returns how many calls there were.
func (f *flow) run(t *testing.T, plan func(storetest.Call) storetest.Fault) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		var done effects
		serve, drive := f.build(&done)
		w := newWorld(t, serve...)
		faulty := storetest.NewFaulty(w.store, plan)
		w.engine(faulty, quick)
		calls = f.finish(w, drive, &done, faulty)
	})
	return calls
}

// quick has leases end soon, and steps made durable one by one.
func quick(c *abide.Config) { c.LeaseDuration, c.StepCommitInterval = 2*time.Second, -1 }

func (f *flow) finish(w *world, drive func(*world), done *effects, faulty *storetest.Faulty) (calls int) {
	w.t.Helper()
	drive(w)
	for _, id := range slices.Sorted(maps.Keys(f.want)) {
		if got := result(w.ended(id)); got != f.want[id] {
			w.t.Errorf("instance %s: %s, want %s\n%s", id, got, f.want[id], w.dump(id))
		}
	}
	calls = faulty.Calls()
	pass(unit) // for those who have lost what they were at
	w.check()
	w.checkQuiet()
	if got := done.names(); !slices.Equal(got, f.effects) {
		w.t.Errorf("effects were %v, want %v", got, f.effects)
	}
	return calls
}

// TestFaultAtEveryCall has each call to the store fail, one at a time: what it should do
// happens, or does not happen, and the engine does not know which.
func TestFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, f := range flows {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			calls := f.run(t, nil)
			for name, how := range map[string]storetest.Fault{"before": storetest.FailBefore, "after": storetest.FailAfter} {
				for k := 1; k <= calls; k++ {
					t.Run(fmt.Sprintf("%s %d", name, k), func(t *testing.T) { f.run(t, failNth("", k, how)) })
				}
			}
		})
	}
}

// TestManyFaults has a good part of all calls fail.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	runs := 10
	if testenv.Long() {
		runs = 1000
	}
	seed := testenv.Seed(t)
	for _, f := range flows {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for i := range runs {
				t.Run(strconv.Itoa(i), func(t *testing.T) {
					f.run(t, failOnceIn(8, rand.New(rand.NewPCG(seed, uint64(i)))))
				})
			}
		})
	}
}

// failOnceIn is a plan: once in so many calls, one fails, with a coin for how. The plan
// has random numbers of its own, as others use theirs at the same time.
func failOnceIn(n int, seed *rand.Rand) func(storetest.Call) storetest.Fault {
	rnd := rand.New(rand.NewPCG(seed.Uint64(), 0))
	return func(storetest.Call) storetest.Fault {
		if rnd.IntN(n) > 0 {
			return storetest.NoFault
		}
		return storetest.FailBefore + storetest.Fault(rnd.IntN(2))
	}
}

// TestEngineDiesAtEveryCall kills the engine at each of its calls to the store. Another
// one takes over.
func TestEngineDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, f := range flows {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			for k, calls := 1, 1; k <= calls; k++ {
				t.Run(strconv.Itoa(k), func(t *testing.T) {
					calls = max(calls, f.runKilled(t, k))
				})
			}
		})
	}
}

// runKilled runs a flow whose engine is killed at the kth call. It returns how many calls
// there would have been, at least.
func (f *flow) runKilled(t *testing.T, k int) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		var done effects
		serve, drive := f.build(&done)
		w := newWorld(t, serve...)
		killed := make(chan struct{})
		var faulty *storetest.Faulty
		faulty = storetest.NewFaulty(w.store, func(c storetest.Call) storetest.Fault {
			if c.N == k {
				faulty.Kill()
				close(killed)
			}
			return storetest.NoFault
		})
		first := w.engine(faulty, quick)
		over := make(chan struct{})
		t.Cleanup(func() { close(over) })
		go func() {
			select {
			case <-killed:
				stop(first) // what it has running in this process does no harm
				w.engine(w.store, quick)
			case <-over:
			}
		}()
		calls = f.finish(w, drive, &done, faulty)
		select {
		case <-killed:
			calls = k + 1
		default: // it was done before it could be killed
		}
	})
	return calls
}
