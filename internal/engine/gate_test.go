package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

func TestLimitOfConcurrency(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		r.limitedFlow(m, func([]byte) history.Activity {
			return history.Activity{Limits: under(func(l *history.Limit) { l.Concurrency = 3 })}
		})
		r.serve()
		start := time.Now()
		for i := range 20 {
			r.begin(fmt.Sprint(i), "flow", "x")
		}
		for i := range 20 {
			want(r, "result", r.result(fmt.Sprint(i)), "x")
		}
		want(r, "most at a time", m.most["x"], 3)
		want(r, "runs", len(m.ran()), 20)
		if took := time.Since(start); took < 7*time.Second || took > 9*time.Second {
			r.Errorf("20 of a second each, 3 at a time, took %v", took)
		}
		r.nothingLeft()
	})
}

func TestLimitPerKey(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		r.limitedFlow(m, func(in []byte) history.Activity {
			return history.Activity{Limits: under(func(l *history.Limit) { l.Keyed, l.Key = true, string(in) })}
		})
		r.serve()
		start := time.Now()
		for i := range 12 {
			r.begin(fmt.Sprint(i), "flow", fmt.Sprintf("customer/%d", i%4))
		}
		for i := range 12 {
			r.result(fmt.Sprint(i))
		}
		for i := range 4 {
			want(r, "most at a time", m.most[fmt.Sprintf("customer/%d", i)], 1)
		}
		if took := time.Since(start); took > 4*time.Second {
			r.Errorf("3 of a second for each of 4 keys took %v", took)
		}
		r.nothingLeft()
	})
}

func TestLimitOfRate(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		const rate, burst, n = 10, 4, 40
		r.limitedFlow(m, func([]byte) history.Activity {
			return history.Activity{Limits: under(func(l *history.Limit) {
				l.Concurrency, l.Rate, l.Per, l.Burst = 0, rate, time.Second, burst
			})}
		})
		r.serve()
		start := time.Now()
		for i := range n {
			r.begin(fmt.Sprint(i), "flow", "x")
		}
		for i := range n {
			r.result(fmt.Sprint(i))
		}
		for i, from := range m.began {
			for k, to := range m.began[i:] {
				if most := burst + to.Sub(from).Seconds()*rate; float64(k+1) > most+0.02 {
					r.Errorf("%d have begun within %v, at most %.1f may", k+1, to.Sub(from), most)
				}
			}
		}
		if took := time.Since(start); took > (n-burst)*time.Second/rate+2*time.Second {
			r.Errorf("%d at %d a second took %v", n, rate, took)
		}
		r.pass(time.Minute)
		r.nothingLeft()
	})
}

func TestPriorityOfWhatWaits(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		r.limitedFlow(m, func(in []byte) history.Activity {
			how := history.Activity{Limits: under()}
			if string(in) == "urgent" {
				how.Priority = 1
			}
			return how
		})
		r.serve()
		for _, id := range []string{"first", "second", "third"} {
			r.begin(id, "flow", "x")
			r.pass(time.Millisecond)
		}
		r.begin("last", "flow", "urgent")
		for _, id := range []string{"first", "second", "third", "last"} {
			r.result(id)
		}
		want(r, "order", strings.Join(m.ran(), " "), "first last second third")
	})
}

// TestPriorityAges has what has waited for two hours come before what is one level more urgent.
func TestPriorityAges(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		r.limitedFlow(m, func([]byte) history.Activity { return history.Activity{Limits: under()} })
		r.serve()
		r.begin("first", "flow", "x")
		r.result("first")
		paused := true
		r.must2(r.client().ChangeLimit(r.Context(), "", "stripe", LimitChange{Paused: &paused}))
		r.pass(rulesFor) // engines that have read the rule just now
		level := func(n int32) func(*Start) { return func(s *Start) { s.Priority = n } }
		r.begin("old", "flow", "x")
		r.pass(2 * time.Hour)
		r.begin("urgent", "flow", "x", level(1))
		r.begin("more", "flow", "x", level(3))
		r.pass(time.Second)
		paused = false
		r.must2(r.client().ChangeLimit(r.Context(), "", "stripe", LimitChange{Paused: &paused}))
		for _, id := range []string{"old", "urgent", "more"} {
			r.result(id)
		}
		want(r, "order", strings.Join(m.ran(), " "), "first more old urgent")
	})
}

