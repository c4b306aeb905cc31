package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// build has an engine be of a build, among the workers.
func build(id string) func(*Config) {
	return func(c *Config) { c.Build, c.WorkerName = id, "worker "+id }
}

// unseen has an engine be of a build, and not among the workers.
func unseen(id string) func(*Config) { return func(c *Config) { c.Build = id } }

// stop closes one of several engines.
func (r *rig) stop(e *Engine) {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r.must(e.Close(ctx))
}

// rounds waits a second a few times, and then for an event. After the change each round
// calls an activity first.
func rounds(n int, changed bool) replay.Code {
	return func(c *replay.Context, _ []byte) replay.Outcome {
		for i := range n {
			if changed && c.Changed(fmt.Sprintf("call-%d", i)) {
				c.Wait(c.Activity("echo", nil, history.Activity{MaxAttempts: 1}))
			}
			if bad := sleep(c, time.Second); bad != nil {
				return failed(bad)
			}
		}
		return done(receive(c, "go"))
	}
}

// parentOf calls a child and returns its result.
func parentOf(child string) replay.Code {
	return func(c *replay.Context, in []byte) replay.Outcome {
		return outcome(c, c.Child(child, string(in), nil, history.Child{}))
	}
}

func TestRollingDeployOfAChange(t *testing.T) {
	for _, tt := range []struct {
		name string
		as   func(string) func(*Config)
	}{{"with a roster", build}, {"without a roster", unseen}} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				const n = 8
				r.act("echo", echo)
				r.flow("parent", parentOf("flow"))
				r.flow("flow", rounds(12, false))
				old := r.serve(tt.as("old"))
				for i := range n {
					r.begin(fmt.Sprintf("parent-%d", i), "parent", fmt.Sprintf("i-%d", i))
				}
				r.pass(5 * time.Second)
				r.flow("flow", rounds(12, true))
				r.serve(tt.as("new"))
				r.pass(5 * time.Minute) // both builds serve the route
				r.stop(old)
				for i := range n {
					r.raise(fmt.Sprintf("i-%d", i), "go", "x")
				}
				for i := range n {
					want(r, "result", r.result(fmt.Sprintf("parent-%d", i)), "x")
				}
				if tt.name == "with a roster" {
					want(r, "stalls of the old build", old.Count().Stalls.Load(), 0)
				}
				want(r, "stalls of the new build", r.Count().Stalls.Load(), 0)
			})
		})
	}
}

// TestFixedBugHealsByItself: the instance and its parent go on when a build without the
// bug is deployed.
func TestFixedBugHealsByItself(t *testing.T) {
	for name, bug := range map[string]func(release chan struct{}) replay.Code{
		causePanic: func(chan struct{}) replay.Code {
			return func(*replay.Context, []byte) replay.Outcome { panic("oh dear") }
		},
		causeBlocked: func(release chan struct{}) replay.Code {
			return func(*replay.Context, []byte) replay.Outcome {
				<-release
				return done("too late")
			}
		},
		causeMismatch: func(chan struct{}) replay.Code {
			return func(c *replay.Context, _ []byte) replay.Outcome {
				sleep(c, time.Second)
				return done("too early")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				release := make(chan struct{})
				r.flow("parent", parentOf("flow"))
				r.flow("flow", waiter)
				r.serve(build("1"))
				r.begin("p", "parent", "i")
				r.pass(time.Second)
				r.flow("flow", bug(release))
				r.again(build("2"))
				r.begin("q", "parent", "j")
				r.raise("i", "go", "x")
				info := r.until("i", Stalled)
				want(r, "build", info.StalledBuild(), "2")
				want(r, "build in history", r.find("i", history.ExecutionStalled).Build, "2")
				if name != causeMismatch {
					r.until("j", Stalled)
				}
				r.pass(time.Hour)
				want(r, "status", r.info("i").Status, Stalled)
				close(release)
				r.flow("flow", waiter)
				r.again(build("3"))
				want(r, "result of the parent", r.result("p"), "x")
				want(r, "build that resumed it", r.find("i", history.ExecutionResumed).Build, "3")
				if name != causeMismatch {
					r.raise("j", "go", "y")
					want(r, "result of the other parent", r.result("q"), "y")
				}
				info = r.info("i")
				want(r, "nothing is left of the trial", info.trial.empty(), true)
			})
		})
	}
}

