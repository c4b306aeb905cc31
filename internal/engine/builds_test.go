package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/builds"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// ran records which builds ran turns of instances.
type ran struct {
	mu sync.Mutex
	by map[string][]string // by ID
}

func (l *ran) note(id, build string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by == nil {
		l.by = map[string][]string{}
	}
	if of := l.by[id]; len(of) == 0 || of[len(of)-1] != build {
		l.by[id] = append(of, build)
	}
}

func (l *ran) of(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.by[id], " ")
}

// pinned serves the orchestration "flow" as a build, with a policy. Its code waits for events until it gets
// "end", and continues as new when it gets "again". Each build that runs the code notes it in log, when it
// gets an event.
func (r *rig) pinned(log *ran, id string, pin Pin, change ...func(*Config)) *Engine {
	r.Helper()
	r.code["flow"] = func(ref Ref) replay.Code {
		return func(c *replay.Context, _ []byte) replay.Outcome {
			log.note(ref.ID, id)
			for {
				got := receive(c, "go")
				log.note(ref.ID, id)
				switch got {
				case "end":
					return done(id)
				case "again":
					return replay.Outcome{Continue: &replay.Continue{Name: "flow"}}
				case "child":
					return outcome(c, c.Child("flow", ref.ID+"-child", nil, history.Child{}))
				}
			}
		}
	}
	all := append([]func(*Config){build(id), func(c *Config) { c.Pins = map[string]Pin{"flow": pin}; c.CacheSize = 1 }}, change...)
	return r.serve(all...)
}

func TestRoutesOfBuilds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ route, build, want string }{
		{"order", "", "order"},
		{"order@2", "", "order@2"},
		{"order", "4f2a", "order@@4f2a"},
		{"order@2", "4f2a", "order@2@4f2a"},
		{"a#b", "v1@x", "a#b@@v1@x"},
	} {
		got := pinnedRoute(tt.route, tt.build)
		if got != tt.want {
			t.Errorf("the route of %q and %q is %q, want %q", tt.route, tt.build, got, tt.want)
		}
		if route, build := CutBuild(got); route != tt.route || build != tt.build {
			t.Errorf("%q is of %q and %q, want %q and %q", got, route, build, tt.route, tt.build)
		}
		if tt.build != "" && CheckRoute(got) == nil {
			t.Errorf("%q can be the route of an orchestration", got)
		}
	}
}

// TestPinnedRunsOnItsBuildOnly: whichever build begins an instance runs all of it, with and without fused
// starts, and other builds nothing.
func TestPinnedRunsOnItsBuildOnly(t *testing.T) {
	for name, change := range map[string]func(*Config){"fused": func(*Config) {}, "unfused": unfused} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var log ran
				a := r.pinned(&log, "a", Pinned, change)
				r.pass(time.Second)
				r.warm()
				r.begin("i", "flow", "")
				r.pass(time.Second)
				want(r, "build", r.info("i").Build, "a")
				b := r.pinned(&log, "b", Pinned, change)
				for range 20 {
					r.raise("i", "go", "x")
					r.pass(time.Second)
				}
				want(r, "builds that ran it", log.of("i"), "a")
				r.stop(a)
				r.raise("i", "go", "again")
				r.pass(time.Hour)
				want(r, "builds that ran it when its own has gone", log.of("i"), "a")
				r.raise("i", "go", "end")
				a = r.pinned(&log, "a", Pinned, change)
				want(r, "result", r.result("i"), "a")
				want(r, "build in the end", r.info("i").Build, "a")
				want(r, "executions", r.info("i").Execution, 2)
				r.stop(b)
				r.must(a.Close(r.Context()))
			})
		})
	}
}

func TestFollowRunsOnAnyBuild(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log ran
		a := r.pinned(&log, "a", Follow)
		r.pass(time.Second)
		r.begin("i", "flow", "")
		r.pass(time.Second)
		want(r, "build", r.info("i").Build, "")
		r.stop(a)
		r.pinned(&log, "b", Follow)
		r.raise("i", "go", "end")
		want(r, "result", r.result("i"), "b")
	})
}

