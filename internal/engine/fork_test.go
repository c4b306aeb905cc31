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

// forked is an orchestration that does everything but wait for a child.
func forked(c *replay.Context, in []byte) replay.Outcome {
	out := string(in)
	c.SetStatus("working")
	c.SetValue("n", []byte("1"))
	if c.Changed("better") {
		out += "+"
	}
	act := c.Activity("echo", []byte("a"), history.Activity{ScheduleToClose: 100 * time.Hour})
	timer := c.Timer("nap", c.Now().Add(time.Hour))
	for range 2 {
		step, _ := c.Step("step", func(context.Context) ([]byte, *history.Failure) { return []byte("s"), nil })
		out += string(step)
	}
	c.Wait(act)
	data, _ := act.Result()
	out += string(data)
	c.Move(timer, timer.At().Add(time.Hour))
	c.Go(func(c *replay.Context) { c.SetValue("x", []byte(receive(c, "x"))) })
	out += receive(c, "go")
	c.Wait(timer)
	gone := c.Timer("gone", c.Now().Add(time.Hour))
	c.Cancel(gone)
	c.Detach("leaf", "", nil, history.Child{})
	c.Send("somebody", "hello", nil)
	lost := c.Activity("nobody", nil, history.Activity{})
	sleep(c, time.Minute)
	c.Cancel(lost)
	return done(out)
}

func TestForkAtEveryEvent(t *testing.T) {
	for _, group := range []time.Duration{0, -1} {
		t.Run(fmt.Sprint("step group ", group), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", forked)
				r.flow("leaf", quick)
				r.act("echo", echo)
				r.serve(func(c *Config) { c.StepCommitInterval = group })
				r.begin("i", "flow", "in", func(s *Start) { s.Tags = map[string]string{"color": "red"} })
				r.pass(time.Minute)
				r.raise("i", "x", "x")
				r.raise("i", "go", "e")
				want(r, "result", r.result("i"), "in+ssae")
				events := r.events("i")
				first, last := 0, len(events)
				for i := range events {
					id := fmt.Sprint("f", i+1)
					err := r.Fork(r.Context(), Ref{ID: "i"}, int32(i+1), id)
					switch {
					case events[i].Kind == history.ExecutionStarted:
						first = i
					case i+1 < last && first > 0:
					default:
						r.wantErr(err, ErrInvalid)
						continue
					}
					r.must(err)
				}
				r.pass(time.Minute)
				for i := first; i < last-1; i++ {
					id := fmt.Sprint("f", i+1)
					if r.countKind(id, history.EventReceived) == 0 {
						r.raise(id, "x", "x")
						r.raise(id, "go", "e")
					} else if !received(r.events(id), "go") {
						r.raise(id, "go", "e")
					}
				}
				for i := first; i < last-1; i++ {
					id := fmt.Sprint("f", i+1)
					want(r, "result of the fork at "+events[i].String(), r.result(id), "in+ssae")
					for j, e := range r.events(id)[:i+1] {
						if e.ID != events[j].ID || e.Kind != events[j].Kind {
							r.Errorf("%s: event %d is %v, want %v", id, j+1, &e, &events[j])
						}
					}
					info := r.info(id)
					want(r, "tag", info.Tags["color"], "red")
					want(r, "text", info.Text, "working")
					want(r, "value", string(info.Values["n"]), "1")
				}
			})
		})
	}
}

func received(events []history.Event, name string) bool {
	for _, e := range events {
		if e.Kind == history.EventReceived && e.Name == name {
			return true
		}
	}
	return false
}

func TestForkWithAnOpenChildIsRefused(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", waiter)
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			sleep(c, time.Second)
			child := c.Child("leaf", "c", nil, history.Child{})
			c.Wait(child)
			data, _ := child.Result()
			return done(string(data) + receive(c, "end"))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Minute)
		open := r.find("i", history.ChildStarted).ID
		r.wantErr(r.Fork(r.Context(), Ref{ID: "i"}, open, "f"), ErrInvalid, "child", `"c"`, fmt.Sprint("event ", open))
		r.raise("c", "go", "x")
		r.pass(time.Minute)
		r.wantErr(r.Fork(r.Context(), Ref{ID: "i"}, open, "f"), ErrInvalid)
		// After it has ended it is no obstacle; nor is it before it was started, but its ID is taken.
		closed := r.find("i", history.ChildCompleted).ID
		r.must(r.Fork(r.Context(), Ref{ID: "i"}, closed, "after"))
		r.raise("after", "end", "!")
		want(r, "result", r.result("after"), "x!")
		r.must(r.Fork(r.Context(), Ref{ID: "i"}, open-1, "before"))
		r.pass(time.Minute)
		want(r, "failure", r.find("before", history.ChildFailed).Failure.Type, TypeExists)
		r.raise("i", "end", ".")
		want(r, "the first is untouched", r.result("i"), "x.")
	})
}

