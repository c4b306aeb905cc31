package timer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/abidehq/abide/store"
)

// tally is a number for each tenant.
type tally map[string]int

// recount is how long a count is believed that others may have made wrong.
const recount = time.Minute

// quotas knows how many armed timers tenants have that have a quota.
type quotas struct {
	s *Service

	mu      sync.Mutex
	tenants map[string]*tenantCount
}

// tenantCount is how many armed timers a tenant has. Its lock is held while they are
// counted, so that those who want to know wait for the one who counts.
type tenantCount struct {
	mu      sync.Mutex
	armed   int
	most    bool      // there may be more: counting stopped
	counted time.Time // zero if it must be counted
}

func newQuotas(s *Service) *quotas {
	return &quotas{s: s, tenants: map[string]*tenantCount{}}
}

// of returns the quota of a tenant; 0 means that there is none.
func (q *quotas) of(tenant string) int {
	if q.s.cfg.QuotaOf != nil {
		return q.s.cfg.QuotaOf(tenant)
	}
	return q.s.cfg.Quota
}

// reserve counts timers that are about to be armed, or returns [ErrQuota] and counts
// none. Release takes that back.
func (q *quotas) reserve(ctx context.Context, verb string, more tally) (release func(), err error) {
	taken := tally{}
	release = func() {
		for tenant, n := range taken {
			q.give(tenant, n)
		}
	}
	for tenant, n := range more {
		quota := q.of(tenant)
		if quota <= 0 || n <= 0 {
			continue
		}
		if err := q.take(ctx, verb, tenant, n, quota); err != nil {
			release()
			return nil, err
		}
		taken[tenant] = n
	}
	return release, nil
}

func (q *quotas) take(ctx context.Context, verb, tenant string, n, quota int) error {
	c := q.count(tenant)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := q.s.clock.Now()
	if c.counted.IsZero() || now.Sub(c.counted) >= recount || (c.armed+n > quota && now.Sub(c.counted) >= time.Second) {
		limit := min(quota, store.MaxCount-1) + 1
		armed, err := q.s.store.Count(ctx, store.Query{Kind: kind, Tenant: &tenant, Statuses: []string{string(Armed)}}, limit)
		if err != nil {
			return wrap(verb, tenant, "", err)
		}
		c.armed, c.most, c.counted = armed, armed == limit, now
	}
	if c.armed+n > quota {
		return fmt.Errorf("timer: %s: tenant %s has %d armed timers and may have %d, so %d more cannot be armed: %w", verb, tenant, c.armed, quota, n, ErrQuota)
	}
	c.armed += n
	return nil
}

// give counts timers that are armed no longer.
func (q *quotas) give(tenant string, n int) {
	q.mu.Lock()
	c := q.tenants[tenant]
	q.mu.Unlock()
	if c == nil {
		return // nobody counts
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = max(c.armed-n, 0)
	if c.most {
		c.counted = time.Time{}
	}
}

func (q *quotas) count(tenant string) *tenantCount {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.tenants[tenant]
	if c == nil {
		c = &tenantCount{}
		q.tenants[tenant] = c
	}
	return c
}
