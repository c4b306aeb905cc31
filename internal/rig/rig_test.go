package rig_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

var key = store.RecordKey{Kind: "thing", ID: "a"}

// TestAtEveryCall: a scenario of three calls is run for each of them, before and after, and
// once more.
func TestAtEveryCall(t *testing.T) {
	t.Parallel()
	var ran []string
	rig.AtEveryCall(t, func(t *testing.T, k int, after bool) (reached bool) {
		ran = append(ran, fmt.Sprint(k, after))
		s := &rig.Hooked{Store: rig.New(t).Store, Hook: rig.NthCall(k, after, func() { reached = true })}
		for range 3 {
			_, err := s.Get(t.Context(), key)
			check.Error(t, err, store.ErrNotFound)
		}
		return reached
	})
	check.Equal(t, "runs", ran, []string{"1 false", "2 false", "3 false", "4 false", "1 true", "2 true", "3 true", "4 true"})
}

// TestFaultAtEveryCall: each call fails once before its effect and once after it.
func TestFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	failed := map[int]int{}
	rig.FaultAtEveryCall(t, func(t *testing.T, plan func(storetest.Call) storetest.Fault) int {
		s := storetest.NewFaulty(rig.New(t).Store, plan)
		for i := range 20 {
			if _, err := s.Stats(t.Context()); errors.Is(err, storetest.ErrFault) {
				failed[i]++
			}
		}
		return s.Calls()
	})
	for i := range 20 {
		check.Equal(t, fmt.Sprintf("failures of call %d", i), failed[i], 2)
	}
}

// TestHooksHoldCallsUp: a freezer from one call on, and a gate while it is shut.
func TestHooksHoldCallsUp(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		r := rig.New(t)
		f := rig.FreezeAt(2, func(method string, after bool) bool { return method == "Get" && !after })
		var gate rig.Gate
		open := gate.Shut()
		for name, hook := range map[string]rig.Hook{"freezer": f.Hook, "gate": gate.Hook} {
			s := &rig.Hooked{Store: r.Store, Hook: hook}
			go func() {
				for range 2 {
					_, _ = s.Get(context.Background(), key)
				}
				if since := time.Since(r.Began); since != time.Minute {
					t.Errorf("the %s has held calls up for %v, want a minute", name, since)
				}
			}()
		}
		<-f.Frozen
		rig.Pass(time.Minute)
		close(f.Thaw)
		open()
		gate.Shut()()
		synctest.Wait()
	})
}

// service runs until its context ends, and returns err then.
type service struct{ err error }

func (s service) Run(ctx context.Context) error { <-ctx.Done(); return s.err }

// TestProcesses: a process that was killed may end with an error, and stopping waits.
func TestProcesses(t *testing.T) {
	t.Parallel()
	rig.Run(t, service{}).Stop()
	rig.Run(t, service{errors.New("cut off")}).Kill()
	c := rig.NewCaller(t, 1)
	err := c.Do(func(n int) error {
		if n == 1 {
			c.Use(2)
			return storetest.ErrFault
		}
		return nil
	})
	check.OK(t, err)
}

// TestRecorder keeps calls, and accepts envelopes one by one.
func TestRecorder(t *testing.T) {
	t.Parallel()
	var r rig.Recorder
	r.Refuse(func(e bus.Envelope) error {
		if e.ID == "b" {
			return bus.ErrPermanent
		}
		return nil
	})
	check.Error(t, r.Publish(t.Context(), []bus.Envelope{{ID: "a"}, {ID: "b"}}), bus.ErrPermanent)
	r.Refuse(nil)
	check.OK(t, r.Publish(t.Context(), []bus.Envelope{{ID: "c"}}))
	var accepted []string
	for _, e := range r.Accepted() {
		accepted = append(accepted, e.ID)
	}
	check.Equal(t, "accepted", accepted, []string{"a", "c"})
	check.Equal(t, "calls", len(r.Calls()), 2)
}

// TestLedger keeps entries by key, and the first twenty problems.
func TestLedger(t *testing.T) {
	t.Parallel()
	var l rig.Ledger[string, int]
	*l.Entry("b")++
	*l.Entry("b")++
	l.Entry("a")
	if l.Find("c") != nil || *l.Find("b") != 2 || !slices.Equal(l.Keys(), []string{"a", "b"}) {
		t.Errorf("the ledger has %v", l.Keys())
	}
	l.Report(t)
	for i := range 30 {
		l.Problem("problem %d", i)
	}
	check.Equal(t, "problems", len(l.Problems()), 20)
}