// TestSeveralLimits has work that names its limits in different orders.
func TestSeveralLimits(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		a, b := history.Limit{Name: "a", Concurrency: 2}, history.Limit{Name: "b", Concurrency: 1}
		r.limitedFlow(m, func(in []byte) history.Activity {
			switch string(in) {
			case "ab":
				return history.Activity{Limits: []history.Limit{a, b}}
			case "ba":
				return history.Activity{Limits: []history.Limit{b, a, b}}
			}
			return history.Activity{Limits: []history.Limit{a}}
		})
		r.serve()
		for i := range 18 {
			r.begin(fmt.Sprint(i), "flow", []string{"ab", "ba", "a"}[i%3])
		}
		for i := range 18 {
			r.result(fmt.Sprint(i))
		}
		want(r, "runs", len(m.ran()), 18)
		want(r, "most of ab", m.most["ab"], 1)
		want(r, "most of ba", m.most["ba"], 1)
		r.nothingLeft()
	})
}

// TestLimitedInstances are started under a limit of one.
func TestLimitedInstances(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		limited := func(s *Start) { s.Limits = under() }
		for _, id := range []string{"a", "b", "c", "d"} {
			r.begin(id, "flow", "", limited)
			r.pass(time.Second)
		}
		want(r, "status of a", r.info("a").Status, Running)
		for _, id := range []string{"b", "c", "d"} {
			want(r, "status of "+id, r.info(id).Status, Pending)
		}
		c := r.info("c")
		w, err := r.client().LimitWait(r.Context(), &c)
		r.must(err)
		if w == nil || w.Name != "stripe" || w.Ahead != 1 {
			r.Errorf("c waits for %+v, want stripe behind one", w)
		}
		r.raise("b", "go", "early") // it waits
		r.must(r.client().Suspend(r.Context(), Ref{ID: "b"}, ""))
		r.must(r.client().Terminate(r.Context(), Ref{ID: "c"}, ""))
		r.until("c", Terminated)
		r.raise("a", "go", "1")
		r.result("a")
		r.pass(time.Second)
		want(r, "status of b, which is suspended", r.info("b").Status, Suspended)
		want(r, "b is admitted", r.info("b").Admitted, true)
		r.must(r.client().Resume(r.Context(), Ref{ID: "b"}))
		want(r, "b", r.result("b"), "early")
		r.pass(time.Second)
		want(r, "status of d", r.info("d").Status, Running)
		r.must(r.client().Terminate(r.Context(), Ref{ID: "d"}, ""))
		r.until("d", Terminated)
		r.pass(time.Second)
		r.nothingLeft()
	})
}

// TestLimitedInstanceContinuesAsNew keeps its unit.
func TestLimitedInstanceContinuesAsNew(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			if sleep(c, time.Second); len(in) < 3 {
				return replay.Outcome{Continue: &replay.Continue{Name: "flow", Input: append(in, 'x')}}
			}
			return done(string(in))
		})
		r.serve()
		limited := func(s *Start) { s.Limits = under() }
		r.begin("a", "flow", "", limited)
		r.pass(time.Millisecond)
		r.begin("b", "flow", "", limited)
		r.pass(2500 * time.Millisecond)
		want(r, "execution of a", r.info("a").Execution, 3)
		want(r, "status of b", r.info("b").Status, Pending)
		r.result("a")
		r.result("b")
		r.nothingLeft()
	})
}

