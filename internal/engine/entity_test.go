package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// counter is an entity that adds up: operations add, get, delete, fail, and tell, which signals and starts others.
func counter(_ context.Context, b *EntityBatch) (*EntityOutcome, error) {
	n := 0
	if b.State != nil {
		n, _ = strconv.Atoi(string(b.State))
	}
	out := &EntityOutcome{}
	deleted := false
	for i := range b.Operations {
		op := &b.Operations[i]
		r := EntityResult{}
		switch op.Name {
		case "add":
			by, _ := strconv.Atoi(string(op.Input))
			n, deleted = n+by, false
		case "delete":
			n, deleted = 0, true
		case "fail":
			r.Failure = &history.Failure{Type: "refused", Message: "it does not want to"}
		case "tell":
			out.Signals = append(out.Signals, EntitySignal{To: "@Counter@other", Name: "add", Input: op.Input})
			out.Starts = append(out.Starts, Start{Ref: Ref{ID: "told-" + b.Key}, Name: "told", Input: op.Input})
		}
		r.Data = []byte(strconv.Itoa(n))
		out.Results = append(out.Results, r)
	}
	if !deleted {
		out.State = []byte(strconv.Itoa(n))
	}
	return out, nil
}

func entities(code map[string]EntityCode) func(*Config) {
	return func(c *Config) { c.Entities = code }
}

var counters = entities(map[string]EntityCode{"counter": counter})

func (r *rig) signal(id, op, input string) {
	r.Helper()
	r.must(r.client().SignalEntity(r.Context(), Ref{ID: id}, op, []byte(input), time.Time{}, ""))
}

func (r *rig) entityState(id string) string {
	r.Helper()
	info, err := r.client().GetEntity(r.Context(), Ref{ID: id})
	if errors.Is(err, ErrNotFound) {
		return "none"
	}
	r.must(err)
	if info.State == nil {
		return "empty"
	}
	return string(info.State)
}

// callsEntity returns code that calls the operations of an entity one after the other, and returns their results.
func callsEntity(id string, ops ...string) replay.Code {
	return func(c *replay.Context, input []byte) replay.Outcome {
		var results []string
		for _, op := range ops {
			f := c.CallEntity(id, op, input)
			c.Wait(f)
			data, failure := f.Result()
			if failure != nil {
				data = []byte(failure.Type + ": " + failure.Message)
			}
			results = append(results, string(data))
		}
		return replay.Outcome{Data: []byte(strings.Join(results, " "))}
	}
}

// TestSignalsOfAnEntity: signals run in order, the state is durable, and an entity that was deleted leaves no record.
func TestSignalsOfAnEntity(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.serve(counters)
		for range 20 {
			r.signal("@Counter@a", "add", "2")
		}
		r.pass(0)
		want(r, "state", r.entityState("@counter@a"), "40")
		r.signal("@counter@a", "fail", "")
		r.signal("@counter@a", "add", "1")
		r.pass(0)
		r.again(counters)
		want(r, "state after a failure and a restart", r.entityState("@COUNTER@a"), "41")
		list, next, err := r.client().ListEntities(r.Context(), EntityQuery{Prefix: "@Counter@"})
		if err != nil || next != "" || len(list) != 1 || list[0].ID != "@counter@a" || list[0].ModifiedAt.IsZero() {
			t.Errorf("listed %+v, %q, %v", list, next, err)
		}
		r.signal("@counter@a", "delete", "")
		r.pass(0)
		want(r, "deleted", r.entityState("@counter@a"), "none")
		r.signal("@counter@a", "add", "5")
		r.pass(0)
		want(r, "made again", r.entityState("@counter@a"), "5")
	})
}

