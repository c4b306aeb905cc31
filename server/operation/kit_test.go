package operation_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/teststore"
	"github.com/abidehq/abide/server/operation"
	"github.com/abidehq/abide/store"
)

// Orchestrations: one that takes very long, and one that takes no time.
var (
	long = abide.NewOrchestration("long", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		return abide.None{}, abide.Sleep(ctx, 10_000*time.Hour)
	})
	quick = abide.NewOrchestration("quick", func(abide.Context, abide.None) (abide.None, error) { return abide.None{}, nil })
)

func TestMain(m *testing.M) { teststore.Main(m) }

// fixture is an engine, and operations on its instances.
type fixture struct {
	*rig.Rig
	*operation.Service
	engine *abide.Engine
	client *watched
	seeded map[abide.Ref]int64 // versions of instances before they are restarted
}

func bubble(t *testing.T, f func(t *testing.T, r *fixture)) {
	t.Helper()
	rig.Bubble(t, func(t *testing.T) { f(t, newFixture(t)) })
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	r := &fixture{Rig: rig.New(t)}
	var err error
	r.engine, err = abide.New(r.Store, abide.Config{Register: []abide.Definition{long, quick}, Logger: rig.Quiet, Retention: -1})
	check.OK(t, err)
	t.Cleanup(func() { _ = r.engine.Close() })
	r.client = &watched{Transport: r.engine.Transport(), calls: map[string]int{}}
	r.Service = r.service(r.Store, abide.ClientOver(r.client, nil))
	return r
}

func (r *fixture) service(s store.Store, c *abide.Client) *operation.Service {
	r.T.Helper()
	service, err := operation.New(operation.Config{Store: s, Client: c, Logger: rig.Quiet})
	check.OK(r.T, err)
	return service
}

// run has a service go on with operations until the test ends, or stop is called.
func (r *fixture) run(s *operation.Service) (stop func()) { return rig.Run(r.T, s).Stop }

// start starts n instances of an orchestration, and lets them come to where they wait or end.
func (r *fixture) start(o *abide.Orchestration[abide.None, abide.None], tenant, prefix string, n int, opts ...abide.StartOption) {
	r.T.Helper()
	for from := 0; from < n; from += 1000 {
		var requests []abide.StartRequest
		for i := from; i < min(from+1000, n); i++ {
			id := fmt.Sprintf("%s%04d", prefix, i)
			one, err := o.Prepare(r.engine, abide.None{}, append([]abide.StartOption{abide.ID(id), abide.Tenant(tenant)}, opts...)...)
			check.OK(r.T, err)
			requests = append(requests, one)
		}
		_, err := r.engine.Start(r.T.Context(), requests...)
		check.OK(r.T, err)
	}
	rig.Pass(time.Second)
}

// begin starts an operation.
func (r *fixture) begin(req operation.Request) operation.Operation {
	r.T.Helper()
	o, err := r.Start(r.T.Context(), req)
	check.OK(r.T, err)
	return o
}

func (r *fixture) get(id string) operation.Operation {
	r.T.Helper()
	o, err := r.Get(r.T.Context(), r.under(id), id)
	check.OK(r.T, err)
	return o
}

// under returns the tenant of the record of an operation, whose ID no other one has.
func (r *fixture) under(id string) string {
	r.T.Helper()
	page, err := r.Store.List(r.T.Context(), store.Query{Kind: "operation"})
	check.OK(r.T, err)
	for i := range page.Records {
		if key := page.Records[i].Key; key.ID == id {
			return key.Tenant
		}
	}
	r.T.Fatalf("there is no operation %s", id)
	return ""
}

// counts says how far an operation is.
func counts(o operation.Operation) string {
	return fmt.Sprintf("%s: %d = %d + %d + %d", o.Status, o.Matched, o.Done, o.Skipped, o.Failed)
}

func (r *fixture) wantCounts(id, want string) {
	r.T.Helper()
	if o := r.get(id); counts(o) != want {
		r.T.Errorf("operation %s is %s, want %s (%s, %v)", id, counts(o), want, o.Error, o.Errors)
	}
}

// statuses says how many instances of a tenant have which status.
func (r *fixture) statuses(tenant string) string {
	r.T.Helper()
	n := map[abide.Status]int{}
	f := abide.Filter{Tenant: &tenant, Limit: 10_000}
	page, err := r.engine.List(r.T.Context(), f)
	check.OK(r.T, err)
	for i := range page.Instances {
		n[page.Instances[i].Status]++
	}
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, fmt.Sprintf("%d %s", n[status], status))
	}
	return strings.Join(parts, ", ")
}

func (r *fixture) wantStatuses(tenant, want string) {
	r.T.Helper()
	if got := r.statuses(tenant); got != want {
		r.T.Errorf("the instances of %q are %s, want %s", tenant, got, want)
	}
}

// of is a filter for a tenant.
func of(tenant string) abide.Filter { return abide.Filter{Tenant: &tenant} }

// watched is a client that counts what is done to each instance, and can meddle with it.
type watched struct {
	abide.Transport
	before func(verb string, ref abide.Ref) error // nil means nothing

	mu    sync.Mutex
	calls map[string]int
	now   int
	most  int // at a time
}

func (w *watched) call(verb string, ref abide.Ref, f func() error) error {
	w.mu.Lock()
	w.calls[verb+" "+ref.Tenant+"/"+ref.ID]++
	w.now++
	w.most = max(w.most, w.now)
	before := w.before
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.now--
		w.mu.Unlock()
	}()
	if before != nil {
		if err := before(verb, ref); err != nil {
			return err
		}
	}
	return f()
}

// total returns how many calls there were, and how many instances they were about.
func (w *watched) total() (calls, instances int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.calls {
		calls += n
	}
	return calls, len(w.calls)
}

func (w *watched) Control(ctx context.Context, ref abide.Ref, cmd abide.Command) error {
	return w.call(string(cmd.Verb), ref, func() error { return w.Transport.Control(ctx, ref, cmd) })
}
