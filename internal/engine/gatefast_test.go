package engine

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

// toGates returns how many messages to gates were committed, and how many claims of gates were finished.
func (r *rig) toGates() (messages, claims int) {
	for _, tx := range r.tape.commits() {
		for i := range tx.Put {
			if tx.Put[i].Key.Queue == queueLimits && tx.Put[i].ID != idLook {
				messages++
			}
		}
		for i := range tx.Finish {
			if tx.Finish[i].Lease.Key.Queue == queueLimits {
				claims++
			}
		}
	}
	return messages, claims
}

// gateRecordOf returns what a gate without keys remembers.
func (r *rig) gateRecordOf(name string) gateState {
	r.Helper()
	rec, err := r.tape.Get(r.Context(), gateRecord("", name))
	r.must(err)
	s, err := gateOf(rec)
	r.must(err)
	return s
}

// firstUse runs one instance, after which the gate has a record.
func (r *rig) firstUse() {
	r.Helper()
	r.begin("first", "flow", "x")
	r.result("first")
	r.pass(time.Minute)
	r.tape.mu.Lock()
	r.tape.txs = nil
	r.tape.mu.Unlock()
}

// threeAtATime serves a flow whose activity is under a limit of three, which has been used once.
func (r *rig) threeAtATime(change ...func(*Config)) *meterOf {
	r.Helper()
	m := newMeterOf()
	r.limitedFlow(m, func([]byte) history.Activity {
		return history.Activity{Limits: under(func(l *history.Limit) { l.Concurrency = 3 })}
	})
	r.serve(change...)
	r.firstUse()
	return m
}

// TestNoMessageWhileThereIsRoom: what enters a gate that has room rides in the commit of its turn, and so does what
// leaves it. Neither sends a message, and nobody claims the gate.
func TestNoMessageWhileThereIsRoom(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := r.threeAtATime()
		for i := range 12 {
			r.begin(fmt.Sprint(i), "flow", "x")
			if i%3 == 2 {
				for k := range 3 {
					want(r, "result", r.result(fmt.Sprint(i-k)), "x")
				}
			}
		}
		want(r, "most at a time", m.most["x"], 3)
		messages, claims := r.toGates()
		want(r, "messages to gates", messages, 0)
		want(r, "claims of gates", claims, 0)
		s := r.gateRecordOf("stripe")
		want(r, "admitted", s.admitted, 13)
		want(r, "under way", len(s.holders), 0)
		r.nothingLeft()
	})
}

// TestMessagesWhileThereIsNoRoom: what finds no room waits in its order, and what comes later waits behind it. When
// all is done, commits carry what the gate does again.
func TestMessagesWhileThereIsNoRoom(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := r.threeAtATime()
		for i := range 20 {
			r.begin(fmt.Sprint(i), "flow", "x")
			<-time.After(time.Millisecond)
		}
		for i := range 20 {
			r.result(fmt.Sprint(i))
		}
		want(r, "most at a time", m.most["x"], 3)
		for i, who := range m.ran()[1:] {
			want(r, fmt.Sprintf("run %d", i), who, fmt.Sprint(i))
		}
		messages, claims := r.toGates()
		if messages < 17 || claims == 0 {
			r.Errorf("%d messages and %d claims, want a message of each that had to wait", messages, claims)
		}
		r.pass(time.Minute)
		before, _ := r.toGates()
		r.begin("last", "flow", "x")
		r.result("last")
		after, _ := r.toGates()
		want(r, "messages of the last", after-before, 0)
		r.nothingLeft()
	})
}

// TestABatchThatIsRefused: a commit that cannot be made with others is made alone, with messages.
func TestABatchThatIsRefused(t *testing.T) {
	for _, refusal := range []error{store.ErrConflict, store.ErrTooLarge, store.ErrInvalid} {
		t.Run(refusal.Error(), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				m := r.threeAtATime()
				refused := 0
				r.tape.failing(func(tx *store.Tx) error {
					for i := range tx.PutRecords {
						if tx.PutRecords[i].Record.Key == gateRecord("", "stripe") && len(tx.Finish)+len(tx.Append) > 0 && !finishes(tx, store.Key{Queue: queueLimits, Name: "stripe"}) {
							refused++
							return fmt.Errorf("refused: %w", refusal)
						}
					}
					return nil
				})
				for i := range 12 {
					r.begin(fmt.Sprint(i), "flow", "x")
				}
				for i := range 12 {
					want(r, "result", r.result(fmt.Sprint(i)), "x")
				}
				r.tape.failing(nil)
				want(r, "most at a time", m.most["x"], 3)
				want(r, "runs", len(m.ran()), 13)
				if refused == 0 {
					r.Error("no batch was made, so none was refused")
				}
				r.nothingLeft()
			})
		})
	}
}

