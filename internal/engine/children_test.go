package engine

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// parenting returns an orchestration that starts one child and waits for it.
func parenting(name, id string, how history.Child) replay.Code {
	return func(c *replay.Context, in []byte) replay.Outcome {
		return outcome(c, c.Child(name, id, in, how))
	}
}

func TestChildCompletes(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(_ *replay.Context, in []byte) replay.Outcome { return done("<" + string(in) + ">") })
		r.flow("parent", parenting("leaf", "", history.Child{}))
		r.serve()
		r.begin("p", "parent", "x")
		want(r, "result", r.result("p"), "<x>")
		id := r.find("p", history.ChildStarted).Target
		want(r, "made-up ID", strings.HasPrefix(id, "p."), true)
		child := r.until(id, Completed)
		want(r, "parent", child.Parent, "p")
		want(r, "parent's execution", child.ParentExecution, 1)
		want(r, "parent's event", child.ParentEvent, r.find("p", history.ChildStarted).ID)
	})
}

// TestChildIsStartedWithItsParentsTurn: in the same commit.
func TestChildIsStartedWithItsParentsTurn(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("parent", parenting("leaf", "c", history.Child{Version: "2"}))
		r.serve()
		r.begin("p", "parent", "x")
		r.pass(0)
		tx := r.commitWith("p", history.ChildStarted)
		ms := puts(&tx, Ref{ID: "c"}.key())
		if len(ms) != 1 || ms[0].Route != "leaf@2" {
			r.Fatalf("messages for the child: %+v", ms)
		}
		found := false
		for _, rec := range tx.PutRecords {
			found = found || rec.Record.Key == Ref{ID: "c"}.record()
		}
		want(r, "record in the same commit", found, true)
	})
}

func TestChildFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(*replay.Context, []byte) replay.Outcome {
			return failed(&history.Failure{Type: "declined", Message: "no money"})
		})
		r.flow("parent", parenting("leaf", "c", history.Child{}))
		r.serve()
		r.begin("p", "parent", "")
		info := r.until("p", Failed)
		want(r, "type", info.Failure.Type, "declined")
		want(r, "message", info.Failure.Message, "no money")
	})
}

func TestChildIsTerminatedOrCancelledFromOutside(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome { return failed(sleep(c, time.Hour)) })
		r.flow("one", parenting("leaf", "c1", history.Child{}))
		r.flow("two", parenting("leaf", "c2", history.Child{}))
		r.serve()
		r.begin("p1", "one", "")
		r.begin("p2", "two", "")
		r.pass(0)
		r.must(r.Terminate(r.Context(), Ref{ID: "c1"}, "why"))
		r.must(r.Cancel(r.Context(), Ref{ID: "c2"}, "why"))
		want(r, "type", r.until("p1", Failed).Failure.Type, TypeTerminated)
		want(r, "type", r.until("p2", Failed).Failure.Type, replay.CancelledType)
	})
}

// TestCancelledChildIsAskedToEnd, and its parent does not wait for it.
func TestCancelledChildIsAskedToEnd(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome {
			bad := sleep(c, time.Hour)
			if bad != nil {
				c.Wait(c.Shield().Timer("", c.Now().Add(time.Minute)))
			}
			return failed(bad)
		})
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			child := c.Child("leaf", "c", nil, history.Child{})
			receive(c, "go")
			c.Cancel(child)
			c.Wait(c.Timer("", c.Now().Add(time.Hour)))
			return outcome(c, child)
		})
		r.serve()
		r.begin("p", "parent", "")
		r.pass(time.Second)
		r.raise("p", "go", "")
		want(r, "child", r.until("c", Cancelled).Status, Cancelled)
		r.until("p", Failed)
		want(r, "answers in history", r.countKind("p", history.ChildFailed), 1)
	})
}