// TestDelayedSignalAndDuplicates: a signal is delivered when it is due, and one with the request of another is dropped.
func TestDelayedSignalAndDuplicates(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.serve(counters)
		ref := Ref{ID: "@counter@a"}
		r.must(r.client().SignalEntity(r.Context(), ref, "add", []byte("10"), time.Now().Add(time.Hour), ""))
		for range 3 {
			r.must(r.client().SignalEntity(r.Context(), ref, "add", []byte("1"), time.Time{}, "once"))
			r.pass(0)
		}
		want(r, "before", r.entityState(ref.ID), "1")
		r.pass(time.Hour)
		want(r, "after", r.entityState(ref.ID), "11")
		r.wantErr(r.client().SignalEntity(r.Context(), Ref{ID: "counter"}, "add", nil, time.Time{}, ""), ErrInvalid, "@name@key")
		r.wantErr(r.client().SignalEntity(r.Context(), ref, "", nil, time.Time{}, ""), ErrInvalid)
		r.wantErr(r.client().SignalEntity(r.Context(), ref, "add", make([]byte, MaxPayload+1), time.Time{}, ""), ErrInvalid)
	})
}

// TestCallsOfAnEntity: results and failures of operations come back, also to instances that are loaded anew.
func TestCallsOfAnEntity(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("caller", callsEntity("@counter@a", "add", "fail", "add"))
		r.serve(counters, func(c *Config) { c.CacheSize = 1 })
		r.begin("one", "caller", "3")
		r.begin("two", "caller", "3")
		one, two := r.result("one"), r.result("two")
		r.pass(0)
		want(r, "state", r.entityState("@counter@a"), "12")
		for _, got := range []string{one, two} {
			if !strings.Contains(got, "refused: it does not want to") {
				t.Errorf("results %q", got)
			}
		}
		want(r, "history", r.kinds("one"), "TurnStarted ExecutionStarted EntityCalled TurnStarted EntityCompleted EntityCalled "+
			"TurnStarted EntityFailed EntityCalled TurnStarted EntityCompleted ExecutionCompleted")
	})
}

// TestEntityTellsOthers: signals and starts of an operation are committed with it; a start whose ID exists does nothing.
func TestEntityTellsOthers(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("told", func(_ *replay.Context, input []byte) replay.Outcome { return replay.Outcome{Data: input} })
		r.serve(counters)
		r.signal("@counter@a", "tell", "7")
		r.pass(0)
		want(r, "other", r.entityState("@counter@other"), "7")
		want(r, "told", r.result("told-a"), "7")
		r.signal("@counter@a", "tell", "8")
		r.pass(0)
		want(r, "other", r.entityState("@counter@other"), "15")
		want(r, "told", r.result("told-a"), "7")
	})
}

// TestBatchThatFails: a batch that fails as a whole is tried again; the operation that is to blame goes to quarantine and
// its caller is told; what was sent before and after it has its effect once. A worker that is lost does not count.
func TestBatchThatFails(t *testing.T) {
	inBubble(t, func(r *rig) {
		away := 50
		code := func(ctx context.Context, b *EntityBatch) (*EntityOutcome, error) {
			if away--; away >= 0 {
				return nil, fmt.Errorf("lost: %w", ErrUnavailable)
			}
			if slices.ContainsFunc(b.Operations, func(op EntityOperation) bool { return op.Name == "poison" }) {
				panic("oh dear")
			}
			return counter(ctx, b)
		}
		r.flow("caller", callsEntity("@counter@a", "poison"))
		r.signal("@counter@a", "add", "1")
		r.begin("one", "caller", "1")
		r.serve(entities(map[string]EntityCode{"counter": code}))
		r.until("one", Running)
		r.signal("@counter@a", "add", "2")
		if got := r.result("one"); !strings.HasPrefix(got, TypeCrashed) {
			t.Errorf("the caller got %q", got)
		}
		r.pass(time.Minute)
		want(r, "state", r.entityState("@counter@a"), "3")
		list, _, err := r.client().Quarantine(r.Context(), nil, 10, "")
		if err != nil || len(list) != 1 || list[0].Queue != QueueEntities || list[0].Reason != store.ReasonAttempts || list[0].Event.Name != "poison" {
			t.Errorf("quarantine %+v, %v", list, err)
		}
	})
}