// TestBuildDoesNotResumeItsOwnStalls: nor does a program whose build is not known.
func TestBuildDoesNotResumeItsOwnStalls(t *testing.T) {
	for _, next := range []string{"1", ""} {
		t.Run("build "+next, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", func(*replay.Context, []byte) replay.Outcome { panic("oh dear") })
				r.serve(build("1"))
				r.begin("i", "flow", "")
				r.until("i", Stalled)
				r.flow("flow", waiter)
				r.again(func(c *Config) { c.Build = next })
				r.pass(2 * time.Hour)
				want(r, "status", r.info("i").Status, Stalled)
				want(r, "resumes", r.countKind("i", history.ExecutionResumed), 0)
			})
		})
	}
}

// TestOtherStallsAreNotResumed: limits, explicit reasons and a person's Suspend are not for
// another build to undo, nor are routes that it does not serve.
func TestOtherStallsAreNotResumed(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("limit", rounds(30, false))
		r.flow("explicit", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Stall(fmt.Errorf("not now"))
			return done("")
		})
		r.flow("suspended", waiter)
		r.flow("other", func(*replay.Context, []byte) replay.Outcome { panic("oh dear") })
		r.serve(build("1"), func(c *Config) { c.MaxHistory = 20 })
		for _, name := range []string{"limit", "explicit", "suspended", "other"} {
			r.begin(name, name, "")
		}
		r.pass(time.Second)
		r.must(r.Suspend(r.Context(), Ref{ID: "suspended"}, "wait"))
		r.pass(time.Minute)
		delete(r.code, "other")
		r.again(build("2"))
		r.pass(2 * time.Hour)
		for _, name := range []string{"limit", "explicit", "suspended", "other"} {
			want(r, name+": resumes", r.countKind(name, history.ExecutionResumed), 0)
		}
		want(r, "suspended", r.info("suspended").Status, Suspended)
	})
}

// TestBuildsThatAllFailDoNotPlayPingPong: two builds that live side by side and cannot run
// the instance try it once each, or a few times if one takes the other's turn.
func TestBuildsThatAllFailDoNotPlayPingPong(t *testing.T) {
	inBubble(t, func(r *rig) {
		bug := func(*replay.Context, []byte) replay.Outcome { panic("oh dear") }
		r.flow("flow", bug)
		first := r.serve(build("1"))
		r.serve(build("2"))
		r.begin("i", "flow", "")
		r.pass(2 * time.Hour)
		want(r, "status", r.info("i").Status, Stalled)
		stalls, resumes := r.countKind("i", history.ExecutionStalled), r.countKind("i", history.ExecutionResumed)
		if stalls < 2 || stalls > 1+2*maxResumes || resumes != stalls-1 {
			r.Errorf("%d stalls and %d resumes: %s", stalls, resumes, r.kinds("i"))
		}
		tried := r.info("i").trial.stalled
		slices.Sort(tried)
		want(r, "builds that were tried", strings.Join(tried, " "), "1 2")
		r.stop(first)
		r.flow("flow", waiter)
		r.again(build("3"))
		r.raise("i", "go", "x")
		want(r, "result", r.result("i"), "x")
	})
}

// TestBuildsAreRememberedUpToALimit: a new build a day, none of which helps.
func TestBuildsAreRememberedUpToALimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome { panic("oh dear") })
		r.serve(build("0"))
		r.begin("i", "flow", "")
		r.until("i", Stalled)
		for i := range maxTried + 5 {
			r.again(build(fmt.Sprint(i + 1)))
			r.pass(5 * time.Minute)
		}
		want(r, "stalls", r.countKind("i", history.ExecutionStalled), maxTried)
		r.flow("flow", waiter)
		r.again(build("fixed"))
		r.pass(time.Hour)
		want(r, "status", r.info("i").Status, Stalled)
		r.must(r.Resume(r.Context(), Ref{ID: "i"}))
		r.raise("i", "go", "x")
		want(r, "result", r.result("i"), "x")
	})
}