func TestForkIntoAnIDThatExists(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.begin("j", "flow", "")
		r.pass(0)
		r.wantErr(r.Fork(r.Context(), Ref{ID: "i"}, 2, "j"), ErrExists, `"j"`)
		r.wantErr(r.Fork(r.Context(), Ref{ID: "i"}, 2, "i"), ErrExists)
		for _, event := range []int32{-1, 0, 1, 3} {
			r.wantErr(r.Fork(r.Context(), Ref{ID: "i"}, event, "f"), ErrInvalid)
		}
		r.wantErr(r.Fork(r.Context(), Ref{ID: "i"}, 2, ""), ErrInvalid, "ID")
	})
}

// TestForkOfAStalledInstanceGoesOnWithOtherCode: from before where the two differ.
func TestForkOfAStalledInstanceGoesOnWithOtherCode(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.act("echo", echo)
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Wait(c.Activity("echo", nil, history.Activity{}))
			sleep(c, time.Hour)
			return done("old")
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Minute)
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Wait(c.Activity("echo", nil, history.Activity{}))
			return done("new")
		})
		r.again()
		r.until("i", Stalled)
		r.must(r.Fork(r.Context(), Ref{ID: "i"}, r.find("i", history.ActivityCompleted).ID, "f"))
		want(r, "result", r.result("f"), "new")
		want(r, "status", r.info("i").Status, Stalled)
	})
}

// TestForkOfALaterExecution has that execution's history, and none before.
func TestForkOfALaterExecution(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			if len(in) < 3 {
				return replay.Outcome{Continue: &replay.Continue{Name: "flow", Input: append(in, 'x')}}
			}
			return done(string(in) + receive(c, "go"))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		r.must(r.Fork(r.Context(), Ref{ID: "i"}, 2, "f"))
		r.raise("f", "go", "y")
		want(r, "result", r.result("f"), "xxxy")
		want(r, "execution", r.info("f").Execution, 4)
	})
}

// TestForkDoesNotReachTheChildOfTheOriginal: a fork that starts a child under an ID that the
// original's child has, and cancels it or ends before it learns that, leaves that child alone.
func TestForkDoesNotReachTheChildOfTheOriginal(t *testing.T) {
	for _, how := range []string{"cancel", "end"} {
		t.Run(how, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome {
					if bad := sleep(c, 24*time.Hour); bad != nil {
						return failed(bad)
					}
					return done("undisturbed")
				})
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					told := receive(c, "go")
					child := c.Child("leaf", "c", nil, history.Child{OnClose: history.TerminateChild})
					switch told {
					case "cancel":
						c.Cancel(child)
						return done(receive(c, "go"))
					case "end":
						return done("")
					}
					return outcome(c, child)
				})
				r.serve()
				r.begin("i", "flow", "")
				r.pass(time.Second)
				last := len(r.events("i"))
				r.raise("i", "go", "wait")
				r.pass(time.Second)
				r.must(r.Fork(r.Context(), Ref{ID: "i"}, int32(last), "f"))
				r.raise("f", "go", how)
				r.pass(time.Hour)
				want(r, "child", r.info("c").Status, Running)
				want(r, "result", r.result("i"), "undisturbed")
				want(r, "in quarantine", len(r.quarantined()), 0)
			})
		})
	}
}

// TestForkSuspendedWithItsFirstTurnUnderWay: the turn does something and is given up, and
// the fork goes on when it is resumed.
func TestForkSuspendedWithItsFirstTurnUnderWay(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.SetStatus("one")
			c.Step("step", func(ctx context.Context) ([]byte, *history.Failure) {
				if c.Self() == "f" && r.info("f").Status == Running {
					r.must(r.Suspend(ctx, Ref{ID: "f"}, ""))
					r.until("f", Suspended)
				}
				return nil, nil
			})
			return done(receive(c, "go"))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Second)
		r.must(r.Fork(r.Context(), Ref{ID: "i"}, r.find("i", history.StatusSet).ID, "f"))
		r.pass(time.Minute)
		want(r, "status", r.info("f").Status, Suspended)
		// Of the step that suspends it there is only one.
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.SetStatus("one")
			c.Step("step", func(context.Context) ([]byte, *history.Failure) { return nil, nil })
			return done(receive(c, "go"))
		})
		r.again()
		r.must(r.Resume(r.Context(), Ref{ID: "f"}))
		r.raise("f", "go", "x")
		want(r, "result", r.result("f"), "x")
	})
}