// TestAnswerOfACancelledChildIsForHistoryOnly: the code got its answer when it cancelled the
// child.
func TestAnswerOfACancelledChildIsForHistoryOnly(t *testing.T) {
	for _, cold := range []bool{false, true} {
		t.Run(fmt.Sprintf("cold %t", cold), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome {
					sleep(c, time.Hour)
					return done("in spite of it")
				})
				r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
					child := c.Child("leaf", "c", nil, history.Child{})
					receive(c, "go")
					c.Cancel(child)
					sleep(c, time.Hour)
					return outcome(c, child)
				})
				r.serve()
				r.begin("p", "parent", "")
				r.pass(time.Second)
				r.raise("p", "go", "")
				want(r, "child", r.result("c"), "in spite of it")
				if r.pass(time.Second); cold {
					r.again()
				}
				want(r, "type", r.until("p", Failed).Failure.Type, replay.CancelledType)
				want(r, "answers in history", r.countKind("p", history.ChildCompleted), 1)
				r.pass(time.Minute)
				want(r, "the child's parent", r.info("c").Parent, "p")
				for _, tx := range r.tape.commits() {
					for _, m := range puts(&tx, Ref{ID: "c"}.control()) {
						want(r, "prefix of a control message", m.ID[:2], prefixControl+"/")
					}
				}
			})
		})
	}
}

// TestClosePoliciesOfCancelledChildren: a child that was asked to cancel and does not end is
// dealt with when its parent ends, whether the code or the cancellation of the parent asked.
func TestClosePoliciesOfCancelledChildren(t *testing.T) {
	ends := map[string]func(r *rig){
		"completed":  func(r *rig) { r.raise("p", "go", "") },
		"terminated": func(r *rig) { r.must(r.Terminate(r.Context(), Ref{ID: "p"}, "why")) },
		"cancelled":  func(r *rig) { r.must(r.Cancel(r.Context(), Ref{ID: "p"}, "why")) },
		"continued":  func(r *rig) { r.raise("p", "go", "again") },
	}
	for name, end := range ends {
		for _, cold := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cold %t", name, cold), func(t *testing.T) {
				inBubble(t, func(r *rig) {
					r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome {
						c.Wait(c.Shield().Timer("", c.Now().Add(24*time.Hour))) // whatever its parent wants
						return done("to the end")
					})
					r.flow("parent", func(c *replay.Context, in []byte) replay.Outcome {
						if string(in) == "second" {
							return done("")
						}
						children := []*replay.Future{
							c.Child("leaf", "terminate", nil, history.Child{OnClose: history.TerminateChild}),
							c.Child("leaf", "cancel", nil, history.Child{OnClose: history.CancelChild}),
							c.Child("leaf", "abandon", nil, history.Child{OnClose: history.AbandonChild}),
						}
						for _, f := range children {
							if name != "cancelled" {
								c.Cancel(f)
							}
						}
						f := c.Receive("go")
						c.Wait(f)
						if data, _ := f.Result(); string(data) == "again" {
							return replay.Outcome{Continue: &replay.Continue{Name: "parent", Input: []byte("second")}}
						}
						return done("")
					})
					r.serve()
					r.begin("p", "parent", "")
					r.pass(time.Minute)
					if cold {
						r.again()
					}
					end(r)
					info := r.until("p", Completed, Terminated, Cancelled)
					r.pass(time.Minute)
					r.must(r.Delete(r.Context(), info.Ref))
					want(r, "reason", r.until("terminate", Terminated).Reason, "its parent p has ended")
					for _, id := range []string{"cancel", "abandon"} {
						want(r, "result of "+id, r.result(id), "to the end")
						want(r, "parent of "+id, r.info(id).Parent, "")
						want(r, "requests to cancel "+id, r.countKind(id, history.CancelRequested), 1)
					}
					want(r, "pending for the parent", len(r.pending(Ref{ID: "p"}.key())), 0)
					r.pass(store.DefaultTTL + time.Hour)
					want(r, "in quarantine", len(r.quarantined()), 0)
				})
			})
		}
	}
}

// TestCancelInTheTurnOfItsStart: the child is there, and is cancelled.
func TestCancelInTheTurnOfItsStart(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome { return failed(sleep(c, time.Hour)) })
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Cancel(c.Child("leaf", "c", nil, history.Child{}))
			return outcome(c, c.Timer("", c.Now().Add(time.Minute)))
		})
		r.serve()
		r.begin("p", "parent", "")
		r.until("p", Completed)
		r.until("c", Cancelled)
	})
}

