package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store"
)

func TestTerminateWithResult(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("flow", waiter)
		r.serve()
		r.begin("i", "flow", "")
		r.pass(0)
		ctx := WithActor(r.Context(), "operator")
		r.wantErr(r.TerminateWith(ctx, Ref{ID: "i"}, Termination{Result: make([]byte, MaxPayload+1)}), ErrInvalid, "result")
		r.must(r.TerminateWith(ctx, Ref{ID: "i"}, Termination{Reason: "stop", Result: []byte(`"out"`)}))
		info := r.until("i", Terminated)
		want(r, "result", string(info.Result), `"out"`)
		want(r, "reason", info.Reason, "stop")
		e := r.find("i", history.ExecutionTerminated)
		want(r, "event", e.Name+" "+e.By+" "+string(e.Data), `stop operator "out"`)
		r.wantErr(r.TerminateWith(ctx, Ref{ID: "i"}, Termination{}), ErrState, "terminated")
		r.wantErr(r.TerminateWith(ctx, Ref{ID: "none"}, Termination{}), ErrNotFound)
		r.begin("large", "flow", "")
		large := bytes.Repeat([]byte("x"), MaxPayload)
		r.must(r.TerminateWith(ctx, Ref{ID: "large"}, Termination{Result: large}))
		want(r, "large result", bytes.Equal(r.until("large", Terminated).Result, large), true)
	})
}

// TestTerminateRecursively ends children and grandchildren that would be left alone otherwise.
func TestTerminateRecursively(t *testing.T) {
	for name, recursive := range map[string]bool{"recursive": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.flow("leaf", waiter)
				r.flow("middle", parenting("leaf", "leaf", history.Child{OnClose: history.AbandonChild}))
				r.flow("orphaning", parenting("middle", "middle", history.Child{OnClose: history.AbandonChild}))
				r.serve()
				r.begin("p", "orphaning", "")
				r.pass(0)
				r.must(r.TerminateWith(r.Context(), Ref{ID: "p"}, Termination{Result: []byte("out"), Recursive: recursive}))
				r.until("p", Terminated)
				r.pass(time.Second)
				wanted := Running
				if recursive {
					wanted = Terminated
				}
				want(r, "child", r.info("middle").Status, wanted)
				want(r, "grandchild", r.info("leaf").Status, wanted)
				want(r, "the result is that of the parent alone", len(r.info("middle").Result), 0)
			})
		})
	}
}

// TestTerminateRecursivelySurvivesACrash: what is to be done to the children is durable with the end of their
// parent, also if nobody serves them and every commit about them fails at first.
func TestTerminateRecursivelySurvivesACrash(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.flow("leaf", waiter)
		r.flow("middle", parenting("leaf", "leaf", history.Child{OnClose: history.AbandonChild}))
		r.flow("parent", parenting("middle", "middle", history.Child{OnClose: history.AbandonChild}))
		r.serve()
		r.begin("p", "parent", "")
		r.pass(0)
		r.tape.failing(func(tx *store.Tx) error {
			for _, f := range tx.Finish {
				if f.Lease.Key == (Ref{ID: "middle"}).control() {
					return errBroken
				}
			}
			return nil
		})
		r.must(r.TerminateWith(r.Context(), Ref{ID: "p"}, Termination{Recursive: true}))
		r.until("p", Terminated)
		want(r, "child", r.info("middle").Status, Running)
		clear(r.code)
		r.shut()
		r.tape.failing(nil)
		r.serve()
		r.until("middle", Terminated)
		r.until("leaf", Terminated)
	})
}
