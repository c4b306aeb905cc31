package engine

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/store"
)

// Quota limits what callers can start for each tenant. Children that orchestrations start do
// not count.
type Quota struct {
	// Open is how many instances may be open at a time; 0 means any number.
	Open int

	// Unserved is how many different orchestrations may be started that no worker serves; 0
	// means any number. Each of them is a route of the store for as long as an instance of it
	// waits.
	Unserved int
}

const (
	// recountOpen is how long a count of open instances is believed that other processes may
	// have made wrong, and recountFull how long it is if the quota seems to be used up.
	recountOpen = time.Minute
	recountFull = time.Second

	// relookWorkers is how long it is believed which orchestrations are served.
	relookWorkers = 10 * time.Second

	// sweepTenants is how many tenants are remembered before those are forgotten whose count
	// is made again anyway.
	sweepTenants = 1024
)

// quotas counts what each tenant has started. Counts are those of this process between two counts of the
// store, so that a start costs no read. They are exact for one process and approximate for several: each of
// them may admit what the others have admitted within the last recountOpen. A quota protects a store from a
// tenant that runs away, which is orders of magnitude more than that; exact limits would make every start
// of a tenant conflict with every other.
//
// Lock order: tenantQuota.mu, then quotas.mu. tenantQuota.mu is held while the store is asked to count, so
// that starts of one tenant wait for one count instead of making one each; other tenants do not wait.
type quotas struct {
	client *Client
	limit  Quota

	mu       sync.Mutex
	tenants  map[string]*tenantQuota
	sweepAt  int             // how many tenants there are before some are forgotten
	served   map[string]bool // names of orchestrations that workers serve
	lookedAt time.Time       // zero if never
	own      map[string]bool // those of this process
}

// tenantQuota is what a tenant has started.
type tenantQuota struct {
	mu      sync.Mutex
	open    int
	counted time.Time       // zero if it must be counted
	names   map[string]bool // that nobody serves

	users int // calls that use it, guarded by quotas.mu
}

func newQuotas(c *Client, limit Quota, routes []string) *quotas {
	q := &quotas{client: c, limit: limit, tenants: map[string]*tenantQuota{}, sweepAt: sweepTenants, own: map[string]bool{}}
	for _, route := range routes {
		q.own[nameOfRoute(route)] = true
	}
	return q
}

// nameOfRoute returns the orchestration of a route, without its version.
func nameOfRoute(route string) string {
	name, _, _ := strings.Cut(route, "@")
	return name
}

// reserve counts starts, or returns [ErrQuota] and counts none. Settle is told what became of
// them, and takes back those that came to nothing.
func (q *quotas) reserve(ctx context.Context, starts []Start) (settle func(done []Started, err error), err error) {
	if q == nil || q.limit == (Quota{}) {
		return func([]Started, error) {}, nil
	}
	more := map[string][]string{} // names by tenant
	for i := range starts {
		more[starts[i].Tenant] = append(more[starts[i].Tenant], starts[i].Name)
	}
	taken := map[string]int{}
	for tenant, names := range more {
		if err := q.take(ctx, tenant, names); err != nil {
			for tenant, n := range taken {
				q.give(tenant, n)
			}
			return nil, err
		}
		taken[tenant] = len(names)
	}
	return func(done []Started, err error) {
		for i := range starts {
			if err != nil || done[i].Existed {
				q.give(starts[i].Tenant, 1)
			}
		}
	}, nil
}

// tenant returns what a tenant has started, locked, until release is called.
func (q *quotas) tenant(name string) (t *tenantQuota, release func()) {
	q.mu.Lock()
	if t = q.tenants[name]; t == nil {
		q.sweep()
		t = &tenantQuota{names: map[string]bool{}}
		q.tenants[name] = t
	}
	t.users++
	q.mu.Unlock()
	t.mu.Lock()
	return t, func() {
		t.mu.Unlock()
		q.mu.Lock()
		defer q.mu.Unlock()
		t.users--
	}
}