// TestLimitedChildren are under a limit of their own, and have the priority of their parent.
func TestLimitedChildren(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			var all []*replay.Future
			for i := range 4 {
				all = append(all, c.Child("flow", fmt.Sprint("child-", i), []byte("x"), history.Child{Limits: under()}))
			}
			c.Wait(all...)
			return done("")
		})
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			return outcome(c, c.Activity("act", in, history.Activity{MaxAttempts: 1}))
		})
		r.act("act", func(ctx context.Context, t *Task) ([]byte, *history.Failure) {
			m.run(ctx, "x", t.Ref.ID, time.Second)
			return nil, nil
		})
		r.serve()
		r.begin("p", "parent", "", func(s *Start) { s.Priority = 7 })
		r.result("p")
		want(r, "most at a time", m.most["x"], 1)
		want(r, "priority of a child", r.info("child-2").Priority, 7)
		r.nothingLeft()
	})
}

// TestARetryGivesTheUnitBack runs another activity while one waits for its second attempt.
func TestARetryGivesTheUnitBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		var order []string
		r.flow("flow", calling(history.Activity{MaxAttempts: 3, Backoff: time.Hour, Limits: under()}))
		r.act("act", func(_ context.Context, t *Task) ([]byte, *history.Failure) {
			order = append(order, fmt.Sprint(t.Ref.ID, t.Attempt))
			if t.Ref.ID == "fails" && t.Attempt < 3 {
				return nil, failure("not yet")
			}
			return nil, nil
		})
		r.serve()
		r.begin("fails", "flow", "")
		r.pass(time.Second)
		r.begin("other", "flow", "")
		r.result("other")
		r.result("fails")
		want(r, "order", strings.Join(order, " "), "fails1 other1 fails2 fails3")
		r.nothingLeft()
	})
}

// TestWithdrawn activities wait, have just entered, or wait for a retry, when their instance is terminated.
func TestWithdrawn(t *testing.T) {
	inBubble(t, func(r *rig) {
		var ran []string
		r.flow("flow", calling(history.Activity{MaxAttempts: 2, Backoff: time.Hour, Limits: []history.Limit{{Name: "a", Concurrency: 2}, under()[0]}}))
		r.act("act", func(ctx context.Context, t *Task) ([]byte, *history.Failure) {
			ran = append(ran, t.Ref.ID)
			if t.Ref.ID == "retried" {
				return nil, failure("no")
			}
			<-ctx.Done()
			return nil, failure("%v", context.Cause(ctx))
		})
		r.serve()
		r.begin("retried", "flow", "")
		r.pass(time.Second)
		for _, id := range []string{"runs", "waits at stripe", "waits at a"} {
			r.begin(id, "flow", "")
			r.pass(time.Second)
		}
		limits, err := r.client().Limits(r.Context(), "")
		r.must(err)
		for _, l := range limits {
			want(r, "waiting at "+l.Name, l.Waiting, 1)
		}
		for _, id := range []string{"retried", "waits at stripe", "waits at a", "runs"} {
			r.must(r.client().Terminate(r.Context(), Ref{ID: id}, ""))
			r.until(id, Terminated)
			r.pass(time.Second)
		}
		r.pass(3 * time.Hour)
		want(r, "runs", strings.Join(ran, " "), "retried runs")
		r.nothingLeft()
	})
}

// TestALostAttemptEntersAgain takes another token, and counts.
func TestALostAttemptEntersAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calling(history.Activity{Limits: under(func(l *history.Limit) {
			l.Concurrency, l.Rate, l.Per = 1, 1, time.Hour
		})}))
		var attempts []int
		began := time.Now()
		r.serve(func(c *Config) { c.Unfused = true })
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.crash(QueueActivities, "act", 1)
		r.act("act", func(_ context.Context, t *Task) ([]byte, *history.Failure) {
			attempts = append(attempts, t.Attempt)
			return nil, nil
		})
		r.again()
		r.result("i")
		if took := time.Since(began); took < time.Hour {
			r.Errorf("the second attempt of one in an hour began after %v", took)
		}
		want(r, "attempts", fmt.Sprint(attempts), "[2]")
		r.pass(2 * time.Hour)
		r.nothingLeft()
	})
}

