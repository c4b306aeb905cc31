package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

func TestEventBeforeItsInstance(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", collect(3))
		r.serve()
		for i := range 3 {
			r.raise("i", "go", fmt.Sprint(i))
			r.pass(time.Hour)
		}
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), "0 1 2")
	})
}

// TestEventBeforeADelayedStart: the instance is there, and its code is not.
func TestEventBeforeADelayedStart(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", collect(3))
		r.serve()
		r.raise("i", "go", "0")
		r.begin("i", "flow", "", func(s *Start) { s.After = time.Hour })
		r.raise("i", "go", "1")
		r.pass(time.Minute)
		want(r, "status", r.info("i").Status, Pending)
		r.again()
		r.pass(2 * time.Hour)
		r.raise("i", "go", "2")
		want(r, "result", r.result("i"), "0 1 2")
	})
}

func TestEventsOfManyNamesAreInOrderByName(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			out := ""
			for range 50 {
				out += receive(c, "b") + receive(c, "a") + " "
			}
			return done(out)
		})
		r.serve(func(c *Config) { c.CacheSize = 1 })
		r.begin("i", "flow", "")
		all := ""
		for i := range 50 {
			r.raise("i", "a", fmt.Sprint("a", i))
			r.raise("i", "b", fmt.Sprint("b", i))
			all += fmt.Sprintf("b%da%d ", i, i)
		}
		want(r, "result", r.result("i"), all)
	})
}

// TestRaiseWithAnIDIsRaisedOnce, while the first has not been received.
func TestRaiseWithAnIDIsRaisedOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", collect(2))
		for range 3 {
			r.must2(r.client().Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "go", Data: []byte("once"), ID: "same"}))
		}
		r.raise("i", "go", "other")
		r.begin("i", "flow", "")
		r.serve()
		want(r, "result", r.result("i"), "once other")
	})
}

func TestRaiseIsAllOrNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		_, err := r.client().Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "go"}, Raise{Ref: Ref{ID: "j"}, Name: ""})
		r.wantErr(err, ErrInvalid, "event")
		want(r, "pending", len(r.pending(Ref{ID: "i"}.key())), 0)
		r.must2(r.client().Raise(r.Context(), Raise{Ref: Ref{ID: "i"}, Name: "go"}, Raise{Ref: Ref{ID: "j"}, Name: "go"}))
		want(r, "commits", len(r.tape.commits()), 1)
	})
}

func TestEventForAnEndedInstanceIsDropped(t *testing.T) {
	for _, retention := range []time.Duration{0, -1} {
		t.Run(retention.String(), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", func(*replay.Context, []byte) replay.Outcome { return done("") })
				r.serve(func(c *Config) { c.Retention = retention })
				r.begin("i", "flow", "")
				r.result("i")
				before, pending := r.kinds("i"), len(r.pending(Ref{ID: "i"}.key()))
				event := Raise{Ref: Ref{ID: "i"}, Name: "go"}
				_, err := r.client().Raise(r.Context(), event)
				r.wantErr(err, ErrState, "completed")
				event.IgnoreEnded = true
				found, err := r.client().Raise(r.Context(), event)
				r.must(err)
				want(r, "outcome", found[0].Outcome, OutcomeEnded)
				event.Unchecked = true // as one that ends at the same moment
				r.must2(r.client().Raise(r.Context(), event))
				r.pass(time.Minute)
				want(r, "history", r.kinds("i"), before)
				want(r, "pending", len(r.pending(Ref{ID: "i"}.key())), pending)
				want(r, "stale", r.Count().Stale.Load(), 1)
			})
		})
	}
}

