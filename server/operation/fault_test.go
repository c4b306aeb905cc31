package operation_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// scenario has one operation of each sort, started by a caller who is in trouble.
func (r *fixture) scenario(caller *rig.Caller[*operation.Service]) {
	r.T.Helper()
	for _, req := range []operation.Request{
		{ID: "suspend", Kind: operation.Suspend, Filter: of("a")},
		{ID: "delete", Kind: operation.Delete, Filter: of("b")},
		{ID: "restart", Kind: operation.Restart, Filter: of("c")},
		{ID: "cancelled", Kind: operation.Terminate, Filter: of("nobody")},
	} {
		check.OK(r.T, caller.Do(func(s *operation.Service) error { _, err := s.Start(r.T.Context(), req); return err }))
	}
	err := caller.Do(func(s *operation.Service) error { _, err := s.Cancel(r.T.Context(), "nobody", "cancelled"); return err })
	if !errors.Is(err, operation.ErrState) { // or else it was too late
		check.OK(r.T, err)
	}
	rig.Pass(10 * time.Second)
}

func (r *fixture) seed() {
	r.T.Helper()
	r.start(long, "a", "x", 3)
	r.start(quick, "b", "x", 3)
	r.start(quick, "c", "x", 3)
	r.wantStatuses("c", "3 completed")
	r.seeded = map[abide.Ref]int64{}
	for i := range 3 {
		ref := abide.Ref{Tenant: "c", ID: fmt.Sprintf("x%04d", i)}
		r.seeded[ref] = r.version(ref)
	}
}

// checkScenario checks what came of it: all is done, and none was restarted twice.
func (r *fixture) checkScenario(exact bool) {
	r.T.Helper()
	rig.Pass(2 * time.Minute)
	r.wantStatuses("a", "3 suspended")
	r.wantStatuses("b", "")
	r.wantStatuses("c", "3 completed")
	for _, id := range []string{"suspend", "delete", "restart"} {
		o := r.get(id)
		if o.Status != operation.Completed || o.Failed > 0 || o.Matched > 3 || exact && o.Done != 3 {
			r.T.Errorf("%s is %s: %q %v", id, counts(o), o.Error, o.Errors)
		}
	}
	if o := r.get("cancelled"); !o.Status.Ended() {
		r.T.Errorf("what was cancelled is %s", o.Status)
	}
	for i := range 3 {
		ref := abide.Ref{Tenant: "c", ID: fmt.Sprintf("x%04d", i)}
		// The record is replaced by a restart: begun, ended.
		info, err := r.engine.Get(r.T.Context(), ref)
		check.OK(r.T, err)
		if n := r.restarts(ref); n != 1 {
			r.T.Errorf("%v was restarted %d times; it is %s", ref, n, info.Status)
		}
	}
	stats, err := r.Store.Stats(r.T.Context())
	check.OK(r.T, err)
	for _, route := range stats.Routes {
		if route.Queue == "operations" && route.Pending != 4 { // each is removed in a week
			r.T.Errorf("%d messages are left", route.Pending)
		}
	}
}

// restarts returns how often an instance was started again, by the version of its record: it is two
// more for each time, when it is started and when it ends.
func (r *fixture) restarts(ref abide.Ref) int {
	r.T.Helper()
	return int(r.version(ref)-r.seeded[ref]) / 2
}

// version returns the version of an instance's record.
func (r *fixture) version(ref abide.Ref) int64 {
	r.T.Helper()
	rec, err := r.Store.Get(r.T.Context(), store.RecordKey{Kind: "instance", Tenant: ref.Tenant, ID: ref.ID})
	check.OK(r.T, err)
	return rec.Version
}

// runScenario runs the scenario in a process whose calls fail as the plan says. It returns how
// many calls there were.
func runScenario(t *testing.T, plan func(storetest.Call) storetest.Fault) (calls int) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		r.seed()
		faulty := storetest.NewFaulty(r.Store, plan)
		service := r.service(faulty, abide.NewClient(faulty, nil))
		r.run(service)
		r.scenario(rig.NewCaller(t, service))
		calls = faulty.Calls()
		r.checkScenario(true)
	})
	if calls < 40 {
		t.Fatalf("%d calls are too few to be the scenario", calls)
	}
	return calls
}

// TestOperationsSurviveAFaultAtEveryCall has each call to the store fail, one at a time: what
// it should do happens, or does not happen, and the service does not know which.
func TestOperationsSurviveAFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	rig.FaultAtEveryCall(t, runScenario)
}

// TestOperationsSurviveAProcessThatDiesAtEveryCall kills the process at each of its calls to
// the store, before it happens and after. Another one takes over.
func TestOperationsSurviveAProcessThatDiesAtEveryCall(t *testing.T) {
	t.Parallel()
	rig.AtEveryCall(t, runKilled)
}

// runKilled runs the scenario in a process that is killed at its kth call. It reports whether
// it came to that.
func runKilled(t *testing.T, k int, after bool) (killed bool) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		r.seed()
		faulty := rig.NewMortal(r.Store, nil, func(kill func()) rig.Hook { return rig.NthCall(k, after, kill) })
		first := r.service(faulty, abide.NewClient(faulty, nil))
		caller, running := rig.NewCaller(t, first), rig.Run(t, first)
		killed = faulty.Survive(func() { r.scenario(caller) }, func() {
			running.Kill()
			second := r.service(r.Store, abide.ClientOver(r.client, nil))
			caller.Use(second)
			r.run(second)
		})
		r.checkScenario(false)
	})
	return killed
}