// TestCrashesOfLimitedActivities are counted although each attempt enters again.
func TestCrashesOfLimitedActivities(t *testing.T) {
	inBubble(t, func(r *rig) {
		pause := func(paused bool) {
			r.Helper()
			r.must2(r.client().ChangeLimit(r.Context(), "", "stripe", LimitChange{Paused: &paused}))
			r.pass(rulesFor)
		}
		r.flow("flow", calling(history.Activity{MaxAttempts: 10, Limits: under()}))
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Second)
		pause(true)
		r.crash(QueueActivities, "act", 2)
		r.act("act", echo)
		r.again()
		r.pass(time.Minute)
		want(r, "what waits", r.records(kindWaiting), 1)
		delete(r.acts, "act")
		r.again()
		pause(false)
		r.crash(QueueActivities, "act", 1)
		r.act("act", echo)
		r.again(func(c *Config) { c.TaskCrashes = 3 })
		info := r.until("i", Failed)
		want(r, "failure", info.Failure.Type, TypeCrashed)
		want(r, "attempts", info.Failure.Attempt, 3)
		r.nothingLeft()
	})
}

// TestChangedLimits are lowered, paused, raised and unset while work waits.
func TestChangedLimits(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		release := make(chan struct{})
		r.limitedFlow(m, func([]byte) history.Activity {
			return history.Activity{Limits: under(func(l *history.Limit) { l.Concurrency = 2 })}
		})
		r.act("act", func(context.Context, *Task) ([]byte, *history.Failure) {
			m.run(context.Background(), "x", "", 0)
			m.mu.Lock()
			m.now["x"]++
			m.mu.Unlock()
			<-release
			m.mu.Lock()
			m.now["x"]--
			m.mu.Unlock()
			return nil, nil
		})
		r.serve()
		for i := range 10 {
			r.begin(fmt.Sprint(i), "flow", "x")
		}
		running := func(what string, n int) {
			r.Helper()
			r.pass(2 * time.Second)
			m.mu.Lock()
			defer m.mu.Unlock()
			want(r, what, m.now["x"], n)
		}
		change := func(c LimitChange) LimitInfo {
			r.Helper()
			info, err := r.client().ChangeLimit(WithActor(r.Context(), "ann"), "", "stripe", c)
			r.must(err)
			return info
		}
		yes, no := true, false
		running("as declared", 2)
		change(LimitChange{Set: &history.Limit{Concurrency: 4}})
		running("raised", 4)
		info := change(LimitChange{Set: &history.Limit{Concurrency: 1}})
		want(r, "in use", info.InUse, 4)
		want(r, "waiting", info.Waiting, 6)
		want(r, "by", info.By, "ann")
		release <- struct{}{}
		release <- struct{}{}
		release <- struct{}{}
		running("lowered", 1)
		change(LimitChange{Paused: &yes})
		release <- struct{}{}
		running("paused", 0)
		change(LimitChange{Unset: true})
		running("unset and paused", 0)
		change(LimitChange{Paused: &no})
		running("as declared again", 2)
		close(release)
		for i := range 10 {
			r.until(fmt.Sprint(i), Completed)
		}
		r.nothingLeft()
		_, err := r.client().ChangeLimit(r.Context(), "", "other", LimitChange{Unset: true})
		r.wantErr(err, ErrNotFound, "other")
		_, err = r.client().ChangeLimit(r.Context(), "", "stripe", LimitChange{Set: &history.Limit{Keyed: true, Concurrency: 1}})
		r.wantErr(err, ErrInvalid, "keys")
		_, err = r.client().ChangeLimit(r.Context(), "", "stripe", LimitChange{})
		r.wantErr(err, ErrInvalid, "nothing")
	})
}