// TestEventsAcrossContinueAsNew: none is lost, none is twice, and they are in order,
// while the instance continues as new again and again, and its engine changes.
func TestEventsAcrossContinueAsNew(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = 300
		// It takes up to three events at a time, an activity and a timer, and continues as new.
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			act := c.Activity("echo", []byte("x"), history.Activity{})
			timer := c.Timer("", c.Now().Add(time.Millisecond))
			out := string(in)
			for range 3 {
				e := c.Receive("go")
				if c.WaitAny(e, c.Timer("", c.Now().Add(time.Second))) == 1 {
					c.Cancel(e)
					break
				}
				data, _ := e.Result()
				out += string(data) + " "
			}
			c.WaitAny(act, timer) // the other one is given up, maybe as it comes
			if strings.Count(out, " ") == n {
				return done(out)
			}
			return replay.Outcome{Continue: &replay.Continue{Name: "flow", Input: []byte(out)}}
		})
		r.act("echo", func(ctx context.Context, task *Task) ([]byte, *history.Failure) {
			<-time.After(time.Duration(task.Execution%3) * time.Millisecond)
			return echo(ctx, task)
		})
		r.serve(func(c *Config) { c.CacheSize = 1 })
		r.begin("i", "flow", "")
		all := ""
		for i := range n {
			r.raise("i", "go", fmt.Sprint(i))
			all += fmt.Sprint(i, " ")
			switch i % 7 {
			case 0:
				<-time.After(time.Millisecond)
			case 3:
				<-time.After(1500 * time.Millisecond)
			default:
			}
			if i%50 == 49 {
				r.again()
			}
		}
		info := r.until("i", Completed)
		want(r, "events", string(info.Result), all)
		if info.Execution < n/3 {
			r.Errorf("only %d executions", info.Execution)
		}
	})
}

// TestUnreceivedEventsGoAlong, of all names, in order, before those that come later.
func TestUnreceivedEventsGoAlong(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			if len(in) < 5 {
				sleep(c, time.Minute)
				return replay.Outcome{Continue: &replay.Continue{Name: "flow", Input: append(in, '.')}}
			}
			out := ""
			for range 10 {
				out += receive(c, "a") + receive(c, "b")
			}
			return done(out)
		})
		r.serve()
		r.begin("i", "flow", "")
		all := ""
		for i := range 10 {
			r.raise("i", "a", fmt.Sprint("a", i))
			r.raise("i", "b", fmt.Sprint("b", i))
			all += fmt.Sprintf("a%db%d", i, i)
			r.pass(40 * time.Second)
		}
		want(r, "result", r.result("i"), all)
	})
}

// TestUnreceivedEventsOfAnySizeGoAlong: more than a message holds.
func TestUnreceivedEventsOfAnySizeGoAlong(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			if len(in) < 3 {
				sleep(c, time.Minute)
				return replay.Outcome{Continue: &replay.Continue{Name: "flow", Input: append(in, '.')}}
			}
			n := 0
			for range 5 {
				n += len(receive(c, "big"))
			}
			return done(fmt.Sprint(n))
		})
		r.serve()
		r.begin("i", "flow", "")
		for range 5 {
			r.raise("i", "big", strings.Repeat("x", MaxPayload))
		}
		want(r, "bytes", r.result("i"), fmt.Sprint(5*MaxPayload))
	})
}

func TestSendBetweenInstances(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("ping", func(c *replay.Context, in []byte) replay.Outcome {
			out := ""
			for i := range 5 {
				c.Send(string(in), "ball", fmt.Append(nil, i))
				out += receive(c, "ball")
			}
			return done(out)
		})
		r.flow("pong", func(c *replay.Context, in []byte) replay.Outcome {
			out := ""
			for range 5 {
				ball := receive(c, "ball")
				out += ball
				c.Send(string(in), "ball", []byte("<"+ball+">"))
			}
			return done(out)
		})
		r.serve(func(c *Config) { c.CacheSize = 1 })
		r.begin("a", "ping", "b")
		r.pass(time.Hour) // the other one does not exist yet
		r.begin("b", "pong", "a")
		want(r, "ping", r.result("a"), "<0><1><2><3><4>")
		want(r, "pong", r.result("b"), "01234")
		tx := r.commitWith("b", history.ExecutionCompleted)
		want(r, "the last one is sent in the commit in which it ends", len(puts(&tx, Ref{ID: "a"}.key())), 1)
	})
}