// TestABatchWhoseOutcomeIsUnknown: whether it was committed or not, all is done once and no unit is lost.
func TestABatchWhoseOutcomeIsUnknown(t *testing.T) {
	for _, committed := range []bool{true, false} {
		t.Run(fmt.Sprint(committed), func(t *testing.T) {
			inBubble(t, func(r *rig) {
				m := r.threeAtATime(unfused) // a start is told when nobody knows of its first turn
				var lost atomic.Int32
				r.tape.failing(func(tx *store.Tx) error {
					for i := range tx.PutRecords {
						if tx.PutRecords[i].Record.Key != gateRecord("", "stripe") || lost.Add(1) > 5 {
							continue
						}
						if committed {
							if err := r.tape.Store.Commit(r.Context(), tx); err != nil {
								return err
							}
						}
						return errors.New("connection reset by peer")
					}
					return nil
				})
				for i := range 12 {
					r.begin(fmt.Sprint(i), "flow", "x")
				}
				for i := range 12 {
					want(r, "result", r.result(fmt.Sprint(i)), "x")
				}
				if n := lost.Load(); n < 5 {
					r.Errorf("%d commits without an answer, want 5", n)
				}
				if m.most["x"] > 3 {
					r.Errorf("%d at a time, want 3 at most", m.most["x"])
				}
				r.pass(time.Hour)
				r.nothingLeft()
			})
		})
	}
}

// TestProcessesAtOneGate: engines of two processes commit what a gate does, each for its own work. A version that
// one of them has read is not written over by the other.
func TestProcessesAtOneGate(t *testing.T) {
	inBubble(t, func(r *rig) {
		m := r.threeAtATime()
		first := r.Engine
		second := r.serve()
		r.tape.slowly(10 * time.Millisecond)
		for i := range 40 {
			r.Engine = []*Engine{first, second}[i%2]
			r.begin(fmt.Sprint(i), "flow", "x")
		}
		for i := range 40 {
			want(r, "result", r.result(fmt.Sprint(i)), "x")
		}
		want(r, "most at a time", m.most["x"], 3)
		want(r, "admitted", r.gateRecordOf("stripe").admitted, 41)
		r.nothingLeft()
		r.stop(second)
		r.Engine = first
	})
}

// TestALimitWithoutARecordIsNotRemembered: a process that has looked before the record of a limit was made, by another
// process or by a commit of its own whose answer was lost, does not take the limit for none a moment later.
func TestALimitWithoutARecordIsNotRemembered(t *testing.T) {
	inBubble(t, func(r *rig) {
		var rules ruleMemory
		s, err := rules.limit(r.Context(), r.tape, "", "stripe", time.Now())
		r.must(err)
		want(r, "known", s.hasDeclared, false)
		s.learn(history.Limit{Name: "stripe", Concurrency: 1}, time.Now())
		r.must(r.tape.Commit(r.Context(), &store.Tx{PutRecords: []store.PutRecord{s.put("")}}))
		s, err = rules.limit(r.Context(), r.tape, "", "stripe", time.Now())
		r.must(err)
		want(r, "units", s.rule().concurrency, 1)
	})
}

// TestWithdrawnAfterItsTaskWasPut: the task of work that is withdrawn may just be claimed. Its unit is kept until the
// lease of a claim would have ended.
func TestWithdrawnAfterItsTaskWasPut(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.limitedFlow(newMeterOf(), func([]byte) history.Activity { return history.Activity{Limits: under()} })
		r.serve(func(c *Config) { c.Activities = nil }) // nothing claims the tasks
		for _, id := range []string{"first", "second"} {
			r.begin(id, "flow", "x")
			r.pass(time.Second)
		}
		r.must(r.client().Terminate(r.Context(), Ref{ID: "first"}, ""))
		r.pass(DefaultLease - time.Second)
		s := r.gateRecordOf("stripe")
		want(r, "admitted", s.admitted, 1)
		want(r, "waiting", s.waiting, 1)
		r.pass(2 * time.Second)
		s = r.gateRecordOf("stripe")
		want(r, "admitted in the end", s.admitted, 2)
		want(r, "waiting in the end", s.waiting, 0)
	})
}

// TestWithdrawnWhileItWaitsFurtherOn: work that is found waiting at a gate leaves those that it has passed at once.
func TestWithdrawnWhileItWaitsFurtherOn(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.limitedFlow(newMeterOf(), func(in []byte) history.Activity {
			limits := under(func(l *history.Limit) { l.Name = "b" })
			if string(in) == "both" {
				limits = append(limits, under(func(l *history.Limit) { l.Name = "a" })...)
			}
			return history.Activity{Limits: limits}
		})
		r.serve(func(c *Config) { c.Activities = nil }) // the first one keeps its unit
		r.begin("first", "flow", "one")
		r.pass(time.Second)
		r.begin("second", "flow", "both")
		r.pass(time.Second)
		want(r, "under way under a", len(r.gateRecordOf("a").holders), 1)
		want(r, "waiting for b", r.gateRecordOf("b").waiting, 1)
		r.must(r.client().Terminate(r.Context(), Ref{ID: "second"}, ""))
		r.pass(time.Second)
		want(r, "under way under a", len(r.gateRecordOf("a").holders), 0)
		want(r, "waiting for b", r.gateRecordOf("b").waiting, 0)
	})
}