// TestFewerResults: operations without a result are delivered again, however many there are.
func TestFewerResults(t *testing.T) {
	inBubble(t, func(r *rig) {
		var ran atomic.Int64
		code := func(ctx context.Context, b *EntityBatch) (*EntityOutcome, error) {
			ran.Add(1)
			first := *b
			first.Operations = b.Operations[:1]
			return counter(ctx, &first)
		}
		for range 30 {
			r.signal("@counter@a", "add", "1")
		}
		r.serve(entities(map[string]EntityCode{"counter": code}))
		r.pass(time.Minute)
		want(r, "state", r.entityState("@counter@a"), "30")
		want(r, "batches", ran.Load(), 30)
	})
}

// TestCloseGivesBackOperationsThatStop: an operation that fails because its engine is closing runs again elsewhere, and
// so do those of its batch; one that succeeds all the same has succeeded.
func TestCloseGivesBackOperationsThatStop(t *testing.T) {
	for _, succeeds := range []bool{false, true} {
		t.Run(fmt.Sprintf("succeeds %v", succeeds), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				code := func(ctx context.Context, b *EntityBatch) (*EntityOutcome, error) {
					<-ctx.Done()
					out, err := counter(ctx, b)
					for i := range out.Results {
						if !succeeds && b.Operations[i].Call {
							out.Results[i] = EntityResult{Failure: failure("stopped")}
						}
					}
					return out, err
				}
				r.flow("caller", callsEntity("@counter@a", "add"))
				r.serve(entities(map[string]EntityCode{"counter": code}))
				r.begin("one", "caller", "3")
				r.pass(time.Second)
				ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
				defer cancel()
				r.wantErr(r.Close(ctx), context.DeadlineExceeded, "still under way")
				want(r, "state after the end", r.entityState("@counter@a"), map[bool]string{false: "none", true: "3"}[succeeds])
				start := time.Now()
				r.serve(counters)
				want(r, "result", r.result("one"), "3")
				want(r, "waited for a lease", time.Since(start), 0)
				want(r, "state", r.entityState("@counter@a"), "3")
			})
		})
	}
}

// TestStateThatIsTooLarge: an operation whose outcome does not fit fails alone and changes nothing.
func TestStateThatIsTooLarge(t *testing.T) {
	inBubble(t, func(r *rig) {
		code := func(_ context.Context, b *EntityBatch) (*EntityOutcome, error) {
			out := &EntityOutcome{State: slices.Clone(b.State)}
			for _, op := range b.Operations {
				n, _ := strconv.Atoi(string(op.Input))
				out.State = append(out.State, make([]byte, n)...)
				out.Results = append(out.Results, EntityResult{})
			}
			return out, nil
		}
		r.flow("caller", callsEntity("@bag@a", "grow"))
		for range 5 {
			r.signal("@bag@a", "grow", "10")
		}
		r.serve()
		r.begin("one", "caller", strconv.Itoa(MaxPayload))
		r.pass(0)
		r.again(entities(map[string]EntityCode{"bag": code})) // all of them in one batch
		if got := r.result("one"); !strings.Contains(got, "at most") {
			t.Errorf("the caller got %q", got)
		}
		info, err := r.client().GetEntity(r.Context(), Ref{ID: "@bag@a"})
		if err != nil || len(info.State) != 50 {
			t.Errorf("the state has %d bytes, %v", len(info.State), err)
		}
	})
}

// TestEntitiesThatAreFound: an engine claims entities from the moment at which their names are found.
func TestEntitiesThatAreFound(t *testing.T) {
	inBubble(t, func(r *rig) {
		names := &found{changed: make(chan struct{})}
		r.signal("@counter@a", "add", "4")
		r.serve(named("finder"), func(c *Config) { c.Discovery, c.DiscoveredEntity = names, counter })
		r.pass(0)
		want(r, "before", r.entityState("@counter@a"), "none")
		unserved, err := r.Unserved(r.Context())
		if err != nil || len(unserved) != 1 || unserved[0].Queue != QueueEntities || unserved[0].Route != "counter" {
			t.Errorf("unserved %+v, %v", unserved, err)
		}
		names.mu.Lock()
		names.entities = []string{"counter"}
		close(names.changed)
		names.changed = make(chan struct{})
		names.mu.Unlock()
		r.pass(0)
		want(r, "after", r.entityState("@counter@a"), "4")
		if w := r.workers()[0]; !slices.Equal(w.Entities, []string{"counter"}) {
			t.Errorf("the worker serves %v", w.Entities)
		}
	})
}

