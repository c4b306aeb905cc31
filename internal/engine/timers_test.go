package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
)

func TestTimerNeverFiresEarly(t *testing.T) {
	for _, d := range []time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond, 1500 * time.Microsecond, time.Second, 73 * time.Hour} {
		t.Run(d.String(), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					at := c.Now().Add(d)
					sleep(c, d)
					if c.Now().Before(at) {
						return failed(failure("it is %v, and not yet %v", c.Now(), at))
					}
					return done("")
				})
				r.serve()
				r.pass(333 * time.Microsecond)
				start := time.Now()
				r.begin("i", "flow", "")
				r.result("i")
				took := time.Since(start)
				if took < d-time.Millisecond || took > d+2*time.Millisecond {
					r.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestTimerIsNotVisibleBeforeItsTime: nobody could even claim it.
func TestTimerIsNotVisibleBeforeItsTime(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			return outcome(c, c.Timer("", c.Now().Add(time.Hour)))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(time.Hour - time.Millisecond)
		want(r, "status", r.info("i").Status, Running)
		r.pass(2 * time.Millisecond)
		want(r, "status", r.info("i").Status, Completed)
	})
}

// TestOverdueTimerFiresAtOnce: when it is set for the past, and when nobody was there at
// its time.
func TestOverdueTimerFiresAtOnce(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Unix(0, 0), time.Unix(1, 0)} {
		t.Run(fmt.Sprint(at.UTC().Format(time.DateOnly)), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome { return outcome(c, c.Timer("", at)) })
				r.serve()
				start := time.Now()
				r.begin("i", "flow", "")
				r.result("i")
				want(r, "took", time.Since(start), 0)
				r.begin("j", "flow", "")
				r.pass(0)
				r.must(r.Fork(r.Context(), Ref{ID: "j"}, 3, "f")) // and it can be read again
				r.result("f")
			})
		})
	}
	t.Run("nobody was there", func(t *testing.T) {
		inBubble(t, func(r *rig) {
			r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
				set := c.Now()
				sleep(c, time.Hour)
				return done(c.Now().Sub(set).String())
			})
			r.serve()
			r.begin("i", "flow", "")
			r.pass(0)
			r.shut()
			r.pass(24 * time.Hour)
			r.serve()
			start := time.Now()
			want(r, "the code sees the time at which it went on", r.result("i"), "24h0m0s")
			want(r, "took", time.Since(start), 0)
		})
	})
}

func TestTimerHasItsNameInHistory(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			return outcome(c, c.Timer("trial-expiry", c.Now().Add(14*24*time.Hour)))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.result("i")
		e := r.find("i", history.TimerCreated)
		want(r, "name", e.Name, "trial-expiry")
		want(r, "fired", r.find("i", history.TimerFired).Ref, e.ID)
	})
}

// TestManyTimers: each fires by itself, once, in order, and none early.
func TestManyTimers(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = 1000
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			var all []*replay.Future
			for i := range n {
				all = append(all, c.Timer(fmt.Sprint(i), c.Now().Add(time.Duration(n-i)*time.Second)))
			}
			for i := n - 1; i >= 0; i-- {
				c.Wait(all[i])
				if c.Now().Before(all[i].At()) || c.Now().After(all[i].At()) {
					return failed(failure("timer %d for %v fired at %v", i, all[i].At(), c.Now()))
				}
			}
			return done("")
		})
		r.serve()
		r.begin("i", "flow", "")
		r.result("i")
		want(r, "fired", r.countKind("i", history.TimerFired), n)
	})
}

// TestTimersOfManyInstances: a thousand sleepers.
func TestTimersOfManyInstances(t *testing.T) {
	inBubble(t, func(r *rig) {
		const n = 1000
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			at := c.Now().Add(time.Hour)
			c.Wait(c.Timer("", at))
			return done(fmt.Sprint(c.Now().Sub(at)))
		})
		r.serve(func(c *Config) { c.CacheSize = 10 })
		starts := make([]Start, n)
		for i := range starts {
			starts[i] = Start{Ref: Ref{ID: fmt.Sprint(i)}, Name: "flow"}
		}
		_, err := r.Start(r.Context(), starts...)
		r.must(err)
		for i := range n {
			if got := r.result(fmt.Sprint(i)); strings.HasPrefix(got, "-") || got != "0s" {
				r.Fatalf("%d was %s late", i, got)
			}
		}
	})
}

func TestCancelledTimerDoesNotFire(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			short := c.Timer("short", c.Now().Add(time.Minute))
			receive(c, "go")
			c.Cancel(short)
			c.Wait(c.Timer("long", c.Now().Add(time.Hour)))
			_, bad := short.Result()
			return done(bad.Type)
		})
		r.serve()
		r.begin("i", "flow", "")
		r.raise("i", "go", "")
		r.pass(0)
		want(r, "pending: the long one", len(r.pending(Ref{ID: "i"}.key())), 1)
		want(r, "result", r.result("i"), replay.CancelledType)
		want(r, "fired", r.find("i", history.TimerFired).Ref, r.events("i")[len(r.events("i"))-2].Ref)
	})
}

// moving returns an orchestration that moves its timer by itself.
func moving(by time.Duration) replay.Code {
	return func(c *replay.Context, _ []byte) replay.Outcome {
		start := c.Now()
		timer := c.Timer("nap", start.Add(time.Hour))
		sleep(c, 10*time.Minute)
		if !c.Move(timer, start.Add(time.Hour+by)) {
			return failed(failure("not moved"))
		}
		c.Wait(timer)
		if c.Move(timer, start) {
			return failed(failure("moved after it fired"))
		}
		return done(fmt.Sprint(c.Now().Sub(start), " ", timer.At().Sub(start)))
	}
}

