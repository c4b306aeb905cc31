package operation_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/operation"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// hooked is a store that says when it is called.
type hooked struct {
	store.Store
	hook func(after bool)
}

func (h *hooked) Commit(ctx context.Context, tx *store.Tx) error {
	h.hook(false)
	defer h.hook(true)
	return h.Store.Commit(ctx, tx)
}

func (h *hooked) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	h.hook(false)
	defer h.hook(true)
	return h.Store.Get(ctx, key)
}

func (h *hooked) List(ctx context.Context, q store.Query) (store.Page, error) {
	h.hook(false)
	defer h.hook(true)
	return h.Store.List(ctx, q)
}

func (h *hooked) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	claims, err := h.Store.Claim(ctx, req)
	if len(claims) > 0 {
		h.hook(false)
		h.hook(true)
	}
	return claims, err
}

// insist makes a call until somebody knows what became of it.
func insist(t *testing.T, call func() error) {
	t.Helper()
	for range 100 {
		err := call()
		if err == nil {
			return
		}
		if !errors.Is(err, storetest.ErrFault) {
			t.Errorf("a call failed: %v", err)
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Error("a call does not succeed")
}

// scenario has one operation of each sort, started through a service that is in trouble.
func (r *rig) scenario(service func() *operation.Service) {
	r.t.Helper()
	for _, req := range []operation.Request{
		{ID: "suspend", Kind: operation.Suspend, Filter: of("a")},
		{ID: "delete", Kind: operation.Delete, Filter: of("b")},
		{ID: "restart", Kind: operation.Restart, Filter: of("c")},
		{ID: "cancelled", Kind: operation.Terminate, Filter: of("nobody")},
	} {
		insist(r.t, func() error { _, err := service().Start(r.t.Context(), req); return err })
	}
	insist(r.t, func() error {
		_, err := service().Cancel(r.t.Context(), "nobody", "cancelled")
		if errors.Is(err, operation.ErrState) { // it was too late
			err = nil
		}
		return err
	})
	r.pass(10 * time.Second)
}

func (r *rig) seed() {
	r.t.Helper()
	r.start(long, "a", "x", 3)
	r.start(quick, "b", "x", 3)
	r.start(quick, "c", "x", 3)
}

// checkScenario checks what came of it: all is done, and none was restarted twice.
func (r *rig) checkScenario(exact bool) {
	r.t.Helper()
	r.pass(2 * time.Minute)
	r.wantStatuses("a", "3 suspended")
	r.wantStatuses("b", "")
	r.wantStatuses("c", "3 completed")
	for _, id := range []string{"suspend", "delete", "restart"} {
		o := r.get(id)
		if o.Status != operation.Completed || o.Failed > 0 || o.Matched > 3 || exact && o.Done != 3 {
			r.t.Errorf("%s is %s: %q %v", id, counts(o), o.Error, o.Errors)
		}
	}
	if o := r.get("cancelled"); !o.Status.Ended() {
		r.t.Errorf("what was cancelled is %s", o.Status)
	}
	for i := range 3 {
		ref := abide.Ref{Tenant: "c", ID: fmt.Sprintf("x%04d", i)}
		// The record is replaced by a restart: begun, ended.
		info, err := r.engine.Get(r.t.Context(), ref)
		check.OK(r.t, err)
		if n := r.restarts(ref); n != 1 {
			r.t.Errorf("%v was restarted %d times; it is %s", ref, n, info.Status)
		}
	}
	stats, err := r.store.Stats(r.t.Context())
	check.OK(r.t, err)
	for _, route := range stats.Routes {
		if route.Queue == "operations" && route.Pending != 4 { // each is removed in a week
			r.t.Errorf("%d messages are left", route.Pending)
		}
	}
}

// restarts returns how often an instance was started again, by the version of its record: two
// when it was started and ended, and two more for each time.
func (r *rig) restarts(ref abide.Ref) int {
	r.t.Helper()
	rec, err := r.store.Get(r.t.Context(), store.RecordKey{Kind: "instance", Tenant: ref.Tenant, ID: ref.ID})
	check.OK(r.t, err)
	return int(rec.Version-2) / 2
}

// runScenario runs the scenario in a process whose calls fail as the plan says. It returns how
// many calls there were.
func runScenario(t *testing.T, plan func(storetest.Call) storetest.Fault) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		faulty := storetest.NewFaulty(r.store, plan)
		service := r.service(faulty, abide.NewClient(faulty, nil))
		r.run(service)
		r.scenario(func() *operation.Service { return service })
		calls = faulty.Calls()
		r.checkScenario(true)
	})
	return calls
}

// TestOperationsSurviveAFaultAtEveryCall has each call to the store fail, one at a time: what
// it should do happens, or does not happen, and the service does not know which.
func TestOperationsSurviveAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	calls := runScenario(t, nil)
	if calls < 40 {
		t.Fatalf("%d calls are too few to be the scenario", calls)
	}
	for name, how := range map[string]storetest.Fault{"before": storetest.FailBefore, "after": storetest.FailAfter} {
		for k := 1; k <= calls; k++ {
			t.Run(fmt.Sprintf("%s %d", name, k), func(t *testing.T) {
				runScenario(t, func(c storetest.Call) storetest.Fault {
					if c.N == k {
						return how
					}
					return storetest.NoFault
				})
			})
		}
	}
}

// TestOperationsSurviveAProcessThatDiesAtEveryCall kills the process at each of its calls to
// the store, before it happens and after. Another one takes over.
func TestOperationsSurviveAProcessThatDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		for k, more := 1, true; more; k++ {
			t.Run(fmt.Sprintf("after %v %d", after, k), func(t *testing.T) { more = runKilled(t, k, after) })
		}
	}
}

// runKilled runs the scenario in a process that is killed at its kth call. It reports whether
// it came to that.
func runKilled(t *testing.T, k int, after bool) (killed bool) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.seed()
		var mu sync.Mutex
		var faulty *storetest.Faulty
		n, dead := 0, make(chan struct{})
		faulty = storetest.NewFaulty(&hooked{Store: r.store, hook: func(isAfter bool) {
			mu.Lock()
			defer mu.Unlock()
			if isAfter != after {
				return
			}
			if n++; n == k {
				faulty.Kill()
				close(dead)
			}
		}}, nil)
		current := r.service(faulty, abide.NewClient(faulty, nil))
		ctx, cancel := context.WithCancel(context.Background())
		gone, over := make(chan struct{}), make(chan struct{})
		go func(first *operation.Service) {
			defer close(gone)
			_ = first.Run(ctx)
		}(current)
		t.Cleanup(func() {
			cancel()
			<-gone
		})
		go func() {
			select {
			case <-dead:
				second := r.service(r.store, abide.ClientOver(r.client, nil))
				mu.Lock()
				current, killed = second, true
				mu.Unlock()
				r.run(second)
			case <-over:
			}
		}()
		r.scenario(func() *operation.Service {
			mu.Lock()
			defer mu.Unlock()
			return current
		})
		close(over)
		r.checkScenario(false)
	})
	return killed
}