// transfer locks two accounts, moves an amount, and releases them when it was told to.
func transfer(c *replay.Context, input []byte) replay.Outcome {
	ids, _ := json.Marshal([]string{"@counter@a", "@counter@b"})
	lock := c.LockEntities(ids)
	c.Wait(lock)
	if _, failure := lock.Result(); failure != nil {
		return replay.Outcome{Failure: failure}
	}
	c.Wait(c.CallEntity("@counter@a", "add", []byte("-"+string(input))))
	c.Wait(c.Receive("go on"))
	c.Wait(c.CallEntity("@counter@b", "add", input))
	c.UnlockEntity(lock, "@counter@a")
	c.UnlockEntity(lock, "@counter@b")
	return replay.Outcome{Data: []byte("done")}
}

func (r *rig) lockedBy(id string) string {
	r.Helper()
	info, err := r.client().GetEntity(r.Context(), Ref{ID: id})
	if errors.Is(err, ErrNotFound) {
		return ""
	}
	r.must(err)
	return info.LockedBy
}

// TestLocks: while an entity is locked the operations of its holder run and all others wait, in order; two that lock the
// same set run one after the other.
func TestLocks(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("transfer", transfer)
		r.flow("caller", callsEntity("@counter@a", "add"))
		r.serve(counters)
		r.begin("first", "transfer", "5")
		r.pass(0)
		r.begin("second", "transfer", "7")
		r.begin("third", "caller", "100")
		r.signal("@counter@a", "add", "1000")
		r.pass(0)
		want(r, "holder of a", r.lockedBy("@counter@a"), "first")
		want(r, "holder of b", r.lockedBy("@counter@b"), "first")
		want(r, "state while locked", r.entityState("@counter@a"), "-5")
		info, err := r.client().GetEntity(r.Context(), Ref{ID: "@counter@a"})
		if err != nil || info.Backlog != 3 || info.Waiting[0].Kind != history.EntityLockRequested || info.Waiting[0].From != "second" {
			t.Errorf("backlog %+v, %v", info, err)
		}
		r.again(counters)
		r.raise("first", "go on", "1")
		want(r, "first", r.result("first"), "done")
		r.pass(0)
		want(r, "holder of a", r.lockedBy("@counter@a"), "second")
		want(r, "state while locked again", r.entityState("@counter@a"), "-12")
		r.raise("second", "go on", "1")
		want(r, "second", r.result("second"), "done")
		want(r, "third", r.result("third"), "88")
		r.pass(0)
		want(r, "a", r.entityState("@counter@a"), "1088")
		want(r, "b", r.entityState("@counter@b"), "12")
		want(r, "holder in the end", r.lockedBy("@counter@a")+r.lockedBy("@counter@b"), "")
	})
}