// TestStalledInstanceIsResumedOnce: several engines of the new build start together.
func TestStalledInstanceIsResumedOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = 50
		r.flow("flow", func(*replay.Context, []byte) replay.Outcome { panic("oh dear") })
		r.serve(build("1"))
		for i := range n {
			r.begin(fmt.Sprintf("i-%d", i), "flow", "")
		}
		r.pass(time.Minute)
		r.shut()
		r.flow("flow", waiter)
		a, b := r.serve(build("2")), r.serve(build("2"))
		r.serve(build("2"))
		r.pass(time.Hour)
		for i := range n {
			id := fmt.Sprintf("i-%d", i)
			want(r, "status", r.info(id).Status, Running)
			want(r, "resumes", r.countKind(id, history.ExecutionResumed), 1)
		}
		r.stop(a)
		r.stop(b)
	})
}

// TestMismatchIsLeftABoundedNumberOfTimes: the other build cannot replay it either.
func TestMismatchIsLeftABoundedNumberOfTimes(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.act("a", echo)
		flow := func(first string) replay.Code {
			return func(c *replay.Context, _ []byte) replay.Outcome {
				c.Wait(c.Activity(first, nil, history.Activity{MaxAttempts: 1}))
				return done(receive(c, "go"))
			}
		}
		r.flow("flow", flow("a"))
		r.serve(build("0"))
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.shut()
		r.flow("flow", flow("b"))
		first := r.serve(build("1"))
		r.flow("flow", flow("c"))
		second := r.serve(build("2"))
		r.pass(time.Minute)
		r.raise("i", "go", "x")
		r.pass(2 * time.Hour)
		want(r, "status", r.info("i").Status, Stalled)
		replays := first.Count().Replays.Load() + second.Count().Replays.Load()
		if stalls := r.countKind("i", history.ExecutionStalled); stalls > 1+2*maxResumes || replays > int64(stalls+2)*2*(maxDeferrals+1) {
			r.Errorf("%d stalls after %d replays", stalls, replays)
		}
		r.stop(first)
	})
}

// TestLookingForStalledInstancesIsCheap: one list a minute, of stalled instances alone.
func TestLookingForStalledInstancesIsCheap(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		lists := &listCounter{Store: r.tape}
		r.serve(build("1"), func(c *Config) { c.Store = lists })
		for i := range 100 {
			r.begin(fmt.Sprintf("i-%d", i), "flow", "")
		}
		r.pass(time.Hour)
		want(r, "lists", lists.n, 61)
	})
}

// listCounter counts how often stalled instances are listed.
type listCounter struct {
	store.Store
	n int
}

func (l *listCounter) List(ctx context.Context, q store.Query) (store.Page, error) {
	if q.Kind == kindInstance {
		if slices.Equal(q.Statuses, []string{string(Stalled)}) && q.Limit == stalledPage {
			l.n++
		} else {
			l.n += 1_000
		}
	}
	return l.Store.List(ctx, q)
}

func TestBuildOfAProgram(t *testing.T) {
	t.Parallel()
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for _, tt := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"a revision", debug.BuildInfo{Settings: []debug.BuildSetting{setting("vcs.revision", "4f2a9c1"), setting("vcs.modified", "false")}}, "4f2a9c1"},
		{"changes that are not committed", debug.BuildInfo{Settings: []debug.BuildSetting{setting("vcs.modified", "true"), setting("vcs.revision", "4f2a9c1")}}, "4f2a9c1+dirty"},
		{"a version", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{"neither", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, ""},
		{"a long one", debug.BuildInfo{Main: debug.Module{Version: strings.Repeat("v", 2*MaxBuild)}}, strings.Repeat("v", MaxBuild)},
	} {
		if got := buildOf(&tt.info); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