// TestForkAtTheLastEventOfAParkedInstance: what the page shows last.
func TestForkAtTheLastEventOfAParkedInstance(t *testing.T) {
	for _, yields := range []bool{false, true} {
		t.Run(fmt.Sprintf("yields %t", yields), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				broken := true
				r.flow("suspended", func(c *replay.Context, _ []byte) replay.Outcome {
					c.Step("step", func(context.Context) ([]byte, *history.Failure) { return nil, nil })
					return done(receive(c, "go"))
				})
				r.flow("stalled", func(c *replay.Context, _ []byte) replay.Outcome {
					told := receive(c, "go")
					if broken {
						panic("broken")
					}
					return done(told)
				})
				group := time.Duration(0)
				if yields {
					group = -1
				}
				r.serve(func(c *Config) { c.StepCommitInterval = group })
				for _, status := range []Status{Suspended, Stalled} {
					id := string(status)
					r.begin(id, id, "")
					r.pass(time.Second)
					if status == Suspended {
						r.must(r.Suspend(r.Context(), Ref{ID: id}, "why"))
					} else {
						r.raise(id, "go", "lost with the stalled one")
					}
					r.until(id, status)
					events := r.events(id)
					for i := len(events) - 1; i <= len(events); i++ {
						fork := fmt.Sprint(id, "-", i)
						r.must(r.Fork(r.Context(), Ref{ID: id}, int32(i), fork))
						r.pass(time.Second)
						want(r, "status of "+fork, r.info(fork).Status, Running)
					}
				}
				broken = false
				for _, id := range []string{"suspended-", "stalled-"} {
					for i := range 2 {
						fork := fmt.Sprint(id, len(r.events(id[:len(id)-1]))-1+i)
						r.raise(fork, "go", "x")
						want(r, "result of "+fork, r.result(fork), "x")
					}
				}
			})
		})
	}
}

// TestForkGivesActivitiesTheirTime: from when it was forked on.
func TestForkGivesActivitiesTheirTime(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			return outcome(c, c.Activity("slow", nil, history.Activity{ScheduleToClose: time.Hour}))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(24 * time.Hour)
		want(r, "type", r.until("i", Failed).Failure.Type, TypeTimeout)
		at := r.find("i", history.ActivityScheduled).ID
		r.must(r.Fork(r.Context(), Ref{ID: "i"}, at, "in time"))
		r.must(r.Fork(r.Context(), Ref{ID: "i"}, at, "too late"))
		r.act("slow", func(ctx context.Context, t *Task) ([]byte, *history.Failure) {
			if t.Ref.ID == "too late" {
				<-ctx.Done()
				return nil, &history.Failure{Message: "stopped"}
			}
			<-time.After(40 * time.Minute)
			return []byte("done"), nil
		})
		r.again()
		want(r, "result", r.result("in time"), "done")
		began := time.Now()
		want(r, "type", r.until("too late", Failed).Failure.Type, TypeTimeout)
		want(r, "not before its time", time.Since(began) > 15*time.Minute, true)
	})
}

// TestForkOfAHistoryThatIsTooLargeForOneCommit.
func TestForkOfAHistoryThatIsTooLargeForOneCommit(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = store.MaxTxBytes/MaxPayload + 1
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			sum := 0
			for range n + 1 {
				sum += len(receive(c, "go"))
			}
			return done(fmt.Sprint(sum))
		})
		r.serve()
		r.begin("i", "flow", "")
		large := strings.Repeat("x", MaxPayload)
		for range n {
			r.raise("i", "go", large)
			r.pass(time.Second)
		}
		last := int32(len(r.events("i")))
		r.must(r.Fork(r.Context(), Ref{ID: "i"}, last, "f"))
		r.wantErr(r.Fork(r.Context(), Ref{ID: "i"}, last, "f"), ErrExists)
		r.raise("f", "go", "x")
		want(r, "result", r.result("f"), fmt.Sprint(n*MaxPayload+1))

		// A copy that is interrupted is suspended, and can be got rid of.
		commits := 0
		r.tape.failing(func(tx *store.Tx) error {
			if len(tx.Append) > 0 && tx.Append[0].Key.Name == "g" {
				commits++
			}
			if commits == 2 {
				return context.DeadlineExceeded
			}
			return nil
		})
		r.wantErr(r.Fork(r.Context(), Ref{ID: "i"}, last, "g"), context.DeadlineExceeded)
		r.tape.failing(nil)
		r.pass(time.Hour)
		info := r.info("g")
		want(r, "status", info.Status, Suspended)
		want(r, "reason", info.Reason, `its history is being copied from "i"`)
		r.must(r.Terminate(r.Context(), info.Ref, ""))
		r.until("g", Terminated)
		r.must(r.Delete(r.Context(), info.Ref))
	})
}
