package abide_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store/memstore"
)

// quotaFlow is what the engine of these tests serves.
var quotaFlow = abide.NewOrchestration("quota-flow", func(ctx abide.Context, _ abide.None) (abide.None, error) {
	return abide.None{}, abide.Sleep(ctx, time.Hour)
})

// withQuota runs f in virtual time with an engine that has a quota. Start starts instances of
// orchestrations, by name, for a tenant, in one call.
func withQuota(t *testing.T, q abide.Quota, f func(t *testing.T, e *abide.Engine, start func(tenant string, names ...string) error)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(memstore.Options{})
		defer st.Close()
		log := slog.New(slog.DiscardHandler)
		e, err := abide.New(st, abide.Config{Register: []abide.Definition{quotaFlow}, Logger: log, Quota: q})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		n := 0
		f(t, e, func(tenant string, names ...string) error {
			var requests []abide.StartRequest
			for _, name := range names {
				n++
				o := abide.OrchestrationNamed[abide.None, abide.None](name)
				r, err := o.Prepare(e, abide.None{}, abide.Tenant(tenant), abide.ID(fmt.Sprint(n)), abide.Unchecked())
				if err != nil {
					t.Fatal(err)
				}
				requests = append(requests, r)
			}
			_, err := e.Start(t.Context(), requests...)
			return err
		})
	})
}

// TestQuotaOfOpenInstances holds at its edge, for each tenant by itself and for bulk starts as
// a whole, and ended instances make room.
func TestQuotaOfOpenInstances(t *testing.T) {
	withQuota(t, abide.Quota{Open: 3}, func(t *testing.T, e *abide.Engine, start func(string, ...string) error) {
		if err := start("acme", "quota-flow", "quota-flow"); err != nil {
			t.Fatal(err)
		}
		if err := start("acme", "quota-flow", "quota-flow"); !errors.Is(err, abide.ErrQuota) {
			t.Errorf("4 of 3: %v", err)
		}
		if err := start("acme", "quota-flow"); err != nil {
			t.Errorf("3 of 3: %v", err)
		}
		if err := start("acme", "quota-flow"); !errors.Is(err, abide.ErrQuota) {
			t.Errorf("one more: %v", err)
		}
		if err := start("other", "quota-flow"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		// One that exists is not one more.
		o := abide.OrchestrationNamed[abide.None, abide.None]("quota-flow")
		if _, err := o.Start(t.Context(), e, abide.None{}, abide.Tenant("other"), abide.ID("7")); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if _, err := o.Start(t.Context(), e, abide.None{}, abide.Tenant("other"), abide.ID("7")); err != nil {
				t.Errorf("an instance that exists: %v", err)
			}
		}
		if err := e.Terminate(t.Context(), abide.Ref{Tenant: "acme", ID: "1"}, "make room"); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		if err := start("acme", "quota-flow"); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
	})
}

// TestQuotaOfUnservedOrchestrations counts names that nobody serves, each once, and nothing of
// a start that is refused is there.
func TestQuotaOfUnservedOrchestrations(t *testing.T) {
	withQuota(t, abide.Quota{Unserved: 2}, func(t *testing.T, e *abide.Engine, start func(string, ...string) error) {
		for range 5 {
			if err := start("acme", "a", "b", "quota-flow"); err != nil {
				t.Fatal(err)
			}
		}
		if err := start("acme", "a", "c"); !errors.Is(err, abide.ErrQuota) {
			t.Errorf("3 of 2: %v", err)
		}
		if err := start("other", "c", "d"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		tenant := "acme"
		page, err := e.List(t.Context(), abide.Filter{Tenant: &tenant, Limit: 100})
		if err != nil || len(page.Instances) != 15 {
			t.Errorf("%d instances, want 15: %v", len(page.Instances), err)
		}
	})
}

// TestQuotaKnowsWorkers: an orchestration that a worker of another process serves does not
// count, also one that counted before the worker was there.
func TestQuotaKnowsWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(memstore.Options{})
		defer st.Close()
		log := slog.New(slog.DiscardHandler)
		e, err := abide.New(st, abide.Config{Logger: log, Quota: abide.Quota{Unserved: 1}})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		start := func(name string) error {
			_, err := abide.OrchestrationNamed[abide.None, abide.None](name).Start(t.Context(), e, abide.None{}, abide.Tenant("acme"), abide.Unchecked())
			return err
		}
		if err := start("quota-flow"); err != nil {
			t.Fatal(err)
		}
		if err := start("other"); !errors.Is(err, abide.ErrQuota) {
			t.Errorf("2 of 1: %v", err)
		}
		worker, err := abide.New(st, abide.Config{Register: []abide.Definition{quotaFlow}, Logger: log, WorkerName: "there"})
		if err != nil {
			t.Fatal(err)
		}
		defer worker.Close()
		<-time.After(30 * time.Second)
		if err := start("other"); err != nil {
			t.Errorf("after a worker serves the first: %v", err)
		}
		if err := start("third"); !errors.Is(err, abide.ErrQuota) {
			t.Errorf("2 of 1 again: %v", err)
		}
	})
}