func TestTimerIsMovedFromCode(t *testing.T) {
	for by, result := range map[time.Duration]string{
		2 * time.Hour:     "3h0m0s 3h0m0s",
		-30 * time.Minute: "30m0s 30m0s",
		-2 * time.Hour:    "10m0s -1h0m0s",
	} {
		t.Run(by.String(), func(t *testing.T) {
			for _, cache := range []bool{true, false} {
				t.Run(fmt.Sprint("cache ", cache), func(t *testing.T) {
					inBubble(t, func(r *rig) {
						r.flow("flow", moving(by))
						r.serve()
						r.begin("i", "flow", "")
						if !cache {
							r.pass(5 * time.Minute)
							r.again()
							r.pass(10 * time.Minute)
							r.again()
						}
						got := r.result("i")
						if !cache && by == -2*time.Hour {
							want(r, "result", got, "10m0s -1h0m0s")
						} else {
							want(r, "result", got, result)
						}
						r.pass(5 * time.Hour)
						want(r, "fired", r.countKind("i", history.TimerFired), 2)
					})
				})
			}
		})
	}
}

func TestTimerIsMovedFromOutside(t *testing.T) {
	for to, result := range map[time.Duration]string{3 * time.Hour: "3h0m0s", 30 * time.Minute: "30m0s", 0: "10m0s"} {
		t.Run(to.String(), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					start := c.Now()
					c.Timer("other", start.Add(24*time.Hour))
					timer := c.Timer("nap", start.Add(time.Hour))
					c.Wait(timer)
					return done(c.Now().Sub(start).String())
				})
				r.serve()
				start := time.Now()
				r.begin("i", "flow", "")
				r.pass(10 * time.Minute)
				r.must(r.MoveTimer(r.Context(), Ref{ID: "i"}, "nap", start.Add(to)))
				want(r, "result", r.result("i"), result)
				r.pass(48 * time.Hour)
				want(r, "fired", r.countKind("i", history.TimerFired), 1)
				want(r, "moved", r.countKind("i", history.TimerMoveReceived), 1)
			})
		})
	}
}

// TestTimerThatIsMovedTwiceFiresOnce, at its last time.
func TestTimerThatIsMovedTwiceFiresOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			start := c.Now()
			c.Wait(c.Timer("nap", start.Add(time.Hour)))
			return done(c.Now().Sub(start).String() + receive(c, "go"))
		})
		r.serve()
		start := time.Now()
		r.begin("i", "flow", "")
		for _, to := range []time.Duration{5 * time.Hour, 2 * time.Hour, 7 * time.Hour, 3 * time.Hour} {
			r.pass(time.Minute)
			r.must(r.MoveTimer(r.Context(), Ref{ID: "i"}, "nap", start.Add(to)))
		}
		r.pass(24 * time.Hour)
		r.raise("i", "go", "")
		want(r, "result", r.result("i"), "3h0m0s")
		want(r, "fired", r.countKind("i", history.TimerFired), 1)
	})
}

// TestMoveThatComesTooLateDoesNothing.
func TestMoveThatComesTooLateDoesNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Wait(c.Timer("nap", c.Now().Add(time.Hour)))
			return done(receive(c, "go"))
		})
		r.serve()
		r.begin("i", "flow", "")
		r.pass(2 * time.Hour)
		before := r.kinds("i")
		r.wantErr(r.MoveTimer(r.Context(), Ref{ID: "i"}, "nap", time.Now()), ErrNotFound, "nap")
		// It may fire while it is being moved.
		r.unchanged("i", "move", body{kind: bodyEvents, run: r.info("i").run, events: []history.Event{
			{Kind: history.TimerMoveReceived, Name: "nap", At: time.Now()},
		}})
		want(r, "history", r.kinds("i"), before)
		r.wantErr(r.MoveTimer(r.Context(), Ref{ID: "nobody"}, "nap", time.Now()), ErrNotFound)
		r.wantErr(r.MoveTimer(r.Context(), Ref{ID: "i"}, "", time.Now()), ErrInvalid, "timer")
		r.raise("i", "go", "x")
		want(r, "result", r.result("i"), "x")
		r.wantErr(r.MoveTimer(r.Context(), Ref{ID: "i"}, "nap", time.Now()), ErrState)
	})
}

// TestMoveRacesWithTheTimer: both reach the instance in one claim.
func TestMoveRacesWithTheTimer(t *testing.T) {
	for name, order := range map[string]bool{"move first": true, "timer first": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("flow", func(c *replay.Context, _ []byte) replay.Outcome {
					start := c.Now()
					c.Wait(c.Timer("nap", start.Add(time.Hour)))
					return done(c.Now().Sub(start).String())
				})
				r.serve()
				start := time.Now()
				r.begin("i", "flow", "")
				r.pass(0)
				r.shut()
				if !order {
					r.pass(2 * time.Hour)
				}
				r.must(r.client().MoveTimer(r.Context(), Ref{ID: "i"}, "nap", start.Add(5*time.Hour)))
				if order {
					r.pass(2 * time.Hour)
				}
				r.serve()
				want(r, "result", r.result("i"), map[bool]string{true: "5h0m0s", false: "2h0m0s"}[order])
				want(r, "fired", r.countKind("i", history.TimerFired), 1)
			})
		})
	}
}