func TestPinnedUntilContinueMovesThen(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log ran
		a := r.pinned(&log, "a", PinnedUntilContinue)
		r.pass(time.Second)
		r.begin("i", "flow", "")
		r.pass(time.Second)
		b := r.pinned(&log, "b", PinnedUntilContinue)
		r.raise("i", "go", "x")
		r.pass(time.Second)
		want(r, "builds", log.of("i"), "a")
		r.drain("a", true)
		r.raise("i", "go", "again")
		r.pass(time.Minute)
		want(r, "builds after it continued", log.of("i"), "a b")
		want(r, "build", r.info("i").Build, "b")
		r.stop(a)
		r.raise("i", "go", "end")
		want(r, "result", r.result("i"), "b")
		r.must(b.Close(r.Context()))
	})
}

// drain sets whether a build is drained.
func (r *rig) drain(id string, drained bool) {
	r.Helper()
	r.must2(builds.Change(r.Context(), r.tape, func(s *builds.Settings) (bool, error) {
		s.Add(id, time.Time{}).Drained = drained
		return true, nil
	}))
	r.pass(time.Second)
}

// ramp sets the share of a build.
func (r *rig) ramp(id string, percent int) {
	r.Helper()
	r.must2(builds.Change(r.Context(), r.tape, func(s *builds.Settings) (bool, error) {
		s.Add(id, time.Time{}).Percent = percent
		return true, nil
	}))
	r.pass(time.Second)
}

// TestRampIsAShareOfNewInstances: a tenth of a thousand instances, whose IDs are fixed, begins on a build that
// is ramped to 10 percent, whichever engine starts them and claims their first turns.
func TestRampIsAShareOfNewInstances(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log ran
		a := r.pinned(&log, "a", Pinned)
		b := r.pinned(&log, "b", Pinned)
		r.pass(time.Second)
		r.ramp("b", 10)
		const n = 1_000
		for i := range n {
			r.Engine = []*Engine{a, b}[i%2]
			r.begin(fmt.Sprintf("i-%d", i), "flow", "")
		}
		r.pass(time.Minute)
		on := map[string]int{}
		for i := range n {
			info := r.info(fmt.Sprintf("i-%d", i))
			want(r, "status", info.Status, Running)
			want(r, "builds that ran it", log.of(info.ID), info.Build)
			on[info.Build]++
		}
		if on["b"] < 80 || on["b"] > 120 || on["a"]+on["b"] != n {
			r.Errorf("instances by build: %v, want about 100 of %d on b", on, n)
		}
		// The same ID begins on the same build, also under another engine.
		was := r.info("i-1").Build
		r.must(r.Client.Terminate(r.Context(), Ref{ID: "i-1"}, "again"))
		r.until("i-1", Terminated)
		r.Engine = a
		r.begin("i-1", "flow", "", func(s *Start) { s.IfExists = Replace })
		r.pass(time.Second)
		want(r, "build of the same ID", r.info("i-1").Build, was)
		r.stop(b)
		r.Engine = a
	})
}

// TestDrainedBuildGetsNothingNew: as long as another build is alive.
func TestDrainedBuildGetsNothingNew(t *testing.T) {
	for _, pin := range []Pin{Follow, Pinned} {
		t.Run(fmt.Sprint(pin), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var log ran
				a := r.pinned(&log, "a", pin)
				r.pass(time.Second)
				r.begin("old", "flow", "")
				r.pass(time.Second)
				b := r.pinned(&log, "b", pin)
				r.pass(time.Second)
				r.drain("a", true)
				r.pass(rosterFresh)
				for i := range 50 {
					r.Engine = a // whose starts would be fused
					r.warm()
					r.begin(fmt.Sprintf("i-%d", i), "flow", "")
				}
				r.pass(time.Minute)
				for i := range 50 {
					want(r, "builds", log.of(fmt.Sprintf("i-%d", i)), "b")
				}
				r.raise("old", "go", "x")
				r.pass(time.Second)
				want(r, "builds of what began before", log.of("old"), map[Pin]string{Follow: "a b", Pinned: "a"}[pin])
				// When there is no other build any more, it serves again.
				r.stop(b)
				r.begin("late", "flow", "")
				r.pass(2 * rosterFresh)
				want(r, "builds when the other has gone", log.of("late"), "a")
				r.Engine = a
			})
		})
	}
}