// TestLocksOfAnInstanceThatEnds: whatever ends an instance releases the locks that it holds or has requested.
func TestLocksOfAnInstanceThatEnds(t *testing.T) {
	ends := map[string]func(r *rig, id string){
		"terminated": func(r *rig, id string) { r.must(r.client().Terminate(r.Context(), Ref{ID: id}, "")) },
		"cancelled":  func(r *rig, id string) { r.must(r.client().Cancel(r.Context(), Ref{ID: id}, "")) },
		"continued":  func(r *rig, id string) { r.raise(id, "again", "1") },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("transfer", func(c *replay.Context, input []byte) replay.Outcome {
					if string(input) == "rest" {
						return replay.Outcome{Data: input}
					}
					again := c.Receive("again")
					ids, _ := json.Marshal([]string{"@counter@b", "@counter@a", "@counter@c"})
					lock := c.LockEntities(ids)
					if c.WaitAny(again, lock) == 1 {
						c.Wait(again)
					}
					if c.Cancelled() != nil {
						return replay.Outcome{Failure: c.Cancelled()}
					}
					return replay.Outcome{Continue: &replay.Continue{Name: "transfer", Input: []byte("rest")}}
				})
				r.serve(counters)
				r.begin("holder", "transfer", "1")
				r.pass(0)
				r.begin("waiter", "transfer", "1")
				r.pass(0)
				want(r, "holder", r.lockedBy("@counter@a")+r.lockedBy("@counter@b")+r.lockedBy("@counter@c"), "holderholderholder")
				end(r, "waiter") // which has requested, and waits at the first
				r.pass(time.Minute)
				end(r, "holder")
				r.pass(time.Minute)
				for _, id := range []string{"@counter@a", "@counter@b", "@counter@c"} {
					want(r, id, r.entityState(id), "none")
				}
				r.signal("@counter@b", "add", "1")
				r.pass(0)
				want(r, "works on", r.entityState("@counter@b"), "1")
			})
		})
	}
}

// TestRequestThatIsUnderWay: an instance that ends while its request is on its way through the set leaves no lock.
func TestRequestThatIsUnderWay(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("locker", func(c *replay.Context, _ []byte) replay.Outcome {
			ids, _ := json.Marshal([]string{"@counter@a", "@other@b", "@tally@c"})
			c.Wait(c.LockEntities(ids))
			return replay.Outcome{}
		})
		r.serve(entities(map[string]EntityCode{"counter": counter, "tally": counter})) // nothing serves other, so that the request waits there
		r.begin("one", "locker", "")
		r.pass(0)
		want(r, "holder", r.lockedBy("@counter@a"), "one")
		r.must(r.client().Terminate(r.Context(), Ref{ID: "one"}, ""))
		r.pass(0)
		want(r, "released", r.lockedBy("@counter@a"), "")
		r.again(entities(map[string]EntityCode{"counter": counter, "tally": counter, "other": counter}))
		r.pass(time.Minute)
		for _, id := range []string{"@counter@a", "@other@b", "@tally@c"} {
			want(r, id, r.entityState(id), "none")
		}
	})
}

// TestBacklogThatIsFull: beyond the bound a call fails, and signals wait in quarantine.
func TestBacklogThatIsFull(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("transfer", transfer)
		r.flow("caller", callsEntity("@counter@a", "add"))
		r.serve(counters, func(c *Config) { c.MaxEntityBacklog = 2 })
		r.begin("first", "transfer", "5")
		r.pass(0)
		for range 3 {
			r.signal("@counter@a", "add", "10")
		}
		r.pass(0)
		r.begin("second", "caller", "1")
		if got := r.result("second"); !strings.HasPrefix(got, TypeBusy) {
			t.Errorf("the caller got %q", got)
		}
		list, _, err := r.client().Quarantine(r.Context(), nil, 10, "")
		if err != nil || len(list) != 1 || list[0].Reason != ReasonBacklog {
			t.Fatalf("quarantine %+v, %v", list, err)
		}
		r.raise("first", "go on", "1")
		r.result("first")
		r.must(r.client().Redrive(r.Context(), list[0].Tenant, list[0].ID))
		r.pass(0)
		want(r, "state", r.entityState("@counter@a"), "25")
	})
}

// TestOrphanedLocks: a lock whose holder is gone is released by CleanEntities.
func TestOrphanedLocks(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.serve(counters)
		s := entityState{holder: &lockHolder{"gone", 1, 2}}
		r.must(r.tape.Commit(r.Context(), &store.Tx{PutRecords: []store.PutRecord{s.put(Ref{ID: "@counter@a"}, "counter")}}))
		r.signal("@counter@a", "add", "1")
		r.pass(0)
		want(r, "state", r.entityState("@counter@a"), "empty")
		_, released, _, err := r.client().CleanEntities(r.Context(), nil, true, true, "")
		if err != nil || released != 1 {
			t.Errorf("released %d, %v", released, err)
		}
		r.pass(0)
		want(r, "state", r.entityState("@counter@a"), "1")
	})
}