func TestClosePolicies(t *testing.T) {
	ends := map[string]func(r *rig){
		"completed":  func(r *rig) { r.raise("p", "go", "") },
		"terminated": func(r *rig) { r.must(r.Terminate(r.Context(), Ref{ID: "p"}, "why")) },
		"continued":  func(r *rig) { r.raise("p", "go", "again") },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome {
					if bad := sleep(c, 24*time.Hour); bad != nil {
						return failed(bad)
					}
					return done("to the end")
				})
				r.flow("parent", func(c *replay.Context, in []byte) replay.Outcome {
					if string(in) == "second" {
						return outcome(c, c.Timer("", c.Now().Add(48*time.Hour)))
					}
					c.Child("leaf", "cancel", nil, history.Child{OnClose: history.CancelChild})
					c.Child("leaf", "terminate", nil, history.Child{OnClose: history.TerminateChild})
					c.Child("leaf", "abandon", nil, history.Child{OnClose: history.AbandonChild})
					if receive(c, "go") == "again" {
						return replay.Outcome{Continue: &replay.Continue{Name: "parent", Input: []byte("second")}}
					}
					return done("")
				})
				r.serve()
				r.begin("p", "parent", "")
				r.pass(time.Minute)
				end(r)
				r.pass(time.Minute)
				want(r, "cancel", r.until("cancel", Cancelled).Failure.Type, replay.CancelledType)
				info := r.until("terminate", Terminated)
				want(r, "reason", info.Reason, "its parent p has ended")
				info = r.until("abandon", Completed)
				want(r, "result", string(info.Result), "to the end")
				want(r, "its parent is gone", info.Parent, "")
				r.until("p", Completed, Terminated)
				want(r, "events of children", r.countKind("p", history.ChildFailed)+r.countKind("p", history.ChildCompleted), 0)
				want(r, "in quarantine", len(r.quarantined()), 0)
			})
		})
	}
}

// TestListsByParent: the children of an instance are listed by its ID, from their start on, whatever
// becomes of them, and how they are found is not among their tags. A child that has not ended when its
// parent does has no parent any more.
func TestListsByParent(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome {
			sleep(c, time.Hour)
			return done("")
		})
		r.flow("parent", func(c *replay.Context, in []byte) replay.Outcome {
			c.Child("leaf", string(in)+"-kept", nil, history.Child{})
			c.Child("leaf", string(in)+"-left", nil, history.Child{OnClose: history.AbandonChild})
			c.Child("unserved", string(in)+"-waits", nil, history.Child{OnClose: history.AbandonChild})
			receive(c, "go")
			return done("")
		})
		r.serve()
		listed := func(what string, q Query, ids string) {
			infos, _, err := r.List(r.Context(), q)
			r.must(err)
			want(r, what, idsOf(infos), ids)
			for _, info := range infos {
				want(r, "tags of "+info.ID, len(info.Tags), 0)
			}
		}
		r.begin("p", "parent", "p")
		r.begin("q", "parent", "q")
		r.pass(time.Minute)
		listed("children of p", Query{Parent: "p"}, "p-kept p-left p-waits")
		listed("of p, with a prefix", Query{Parent: "p", Prefix: "p-l"}, "p-left")
		listed("of p, running", Query{Parent: "p", Statuses: []Status{Running}}, "p-kept p-left")
		listed("of q", Query{Parent: "q", Descending: true, Limit: 1}, "q-waits")
		listed("of a child", Query{Parent: "p-kept"}, "")
		other := "other"
		listed("of another tenant", Query{Parent: "p", Tenant: &other}, "")
		r.raise("p", "go", "")
		r.pass(time.Minute)
		listed("when p has ended", Query{Parent: "p"}, "")
		r.pass(2 * time.Hour)
		listed("when all have", Query{Parent: "q", Statuses: []Status{Completed}}, "q-kept q-left")
	})
}

// TestClosePoliciesReachChildrenThatNobodyServes.
func TestClosePoliciesReachChildrenThatNobodyServes(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Child("leaf", "terminate", nil, history.Child{OnClose: history.TerminateChild})
			c.Child("leaf", "cancel", nil, history.Child{OnClose: history.CancelChild})
			sleep(c, time.Minute)
			return done("")
		})
		r.serve()
		r.begin("p", "parent", "")
		r.result("p")
		r.until("terminate", Terminated)
		want(r, "cancelling needs its code", r.info("cancel").Status, Pending)
		r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome { return failed(sleep(c, time.Hour)) })
		r.again()
		r.until("cancel", Cancelled)
	})
}