// TestSendToItself, and in order.
func TestSendToItself(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			out := ""
			for i := range 5 {
				c.Send(c.Self(), "note", fmt.Append(nil, i))
			}
			for range 5 {
				out += receive(c, "note")
			}
			return done(out)
		})
		r.serve()
		r.begin("i", "flow", "")
		want(r, "result", r.result("i"), "01234")
	})
}

// TestSendGoesToTheSameTenant: another tenant's instance of that ID hears nothing.
func TestSendGoesToTheSameTenant(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("send", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Send("i", "go", []byte("x"))
			return done("")
		})
		r.flow("wait", waiter)
		r.serve()
		for _, tenant := range []string{"a", "b"} {
			r.begin("i", "wait", "", func(s *Start) { s.Tenant = tenant })
		}
		r.begin("s", "send", "", func(s *Start) { s.Tenant = "b" })
		r.pass(time.Minute)
		for tenant, status := range map[string]Status{"a": Running, "b": Completed} {
			info, err := r.Get(r.Context(), Ref{Tenant: tenant, ID: "i"})
			r.must(err)
			want(r, tenant, info.Status, status)
		}
	})
}

// TestEventIsReceivedByWhoWaitedLongest, and not by who has given up.
func TestEventIsReceivedByWhoWaitedLongest(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			a, b, d := c.Receive("go"), c.Receive("go"), c.Receive("go")
			c.Cancel(b)
			c.Wait(a, d)
			first, _ := a.Result()
			last, _ := d.Result()
			return done(string(first) + string(last))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.raise("i", "go", "1")
		r.raise("i", "go", "2")
		want(r, "result", r.result("i"), "12")
	})
}

// TestContinueAsNewKeepsTheHistoryBefore, and no older one.
func TestContinueAsNewKeepsTheHistoryBefore(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, in []byte) replay.Outcome {
			c.SetStatus("at " + string(in))
			receive(c, "go")
			return replay.Outcome{Continue: &replay.Continue{Name: "flow", Input: append(in, 'x')}}
		})
		r.serve()
		r.begin("i", "flow", "x")
		for range 3 {
			r.raise("i", "go", "")
			r.pass(time.Second)
		}
		info, events, err := r.History(r.Context(), Ref{ID: "i"}, 0)
		r.must(err)
		want(r, "execution", info.Execution, 4)
		want(r, "input", string(events[1].Data), "xxxx")
		want(r, "first ID", events[0].ID, 1)
		_, events, err = r.History(r.Context(), Ref{ID: "i"}, 3)
		r.must(err)
		want(r, "history before", kindsOf(events), "TurnStarted ExecutionStarted StatusSet TurnStarted EventReceived ExecutionContinued")
		want(r, "input", string(events[1].Data), "xxx")
		for _, execution := range []int32{1, 2, 5, -1} {
			_, _, err = r.History(r.Context(), Ref{ID: "i"}, execution)
			r.wantErr(err, ErrNotFound, "execution 4")
		}
		page, err := r.tape.ReadLog(r.Context(), Ref{ID: "i"}.key(), 0)
		r.must(err)
		if page.First == 0 {
			r.Error("the log was never trimmed")
		}
	})
}

// TestSuspendedInstanceSeesWhatCameFirstFirst: in the order of time, whatever it is, and not
// in the order in which messages were put.
func TestSuspendedInstanceSeesWhatCameFirstFirst(t *testing.T) {
	for _, at := range []time.Duration{30 * time.Minute, 90 * time.Minute} {
		t.Run(at.String(), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					timer, event := c.Timer("", c.Now().Add(time.Hour)), c.Receive("go")
					return done([]string{"timer", "event"}[c.WaitAny(timer, event)])
				})
				r.serve()
				r.begin("i", "flow", "")
				r.pass(0)
				r.must(r.Suspend(r.Context(), Ref{ID: "i"}, ""))
				r.pass(at)
				r.raise("i", "go", "")
				r.pass(3 * time.Hour)
				r.must(r.Resume(r.Context(), Ref{ID: "i"}))
				want(r, "first", r.result("i"), map[bool]string{true: "event", false: "timer"}[at < time.Hour])
			})
		})
	}
}