// TestChildrenArePinned: a child is pinned to a build by itself.
func TestChildrenArePinned(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log ran
		a := r.pinned(&log, "a", Pinned)
		r.pass(time.Second)
		r.begin("i", "flow", "")
		r.pass(time.Second)
		b := r.pinned(&log, "b", Pinned)
		r.pass(time.Second)
		r.drain("a", true)
		r.raise("i", "go", "child")
		r.pass(time.Minute)
		want(r, "build of the child", r.info("i-child").Build, "b")
		want(r, "build of the parent", r.info("i").Build, "a")
		r.raise("i-child", "go", "end")
		want(r, "result", r.result("i"), "b")
		want(r, "builds", log.of("i")+", "+log.of("i-child"), "a, b")
		r.stop(a)
		r.Engine = b
	})
}

// TestHandOverSurvivesCrashes: the engine that hands an instance over is lost before, after or instead of the
// commit that does.
func TestHandOverSurvivesCrashes(t *testing.T) {
	oops := errors.New("oops")
	for name, fails := range map[string]func(commit func() error) error{
		"before": func(func() error) error { return oops },
		"after": func(commit func() error) error {
			return errors.Join(commit(), oops)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var log ran
				a := r.pinned(&log, "a", Pinned, unfused)
				r.pass(time.Second)
				b := r.pinned(&log, "b", Pinned, unfused)
				r.pass(time.Second)
				r.ramp("b", 100)
				times := 0
				r.tape.failing(func(tx *store.Tx) error {
					if len(tx.Put) == 1 && tx.Put[0].Route == "flow@@b" && len(tx.Append) == 0 && times < 3 {
						times++
						return fails(func() error { return r.tape.Store.Commit(r.Context(), tx) })
					}
					return nil
				})
				for i := range 20 {
					r.begin(fmt.Sprintf("i-%d", i), "flow", "")
				}
				r.pass(time.Hour)
				if times == 0 {
					t.Fatal("nothing was handed over")
				}
				for i := range 20 {
					id := fmt.Sprintf("i-%d", i)
					want(r, "builds", log.of(id), "b")
					r.raise(id, "go", "end")
					want(r, "result", r.result(id), "b")
				}
				r.stop(a)
				r.Engine = b
			})
		})
	}
}

// TestPinnedSurvivesSuspension: before and after its first turn.
func TestPinnedSurvivesSuspension(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log ran
		a := r.pinned(&log, "a", Pinned)
		b := r.pinned(&log, "b", Pinned)
		r.pass(time.Second)
		r.ramp("a", 100)
		r.begin("i", "flow", "", func(s *Start) { s.After = time.Minute })
		r.must(r.Client.Suspend(r.Context(), Ref{ID: "i"}, "why"))
		r.pass(time.Hour)
		want(r, "status", r.info("i").Status, Suspended)
		r.must(r.Client.Resume(r.Context(), Ref{ID: "i"}))
		r.pass(time.Second)
		want(r, "build", r.info("i").Build, "a")
		r.must(r.Client.Suspend(r.Context(), Ref{ID: "i"}, "why"))
		r.pass(time.Second)
		r.raise("i", "go", "end")
		r.pass(time.Second)
		r.must(r.Client.Resume(r.Context(), Ref{ID: "i"}))
		want(r, "result", r.result("i"), "a")
		r.stop(a)
		r.Engine = b
	})
}

// TestUnservedNamesTheBuild: no worker of the build is alive, though one of the orchestration is.
func TestUnservedNamesTheBuild(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log ran
		a := r.pinned(&log, "a", Pinned)
		r.pass(time.Second)
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.pinned(&log, "b", Pinned)
		r.stop(a)
		r.raise("i", "go", "x")
		r.pass(time.Second)
		list, err := r.Unserved(r.Context())
		r.must(err)
		if len(list) != 1 || list[0].Route != "flow" || list[0].Build != "a" || list[0].Pending != 1 {
			r.Errorf("unserved: %+v", list)
		}
	})
}

// TestBuildOfARecord: lists find instances by their build.
func TestBuildOfARecord(t *testing.T) {
	inBubble(t, func(r *rig) {
		var log ran
		r.pinned(&log, "a", Pinned)
		r.pass(time.Second)
		r.begin("i", "flow", "", func(s *Start) { s.Tags = map[string]string{"color": "red"} })
		many := map[string]string{}
		for i := range store.MaxTags {
			many[fmt.Sprint("t", i)] = "x"
		}
		r.begin("many", "flow", "", func(s *Start) { s.Tags = many })
		r.pass(time.Second)
		infos, _, err := r.List(r.Context(), Query{Build: "a", Limit: 10})
		r.must(err)
		if len(infos) != 1 || infos[0].ID != "i" || infos[0].Build != "a" || len(infos[0].Tags) != 1 {
			r.Errorf("instances of the build: %+v", infos)
		}
		want(r, "build of one with many tags", r.info("many").Build, "a")
		want(r, "status of one with many tags", r.info("many").Status, Running)
		infos, _, err = r.List(r.Context(), Query{Build: "b", Limit: 10})
		r.must(err)
		want(r, "instances of another build", len(infos), 0)
	})
}

