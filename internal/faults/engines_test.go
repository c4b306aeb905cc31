package faults_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store/storetest"
)

// TestLeaseLostWithinATurn: an engine cannot renew its lease while a step runs, another
// one takes over, and the first one comes back. There is one history.
func TestLeaseLostWithinATurn(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprintf("cut off %v", cut), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var done effects
				flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
					return abide.Step(ctx, "slow", func(context.Context) (string, error) {
						n := done.do("slow")
						if n == 1 {
							pass(unit)
						}
						return fmt.Sprintf("run %d", n), nil
					})
				})
				w := newWorld(t, flow)
				renewals := storetest.NewFaulty(w.store, func(c storetest.Call) storetest.Fault {
					if cut && c.Method == "Renew" {
						return storetest.FailBefore
					}
					return storetest.NoFault
				})
				first := w.engine(renewals, quick)
				start(w, flow, abide.None{}, "i")
				synctest.Wait() // it is within the step
				w.engine(w.store, quick)
				want := `"run 1"`
				if cut {
					want = `"run 2"`
				}
				if got := result(w.ended("i")); got != want {
					t.Errorf("it ended with %s, want %s", got, want)
				}
				pass(2 * unit)
				if lost := first.Counts().Lost; (lost > 0) != cut {
					t.Errorf("the first engine has lost %d claims", lost)
				}
				if info := w.ended("i"); result(info) != want {
					t.Errorf("it has changed after its end: %s", result(info))
				}
				w.check()
				w.checkQuiet()
			})
		})
	}
}

// TestEnginesTakeTurns: two engines do one turn each of an instance, again and again, so
// that what each has in its cache is always too old.
func TestEnginesTakeTurns(t *testing.T) {
	t.Parallel()
	const n = 40
	synctest.Test(t, func(t *testing.T) {
		double := abide.NewActivity("double", func(_ context.Context, v int) (int, error) { return 2 * v, nil })
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, n int) (int, error) {
			sum := 0
			for range n {
				v, err := numbered.Wait(ctx)
				if err != nil {
					return 0, err
				}
				if v%3 == 0 {
					if v, err = double.Call(ctx, v); err != nil {
						return 0, err
					}
				}
				sum += v
			}
			return sum, nil
		})
		w := newWorld(t, flow, double)
		one := func(c *abide.Config) { c.MaxTurns = 1 }
		a, b := w.engine(w.store, one), w.engine(w.store, one)
		start(w, flow, n, "i")
		want := 0
		for i := range n {
			if want += i; i%3 == 0 {
				want += i
			}
			w.do(numbered.Raise(t.Context(), w.client, "i", i))
			synctest.Wait()
		}
		if got := result(w.ended("i")); got != strconv.Itoa(want) {
			t.Errorf("it ended with %s, want %d", got, want)
		}
		for _, e := range []*abide.Engine{a, b} {
			if turns := e.Counts().Turns; turns < n/3 {
				t.Errorf("an engine did %d turns", turns)
			}
		}
		w.check()
		w.checkQuiet()
	})
}

// TestTwoEnginesUnderLoad: many instances at once on two engines, with small caches, and
// calls that fail.
func TestTwoEnginesUnderLoad(t *testing.T) {
	t.Parallel()
	const instances, events = 60, 6
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	synctest.Test(t, func(t *testing.T) {
		var done effects
		work := activity(&done, "work")
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, id string) (string, error) {
			a, b := work.Go(ctx, 1), work.Go(ctx, 2)
			got, err := collect(ctx, events)
			if err != nil {
				return "", err
			}
			if err := abide.Join(ctx, a, b, abide.NewTimer(ctx, unit)); err != nil {
				return "", err
			}
			return id + ": " + got, nil
		})
		w := newWorld(t, flow, work)
		for range 2 {
			w.engine(storetest.NewFaulty(w.store, failOnceIn(100, rnd)), quick,
				func(c *abide.Config) { c.CacheSize = instances / 4 })
		}
		for i := range instances {
			start(w, flow, strconv.Itoa(i), strconv.Itoa(i))
		}
		for e := range events {
			for i := range instances {
				w.do(numbered.Raise(t.Context(), w.client, strconv.Itoa(i), e))
			}
			pass(time.Duration(rnd.IntN(3000)) * time.Millisecond)
		}
		for i := range instances {
			if got, want := result(w.ended(strconv.Itoa(i))), fmt.Sprintf(`"%d: %s`, i, numbers(events)[1:]); got != want {
				t.Errorf("instance %d: %s, want %s\n%s", i, got, want, w.dump(strconv.Itoa(i)))
			}
		}
		pass(unit)
		w.check()
		w.checkQuiet()
	})
}