func TestChildWithAnIDThatExists(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", waiter)
		r.flow("parent", parenting("leaf", "taken", history.Child{}))
		r.serve()
		r.begin("taken", "leaf", "")
		r.pass(0)
		r.begin("p", "parent", "")
		info := r.until("p", Failed)
		want(r, "type", info.Failure.Type, TypeExists)
		want(r, "final", info.Failure.Final, true)
		r.raise("taken", "go", "untouched")
		want(r, "result", r.result("taken"), "untouched")
	})
}

// gets counts reads of records.
type gets struct {
	store.Store
	n atomic.Int64
}

func (s *gets) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	s.n.Add(1)
	return s.Store.Get(ctx, key)
}

// TestOneIDOfManyChildrenExists: that is found without a look at each of them.
func TestOneIDOfManyChildrenExists(t *testing.T) {
	for _, taken := range []int{1, fewTaken + 2} {
		t.Run(fmt.Sprint(taken, " taken"), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				const n = 100
				r.flow("leaf", quick)
				r.flow("taken", waiter)
				r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
					var children []*replay.Future
					for i := range n {
						children = append(children, c.Child("leaf", fmt.Sprint("c", i), nil, history.Child{}))
					}
					c.Wait(children...)
					exist := 0
					for _, f := range children {
						if _, bad := f.Result(); bad != nil && bad.Type == TypeExists {
							exist++
						}
					}
					return done(fmt.Sprint(exist))
				})
				for i := range taken {
					r.begin(fmt.Sprint("c", 10*i), "taken", "")
				}
				counted := &gets{Store: r.tape}
				r.serve(func(c *Config) { c.Store = counted })
				r.pass(time.Second)
				before := counted.n.Load()
				r.begin("p", "parent", "")
				r.pass(time.Second)
				if n := counted.n.Load() - before; taken == 1 && n > 20 {
					r.Errorf("%d records were read", n)
				}
				want(r, "result", r.result("p"), fmt.Sprint(taken))
			})
		})
	}
}

// TestChildWithItsParentsID is no better.
func TestChildWithItsParentsID(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("parent", parenting("parent", "p", history.Child{}))
		r.serve()
		r.begin("p", "parent", "")
		want(r, "type", r.until("p", Failed).Failure.Type, TypeExists)
	})
}

func TestTwoChildrenWithOneID(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(_ *replay.Context, in []byte) replay.Outcome { return done(string(in)) })
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			one := c.Child("leaf", "c", []byte("first"), history.Child{})
			two := c.Child("leaf", "c", []byte("second"), history.Child{})
			c.Detach("leaf", "c", []byte("third"), history.Child{})
			c.Wait(one, two)
			data, _ := one.Result()
			_, bad := two.Result()
			return done(string(data) + " " + bad.Type)
		})
		r.serve()
		r.begin("p", "parent", "")
		want(r, "result", r.result("p"), "first "+TypeExists)
		want(r, "child", r.result("c"), "first")
	})
}

func TestDetachedGoesOnByItself(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome {
			sleep(c, time.Hour)
			return done("by itself")
		})
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			return done(c.Detach("leaf", "", nil, history.Child{}))
		})
		r.serve()
		r.begin("p", "parent", "")
		id := r.result("p")
		want(r, "status", r.info(id).Status != Completed, true)
		want(r, "parent", r.info(id).Parent, "")
		want(r, "result", r.result(id), "by itself")
		want(r, "pending for the parent: its expiry", len(r.pending(Ref{ID: "p"}.key())), 1)
	})
}

func TestDetachedWithAnIDThatExistsDoesNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", waiter)
		r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
			return done(c.Detach("leaf", "taken", nil, history.Child{}))
		})
		r.serve()
		r.begin("taken", "leaf", "")
		r.pass(0)
		r.begin("p", "parent", "")
		want(r, "result", r.result("p"), "taken")
		r.raise("taken", "go", "x")
		want(r, "result", r.result("taken"), "x")
	})
}