// sweep forgets tenants that nobody uses and of which nothing is known that is still believed.
// The lock is held.
func (q *quotas) sweep() {
	if len(q.tenants) < q.sweepAt {
		return
	}
	now := q.client.clock.Now()
	maps.DeleteFunc(q.tenants, func(_ string, t *tenantQuota) bool {
		return t.users == 0 && len(t.names) == 0 && now.Sub(t.counted) >= recountOpen
	})
	q.sweepAt = max(sweepTenants, 2*len(q.tenants))
}

// take counts starts of one tenant, or returns ErrQuota and counts none. If the count says that the quota is
// used up, the store is asked once more before a start is refused, at most once in recountFull: instances may
// have ended in other processes.
func (q *quotas) take(ctx context.Context, tenant string, names []string) error {
	t, release := q.tenant(tenant)
	defer release()
	if err := q.takeNames(ctx, t, tenant, names); err != nil {
		return err
	}
	if q.limit.Open == 0 {
		return nil
	}
	now := q.client.clock.Now()
	age := now.Sub(t.counted)
	if t.counted.IsZero() || age >= recountOpen || t.open+len(names) > q.limit.Open && age >= recountFull {
		query := store.Query{Kind: kindInstance, Tenant: &tenant}
		for _, s := range Statuses {
			if !s.Ended() {
				query.Statuses = append(query.Statuses, string(s))
			}
		}
		open, err := q.client.store.Count(ctx, query, min(q.limit.Open, store.MaxCount-1)+1)
		if err != nil {
			return wrap("start", err)
		}
		t.open, t.counted = open, now
	}
	if t.open+len(names) > q.limit.Open {
		return fmt.Errorf("abide: start: tenant %q has %d open instances and starts %d more; %d are allowed: %w",
			tenant, t.open, len(names), q.limit.Open, ErrQuota)
	}
	t.open += len(names)
	return nil
}

// takeNames counts the orchestrations among names that nobody serves. The lock of t is held.
func (q *quotas) takeNames(ctx context.Context, t *tenantQuota, tenant string, names []string) error {
	if q.limit.Unserved == 0 {
		return nil
	}
	fresh := map[string]bool{}
	for _, name := range names {
		if !q.own[name] && !t.names[name] {
			fresh[name] = true
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	served, err := q.look(ctx)
	if err != nil {
		return err
	}
	isServed := func(name string, _ bool) bool { return served[name] }
	maps.DeleteFunc(fresh, isServed)
	if len(t.names)+len(fresh) > q.limit.Unserved {
		maps.DeleteFunc(t.names, isServed)
	}
	if len(t.names)+len(fresh) > q.limit.Unserved {
		return fmt.Errorf("abide: start: tenant %q has started %d orchestrations that no worker serves, and starts %d more; %d are allowed: %w",
			tenant, len(t.names), len(fresh), q.limit.Unserved, ErrQuota)
	}
	maps.Copy(t.names, fresh)
	return nil
}

// look returns the names that workers serve.
func (q *quotas) look(ctx context.Context) (map[string]bool, error) {
	now := q.client.clock.Now()
	q.mu.Lock()
	fresh, served := !q.lookedAt.IsZero() && now.Sub(q.lookedAt).Abs() < relookWorkers, q.served
	q.mu.Unlock()
	if fresh {
		return served, nil
	}
	workers, err := roster.Live(ctx, q.client.store, now)
	if err != nil {
		return nil, err
	}
	served = map[string]bool{}
	for i := range workers {
		for _, route := range workers[i].Routes {
			served[nameOfRoute(route)] = true
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.served, q.lookedAt = served, now
	return served, nil
}

// give takes back open instances that were not started.
func (q *quotas) give(tenant string, n int) {
	if q.limit.Open == 0 || n == 0 {
		return
	}
	t, release := q.tenant(tenant)
	defer release()
	t.open = max(0, t.open-n)
}