// TestActivityWhoseEngineDies: the attempt counts, and another engine makes the next one,
// if there is one.
func TestActivityWhoseEngineDies(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]string{
		2: `"attempt 2"`,
		1: `failed: activity "work", attempt 1: attempt 1 of 1 did not come to an end: its process was lost`,
	} {
		t.Run(strconv.Itoa(attempts), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var done effects
				work := abide.NewActivity("work", func(ctx context.Context, _ abide.None) (string, error) {
					if done.do("work") == 1 {
						<-ctx.Done()
						return "", context.Cause(ctx)
					}
					info, _ := abide.ActivityOf(ctx)
					return fmt.Sprintf("attempt %d", info.Attempt), nil
				}, abide.Retry(attempts))
				flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
					return work.Call(ctx, abide.None{})
				})
				w := newWorld(t, flow, work)
				faulty := storetest.NewFaulty(w.store, nil)
				first := w.engine(faulty, quick)
				start(w, flow, abide.None{}, "i")
				pass(unit) // its lease is renewed all the while
				if n := done.count("work"); n != 1 {
					t.Errorf("it was begun %d times", n)
				}
				faulty.Kill()
				w.engine(w.store, quick)
				if got := result(w.ended("i")); got != want {
					t.Errorf("it ended with %s, want %s", got, want)
				}
				if n := done.count("work"); n != attempts {
					t.Errorf("it was begun %d times, want %d", n, attempts)
				}
				stop(first)
				w.check()
				w.checkQuiet()
			})
		})
	}
}

// TestAnswerIsTriedAgain: an activity that has had its effect is not run again because
// its answer could not be committed at once.
func TestAnswerIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, how := range []storetest.Fault{storetest.FailBefore, storetest.FailAfter} {
		synctest.Test(t, func(t *testing.T) {
			var done effects
			work := activity(&done, "work")
			flow := abide.NewOrchestration("flow", func(ctx abide.Context, n int) (int, error) { return work.Call(ctx, n) })
			w := newWorld(t, flow, work)
			failing := false // the first commit after the activity has begun does
			w.engine(storetest.NewFaulty(w.store, func(c storetest.Call) storetest.Fault {
				if c.Method == "Commit" && done.count("work") > 0 && !failing {
					failing = true
					return how
				}
				return storetest.NoFault
			}), quick)
			start(w, flow, 3, "i")
			if got := result(w.ended("i")); got != "3" {
				t.Errorf("it ended with %s", got)
			}
			if n := done.count("work"); n != 1 || !failing {
				t.Errorf("it was run %d times, and a commit has failed: %v", n, failing)
			}
			w.check()
		})
	}
}

// racing is what an instance that continues as new again and again has got so far.
type racing struct {
	Left map[string]int   // how many events of a name are still to come
	Got  map[string][]int // in order
	Bad  string           // what was not right
}