func TestGrandchild(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(c *replay.Context, in []byte) replay.Outcome {
			sleep(c, time.Hour)
			return done(string(in))
		})
		r.flow("middle", parenting("leaf", "", history.Child{}))
		r.flow("top", parenting("middle", "", history.Child{}))
		r.serve(func(c *Config) { c.CacheSize = 1 })
		r.begin("t", "top", "x")
		want(r, "result", r.result("t"), "x")
	})
}

// TestCancelGoesDown to grandchildren, and comes back up.
func TestCancelGoesDown(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome { return failed(sleep(c, time.Hour)) })
		r.flow("middle", parenting("leaf", "l", history.Child{}))
		r.flow("top", parenting("middle", "m", history.Child{}))
		r.serve()
		r.begin("t", "top", "")
		r.pass(time.Second)
		r.must(r.Cancel(r.Context(), Ref{ID: "t"}, "enough"))
		for _, id := range []string{"t", "m", "l"} {
			r.until(id, Cancelled)
		}
	})
}

// TestChildContinuesAsNew: its parent gets the result of the last execution.
func TestChildContinuesAsNew(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(c *replay.Context, in []byte) replay.Outcome {
			sleep(c, time.Minute)
			if len(in) < 5 {
				return replay.Outcome{Continue: &replay.Continue{Name: "leaf", Input: append(in, 'x')}}
			}
			return done(string(in))
		})
		r.flow("parent", parenting("leaf", "c", history.Child{}))
		r.serve()
		r.begin("p", "parent", "")
		want(r, "result", r.result("p"), "xxxxx")
		want(r, "execution", r.info("c").Execution, 6)
	})
}

// TestAnswerOfAChildForAnEarlierExecution is stale.
func TestAnswerOfAChildForAnEarlierExecution(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome {
			c.Wait(c.Shield().Timer("", c.Now().Add(time.Hour))) // whatever its parent wants
			return done("late")
		})
		r.flow("parent", func(c *replay.Context, in []byte) replay.Outcome {
			if len(in) == 0 {
				c.Child("leaf", "c", nil, history.Child{})
				return replay.Outcome{Continue: &replay.Continue{Name: "parent", Input: []byte("second")}}
			}
			return outcome(c, c.Child("leaf", "d", nil, history.Child{}))
		})
		r.serve()
		r.begin("p", "parent", "")
		want(r, "result", r.result("p"), "late")
		want(r, "answers", r.countKind("p", history.ChildCompleted), 1)
		r.until("c", Completed)
	})
}

// TestChildReplacesOneThatEnded: a child may have the ID of an earlier one that has ended, if it says so, also
// if both are in turns that follow each other at once. Its code runs once.
func TestChildReplacesOneThatEnded(t *testing.T) {
	for _, replace := range []bool{true, false} {
		t.Run(fmt.Sprint(replace), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				var runs atomic.Int32
				r.flow("leaf", func(*replay.Context, []byte) replay.Outcome {
					return done(fmt.Sprint(runs.Add(1)))
				})
				r.flow("parent", func(c *replay.Context, _ []byte) replay.Outcome {
					outcome(c, c.Child("leaf", "c", nil, history.Child{Replace: replace}))
					return outcome(c, c.Child("leaf", "c", nil, history.Child{Replace: replace}))
				})
				r.serve()
				r.begin("p", "parent", "")
				if !replace {
					want(r, "failure", r.until("p", Failed).Failure.Type, TypeExists)
					return
				}
				want(r, "result", r.result("p"), "2")
				want(r, "runs", int(runs.Load()), 2)
			})
		})
	}
}

// TestChildDoesNotReplaceOneThatRuns: the ID of an instance that has not ended is taken.
func TestChildDoesNotReplaceOneThatRuns(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", func(c *replay.Context, _ []byte) replay.Outcome { return outcome(c, c.Receive("never")) })
		r.flow("parent", parenting("leaf", "c", history.Child{Replace: true}))
		r.serve()
		r.begin("c", "leaf", "")
		r.until("c", Running)
		r.begin("p", "parent", "")
		want(r, "failure", r.until("p", Failed).Failure.Type, TypeExists)
		want(r, "the other", r.info("c").Status, Running)
	})
}