// TestANewDeclaration counts from when work is scheduled under it.
func TestANewDeclaration(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := newMeterOf()
		n := int32(1)
		r.limitedFlow(m, func([]byte) history.Activity {
			return history.Activity{Limits: under(func(l *history.Limit) { l.Concurrency = n })}
		})
		r.serve()
		r.begin("a", "flow", "x")
		r.result("a")
		n = 5
		r.again()
		for i := range 5 {
			r.begin(fmt.Sprint(i), "flow", "x")
		}
		for i := range 5 {
			r.result(fmt.Sprint(i))
		}
		want(r, "most at a time", m.most["x"], 5)
		info, err := r.client().GetLimit(r.Context(), "", "stripe")
		r.must(err)
		want(r, "declared", info.Rule().Concurrency, 5)
	})
}

// TestWhatIsGoneHoldsNoUnit deletes a task that was admitted, as an operator does who deletes it from quarantine.
func TestWhatIsGoneHoldsNoUnit(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calling(history.Activity{Limits: under()}))
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.must(r.tape.Commit(r.Context(), &store.Tx{Delete: []store.MessageRef{{Key: r.taskKey(), ID: idTask}}}))
		r.begin("next", "flow", "")
		r.act("act", echo)
		r.again()
		r.result("next")
		r.must(r.client().Terminate(r.Context(), Ref{ID: "i"}, ""))
		r.until("i", Terminated)
		r.pass(time.Minute)
		r.nothingLeft()
	})
}

// TestWaitsForALimit are shown with the limit and the place.
func TestWaitsForALimit(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", calling(history.Activity{Limits: under(func(l *history.Limit) { l.Keyed, l.Key = true, "cus/7" })}))
		r.act("act", hang)
		r.serve()
		for i := range 4 {
			r.begin(fmt.Sprint(i), "flow", "")
			r.pass(time.Second)
		}
		for i := range 4 {
			waits, err := r.client().Waits(r.Context(), Ref{ID: fmt.Sprint(i)})
			r.must(err)
			if len(waits) != 1 {
				r.Fatalf("%d waits for %+v", i, waits)
			}
			switch w := waits[0].Limit; {
			case i == 0 && w != nil, i > 0 && (w == nil || w.Name != "stripe" || w.Key != "cus/7" || w.Ahead != i-1 || w.Since.IsZero()):
				r.Errorf("%d waits for the limit %+v", i, w)
			}
		}
		info, err := r.client().GetLimit(r.Context(), "", "stripe")
		r.must(err)
		if len(info.Gates) != 1 || info.Gates[0].Key != "cus/7" || info.InUse != 1 || info.Waiting != 3 || info.Gates[0].Oldest.IsZero() {
			r.Errorf("limit: %+v", info)
		}
		for i := range 4 {
			r.must(r.client().Terminate(r.Context(), Ref{ID: fmt.Sprint(i)}, ""))
			r.until(fmt.Sprint(i), Terminated)
		}
		r.pass(time.Second)
		r.nothingLeft()
	})
}

// TestWhatALimitCovers: activities and children of an instance are part of it under the same limit.
func TestWhatALimitCovers(t *testing.T) {
	inBubble(t, func(r *rig) {
		call := func(c *replay.Context, in []byte) replay.Outcome {
			return outcome(c, c.Activity("act", in, history.Activity{MaxAttempts: 2, Backoff: time.Second, Limits: under()}))
		}
		r.flow("leaf", call)
		r.flow("middle", func(c *replay.Context, in []byte) replay.Outcome {
			return outcome(c, c.Child("leaf", "", in, history.Child{}))
		})
		r.flow("root", func(c *replay.Context, in []byte) replay.Outcome {
			return outcome(c, c.Child("middle", "", in, history.Child{Limits: under()}))
		})
		r.act("act", func(_ context.Context, t *Task) ([]byte, *history.Failure) {
			if t.Attempt == 1 {
				return nil, failure("again")
			}
			return []byte("done"), nil
		})
		r.serve()
		limited := func(s *Start) { s.Limits = under() }
		r.begin("a", "root", "x", limited)
		r.begin("b", "leaf", "x", limited)
		r.begin("c", "leaf", "x")
		for _, id := range []string{"a", "b", "c"} {
			want(r, id, r.result(id), "done")
		}
		r.nothingLeft()
	})
}