func TestPinsNeedABuild(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		build string
		pin   Pin
		bad   bool
	}{{"", Pinned, true}, {"", Follow, false}, {"a", Pinned, false}, {"a\n", Pinned, true}, {"a", 7, true}} {
		cfg := Config{Build: tt.build, Pins: map[string]Pin{"flow": tt.pin}}
		if err := cfg.checkPins(); (err != nil) != tt.bad || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("build %q, policy %d: %v", tt.build, tt.pin, err)
		}
	}
}

// TestTheFirstStallOfAPinnedInstanceHeals: the instance has no build before its first turn is committed, so
// another build can begin it.
func TestTheFirstStallOfAPinnedInstanceHeals(t *testing.T) {
	inBubble(t, func(r *rig) {
		pins := func(c *Config) { c.Pins = map[string]Pin{"flow": Pinned} }
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome { panic("oh dear") })
		r.serve(build("a"), pins)
		r.pass(time.Second)
		r.begin("i", "flow", "")
		r.until("i", Stalled)
		r.flow("flow", waiter)
		r.again(build("b"), pins)
		r.raise("i", "go", "x")
		want(r, "result", r.result("i"), "x")
		want(r, "build", r.info("i").Build, "b")
	})
}

// stalledOnBuildA has an instance i stall that is pinned to build a, and serves build b, which has the fix.
func (r *rig) stalledOnBuildA() {
	r.Helper()
	pins := func(c *Config) { c.Pins = map[string]Pin{"flow": Pinned} }
	r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
		receive(c, "go")
		panic("oh dear")
	})
	r.serve(build("a"), pins)
	r.pass(time.Second)
	r.begin("i", "flow", "")
	r.pass(time.Second)
	r.raise("i", "go", "x")
	r.until("i", Stalled)
	r.flow("flow", waiter)
	r.again(build("b"), pins)
}

// TestAStallOfAPinnedInstanceIsNotForOtherBuilds: they do not resume it.
func TestAStallOfAPinnedInstanceIsNotForOtherBuilds(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.stalledOnBuildA()
		r.pass(time.Hour)
		want(r, "status", r.info("i").Status, Stalled)
		if slices.ContainsFunc(r.events("i"), func(e history.Event) bool { return e.Kind == history.ExecutionResumed }) {
			r.Error("the instance was resumed by another build")
		}
	})
}

// TestUnreadableSettingsAreIgnored: instances go on, and what is set after that counts.
func TestUnreadableSettingsAreIgnored(t *testing.T) {
	inBubble(t, func(r *rig) {
		bad := store.Record{Key: store.RecordKey{Kind: builds.Kind, ID: "builds"}, Body: []byte{99}}
		put := func(expect int64) {
			r.must(r.tape.Commit(r.Context(), &store.Tx{PutRecords: []store.PutRecord{{Expect: expect, Record: bad}}}))
		}
		put(0)
		var log ran
		a := r.pinned(&log, "a", Pinned)
		r.pass(time.Second)
		r.begin("i", "flow", "")
		r.pass(time.Second)
		want(r, "build", r.info("i").Build, "a")
		b := r.pinned(&log, "b", Pinned)
		r.pass(time.Second)
		r.must(r.tape.Commit(r.Context(), &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: bad.Key, Expect: store.AnyVersion}}}))
		r.pass(time.Second)
		r.ramp("b", 100)
		for i := range 5 {
			r.begin(fmt.Sprintf("i-%d", i), "flow", "")
		}
		r.pass(time.Second)
		for i := range 5 {
			want(r, "build", r.info(fmt.Sprintf("i-%d", i)).Build, "b")
		}
		put(store.AnyVersion)
		r.begin("last", "flow", "")
		r.pass(time.Second)
		want(r, "status", r.info("last").Status, Running)
		r.stop(a)
		r.Engine = b
	})
}
