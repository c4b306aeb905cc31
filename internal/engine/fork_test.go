package engine

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/internal/replay"
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
				r.serve(func(c *Config) { c.StepGroup = group })
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
