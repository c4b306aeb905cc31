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

	// own has the names of the orchestrations that this process serves. It does not change.
	own map[string]bool

	mu      sync.Mutex
	tenants map[string]*tenantQuota

	// sweepAt is the number of tenants at which the next sweep is made: twice as many as the last
	// sweep has left, so that sweeps cost O(1) for each tenant that is added.
	sweepAt int

	// served has the names of the orchestrations that live workers serve, as of lookedAt.
	served   map[string]bool
	lookedAt time.Time // zero if never
}

// tenantQuota counts the starts of a tenant.
type tenantQuota struct {
	mu sync.Mutex

	// open is the number of open instances: that of the last count of the store, at counted, and
	// what this process has started since. Instances that ended since are not subtracted.
	open    int
	counted time.Time // zero if they were never counted

	// names has the orchestrations that were started and that no worker served then.
	names map[string]bool

	// users is the number of calls that use it, guarded by quotas.mu. It is not swept while there
	// are any.
	users int
}

// newQuotas returns the quotas of a process that serves routes. Without limits, reserve admits all.
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

// reserve counts starts, or returns [ErrQuota] and counts none. The caller calls settle with the
// result of the starts, which restores those that failed or existed.
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
		if err := q.reserveTenant(ctx, tenant, names); err != nil {
			for tenant, n := range taken {
				q.restore(tenant, n)
			}
			return nil, err
		}
		taken[tenant] = len(names)
	}
	return func(done []Started, err error) {
		for i := range starts {
			if err != nil || done[i].Existed {
				q.restore(starts[i].Tenant, 1)
			}
		}
	}, nil
}

// tenant returns the counts of a tenant, locked until release is called.
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

// sweep forgets tenants without users whose count is older than recountOpen and that have started no
// unserved orchestration. The lock is held.
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

// reserveTenant counts starts of one tenant, or returns ErrQuota and counts none. If the count says that the quota is
// used up, the store is asked once more before a start is refused, at most once in recountFull: instances may
// have ended in other processes.
func (q *quotas) reserveTenant(ctx context.Context, tenant string, names []string) error {
	t, release := q.tenant(tenant)
	defer release()
	if err := q.reserveNames(ctx, t, tenant, names); err != nil {
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

// reserveNames counts the orchestrations among names that no worker serves. When the quota is reached,
// names that have been served since are forgotten first. The lock of t is held.
func (q *quotas) reserveNames(ctx context.Context, t *tenantQuota, tenant string, names []string) error {
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
	served, err := q.servedNames(ctx)
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

// servedNames returns the names that live workers serve, at most relookWorkers old. The map is not
// changed once it is published.
func (q *quotas) servedNames(ctx context.Context) (map[string]bool, error) {
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

// restore subtracts instances that were reserved and not started.
func (q *quotas) restore(tenant string, n int) {
	if q.limit.Open == 0 || n == 0 {
		return
	}
	t, release := q.tenant(tenant)
	defer release()
	t.open = max(0, t.open-n)
}