// racingFlow receives some events of several names, has activities run beside, and
// continues as new at any moment.
func racingFlow(work *abide.Activity[int, int], names []*abide.Event[int]) *abide.Orchestration[racing, string] {
	return abide.NewOrchestration("racing", func(ctx abide.Context, in racing) (string, error) {
		rnd := abide.Rand(ctx)
		for i := range 1 + rnd.IntN(6) {
			number := 10*abide.Execution(ctx) + i
			act := work.Go(ctx, number)
			waits := []abide.Awaitable{act}
			var open []*abide.Future[int]
			var from []string
			for _, name := range names {
				if in.Left[name.Name()] > 0 {
					f := name.Receive(ctx)
					open, from, waits = append(open, f), append(from, name.Name()), append(waits, f)
				}
			}
			if len(open) == 0 || abide.Execution(ctx) > 1000 { // then something is lost
				return racingResult(in), nil
			}
			if abide.Select(ctx, waits...) == 0 {
				if v, err := act.Get(ctx); err != nil || v != number {
					in.Bad = fmt.Sprintf("activity %d has the result %d, %v", number, v, err)
				}
			}
			for i, f := range open {
				if !f.Ready() {
					f.Cancel(ctx)
					continue
				}
				v, err := f.Get(ctx)
				if err != nil {
					return "", err
				}
				in.Left[from[i]]--
				in.Got[from[i]] = append(in.Got[from[i]], v)
			}
		}
		return "", abide.ContinueAsNew(ctx, in)
	})
}

func racingResult(in racing) string {
	names := []string{in.Bad}
	for name, got := range in.Got {
		if n := in.Left[name]; n > 0 {
			name += fmt.Sprintf(" lacks %d", n)
		}
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			name += fmt.Sprint(" out of order: ", got)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// TestContinueAsNewRacesWithEvents: whatever comes in between, each event is received
// once, and those of a name in order.
func TestContinueAsNewRacesWithEvents(t *testing.T) {
	t.Parallel()
	runs := 60
	if testenv.Long() {
		runs = 5000
	}
	const events = 25
	seed := testenv.Seed(t)
	for run := range runs {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, uint64(run)))
			work := abide.NewActivity("work", func(_ context.Context, n int) (int, error) {
				pass(time.Millisecond) // or time would stand still
				return n, nil
			})
			names := []*abide.Event[int]{abide.NewEvent[int]("a"), abide.NewEvent[int]("b"), abide.NewEvent[int]("c")}
			flow := racingFlow(work, names)
			w := newWorld(t, flow, work)
			once := 1_000_000
			if run%2 == 1 {
				once = 30
			}
			for range 2 {
				w.engine(storetest.NewFaulty(w.store, failOnceIn(once, rnd)), quick)
			}
			in := racing{Left: map[string]int{}, Got: map[string][]int{}}
			for _, name := range names {
				in.Left[name.Name()] = events
			}
			begin := rnd.IntN(events)
			for i := range events {
				if i == begin {
					start(w, flow, in, "i")
				}
				for _, name := range names {
					w.do(name.Raise(t.Context(), w.client, "i", i))
					if rnd.IntN(4) == 0 { // has a turn of its own for what comes before
						w.do(goEvent.Raise(t.Context(), w.client, "i", i, abide.IfAwaited()))
					}
				}
				if rnd.IntN(3) == 0 {
					pass(time.Duration(rnd.IntN(3)) * time.Millisecond)
				}
			}
			if got := result(w.ended("i")); got != `", a, b, c"` {
				t.Errorf("run %d: %s", run, got)
			}
			pass(unit)
			w.check()
			w.checkQuiet()
		})
	}
}

// TestInstanceStartedAgainElsewhere: an engine has an instance in its cache that was
// deleted and started again under the same ID by others, and is then given events.
func TestInstanceStartedAgainElsewhere(t *testing.T) {
	t.Parallel()
	for again := range 4 { // events that the new one has got when the first engine sees it
		synctest.Test(t, func(t *testing.T) {
			flow := abide.NewOrchestration("flow", func(ctx abide.Context, in string) (string, error) {
				abide.SetStatus(ctx, in)
				got, err := collect(ctx, 4)
				return in + " " + got, err
			})
			w := newWorld(t, flow)
			gate := newGate()
			w.engine(&hookedStore{Store: w.store, before: gate.pass})
			raise := func(i int) {
				w.do(numbered.Raise(t.Context(), w.client, "i", i))
				synctest.Wait()
			}
			start(w, flow, "old", "i")
			w.said("i", "old")
			gate.shut.Store(true)
			raise(7) // ends the claim that waits
			b := w.engine(w.store)
			w.do(w.client.Terminate(t.Context(), abide.Ref{ID: "i"}, ""))
			w.ended("i")
			w.do(w.client.Delete(t.Context(), abide.Ref{ID: "i"}))
			start(w, flow, "new", "i")
			w.said("i", "new")
			for i := range again {
				raise(i)
			}
			w.drain(b)
			gate.open()
			for i := again; i < 4; i++ {
				raise(i)
			}
			if got := result(w.ended("i")); got != `"new `+numbers(4)[1:] {
				t.Errorf("after %d: it ended with %s\n%s", again, got, w.dump("i"))
			}
			w.check()
			w.checkQuiet()
		})
	}
}

