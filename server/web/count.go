package web

import (
	"context"
	"sync"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
)

// Kinds of records that are counted. The engine and the services choose them, and they are
// on disk, so that they never change.
const (
	kindInstance = "instance"
	kindTimer    = "timer"
	kindAction   = "action"
	kindSchedule = "schedule"

	kindLimit     = "limit"
	kindLimitWait = "waiting" // what waits for a limit, by whose name it is listed
)

// limitPaused is the status of the record of a limit under which nothing begins.
const limitPaused = "paused"

// count returns how many records of a kind have one of the statuses, countCap at most, for
// the tenants that the caller has.
func (r *request) count(kind string, statuses ...string) (int, error) {
	q := store.Query{Kind: kind, Statuses: statuses}
	if r.everything() {
		return r.site.cfg.Store.Count(r.ctx(), q, countCap)
	}
	total := 0
	for _, name := range r.who.Tenants {
		for _, tenant := range tenantsOf(kind, name) {
			q.Tenant = &tenant
			n, err := r.site.cfg.Store.Count(r.ctx(), q, countCap)
			if err != nil {
				return 0, err
			}
			total += n
		}
	}
	return min(total, countCap), nil
}

// tenantsOf returns what a tenant is called in records of a kind: the default one is empty
// for instances and their limits, and has its name everywhere else. In quarantine there are both.
func tenantsOf(kind, name string) []string {
	switch {
	case name != abide.DefaultTenant:
		return []string{name}
	case kind == kindInstance, kind == kindLimit, kind == kindLimitWait:
		return []string{""}
	case kind == store.KindQuarantine:
		return []string{"", abide.DefaultTenant}
	default:
		return []string{abide.DefaultTenant}
	}
}

// unservedFor is how long the menu shows the number of routes that no live worker serves before it
// is counted again: it is on every page, and the count reads all routes and workers.
const unservedFor = 5 * time.Second

// unservedCount is that number, and when it was counted.
type unservedCount struct {
	mu sync.Mutex
	n  int
	at time.Time
}

// unserved returns how many routes no live worker serves.
func (s *site) unserved(ctx context.Context) (int, error) {
	list, err := s.engine.Unserved(ctx)
	if err == nil {
		s.unservedSeen.mu.Lock()
		defer s.unservedSeen.mu.Unlock()
		s.unservedSeen.n, s.unservedSeen.at = len(list), s.clock.Now()
	}
	return len(list), err
}

// unservedLately is unserved, as it was at most unservedFor ago.
func (s *site) unservedLately(ctx context.Context) (int, error) {
	s.unservedSeen.mu.Lock()
	n, at := s.unservedSeen.n, s.unservedSeen.at
	s.unservedSeen.mu.Unlock()
	if !at.IsZero() && s.clock.Now().Sub(at) < unservedFor {
		return n, nil
	}
	return s.unserved(ctx)
}