// TestParkedInstancesReceive: a suspended or stalled instance gets, when it goes on, all
// that was raised meanwhile, in order, although calls fail.
func TestParkedInstancesReceive(t *testing.T) {
	t.Parallel()
	const events = 12
	runs := 20
	if testenv.Long() {
		runs = 1000
	}
	seed := testenv.Seed(t)
	for run := range runs {
		for _, parked := range []abide.Status{abide.Suspended, abide.Stalled} {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, uint64(run)))
				var broken atomic.Bool
				flow := abide.NewOrchestration("flow", func(ctx abide.Context, n int) (string, error) {
					if broken.Load() {
						abide.NewTimer(ctx, unit)
					}
					return collect(ctx, n)
				})
				w := newWorld(t, flow)
				next := 0
				raise := func(n int) {
					for range n {
						w.do(numbered.Raise(t.Context(), w.client, "i", next))
						next++
						pass(time.Duration(rnd.IntN(1000)) * time.Millisecond)
					}
				}
				open := func() *abide.Engine {
					return w.engine(storetest.NewFaulty(w.store, failOnceIn(5, rnd)), quick)
				}
				start(w, flow, events, "i")
				e := open()
				raise(4)
				pass(unit)
				stop(e)
				if parked == abide.Suspended {
					w.do(w.client.Suspend(t.Context(), abide.Ref{ID: "i"}, ""))
				} else {
					broken.Store(true)
				}
				e = open()
				raise(2)
				w.status("i", parked)
				raise(2)
				stop(e)
				broken.Store(false)
				open()
				raise(1)
				w.do(w.client.Resume(t.Context(), abide.Ref{ID: "i"}))
				raise(3)
				if got := result(w.ended("i")); got != numbers(events) {
					t.Errorf("run %d, %s: it ended with %s\n%s", run, parked, got, w.dump("i"))
				}
				pass(unit)
				w.check()
				w.checkQuiet()
			})
		}
	}
}

// TestEngineThatIsCutOff: an engine that cannot reach the store for a while goes on when
// it can.
func TestEngineThatIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) {
			return "done", abide.Sleep(ctx, 10*unit)
		})
		w := newWorld(t, flow)
		faulty := storetest.NewFaulty(w.store, nil)
		e := w.engine(faulty)
		start(w, flow, abide.None{}, "i")
		pass(unit)
		faulty.Plan(func(storetest.Call) storetest.Fault { return storetest.FailBefore })
		pass(20 * unit)
		if info, err := w.client.Get(t.Context(), abide.Ref{ID: "i"}); err != nil || info.Status != abide.Running {
			t.Errorf("it is %s, %v", info.Status, err)
		}
		if calls := faulty.Calls(); calls > 1000 {
			t.Errorf("there were %d calls in 20 minutes", calls)
		}
		if _, err := e.Get(t.Context(), abide.Ref{ID: "i"}); !errors.Is(err, storetest.ErrFault) {
			t.Errorf("get: %v, want %v", err, storetest.ErrFault)
		}
		faulty.Plan(nil)
		if got := result(w.ended("i")); got != `"done"` {
			t.Errorf("it ended with %s", got)
		}
		w.check()
	})
}
