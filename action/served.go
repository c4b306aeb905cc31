package action

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/roster"
)

// servedFor is how long it is taken to be known which targets live workers serve.
const servedFor = 2 * time.Second

// namedTargets is how many of the served targets a warning names at most.
const namedTargets = 20

// unserved knows which targets no live worker serves.
type unserved struct {
	mu     sync.Mutex
	served map[string]bool // by workers that were alive then
	shared []string        // the targets of other workers that all tenants can use
	at     time.Time       // by our clock; zero if it was never asked
	noted  map[string]bool // what the log says is not served
}

// served returns the targets of this service and of all live workers, and those of other workers
// that all tenants can use. No lock is held while the store is called.
func (s *Service) served(ctx context.Context) (all map[string]bool, shared []string, err error) {
	now := s.clock.Now()
	s.unserved.mu.Lock()
	fresh := !s.unserved.at.IsZero() && now.Sub(s.unserved.at) < servedFor
	all, shared = s.unserved.served, s.unserved.shared
	s.unserved.mu.Unlock()
	if fresh {
		return all, shared, nil
	}
	workers, err := roster.Live(ctx, s.store, s.now(ctx))
	if err != nil {
		return nil, nil, wrap("list workers", "of targets", err)
	}
	all, shared = map[string]bool{}, nil
	for _, name := range s.targets {
		all[name] = true
	}
	for i := range workers {
		for _, name := range workers[i].Targets {
			all[name] = true
		}
		shared = append(shared, workers[i].Shared...)
	}
	s.unserved.mu.Lock()
	defer s.unserved.mu.Unlock()
	s.unserved.served, s.unserved.shared, s.unserved.at = all, shared, now
	return all, shared, nil
}

// Served reports whether this service or a live worker serves a target. Services are workers
// unless [Config.Unlisted] is set. The answer may be two seconds old.
func (s *Service) Served(ctx context.Context, target string) (bool, error) {
	if _, ours := s.cfg.Targets[target]; ours {
		return true, nil
	}
	served, _, err := s.served(ctx)
	return served[target], err
}

// warn is [Service.warning] for a target that something was added for, and logs it.
func (s *Service) warn(ctx context.Context, tenant, target string) string {
	text := s.warning(ctx, tenant, target)
	if text != "" {
		s.note(target)
	}
	return text
}

// warning returns the warning of an action or schedule of a tenant: empty, unless no live worker
// serves its target. If the store does not tell, the target is taken to be served.
func (s *Service) warning(ctx context.Context, tenant, target string) string {
	if _, ours := s.cfg.Targets[target]; ours {
		return ""
	}
	served, shared, err := s.served(ctx)
	if err != nil || served[target] {
		return ""
	}
	names := append(s.Targets(tenant), shared...)
	slices.Sort(names)
	return fmt.Sprintf("no live worker serves target %q; it waits until one does; %s", target, servedText(slices.Compact(names)))
}

// servedText says which targets are served.
func servedText(names []string) string {
	if len(names) == 0 {
		return "no other target is served"
	}
	more := ""
	if n := len(names) - namedTargets; n > 0 {
		names, more = names[:namedTargets], fmt.Sprintf(" and %d more", n)
	}
	return "served targets: " + strings.Join(names, ", ") + more
}

// note logs once that no worker serves a target.
func (s *Service) note(target string, more ...any) {
	s.unserved.mu.Lock()
	defer s.unserved.mu.Unlock()
	if !s.unserved.noted[target] {
		s.unserved.noted[target] = true
		s.log.Warn("no live worker serves target", append([]any{"target", target}, more...)...)
	}
}

// findUnserved logs the targets that actions or schedules wait for and that no live worker
// serves, and those that are served again.
func (s *Service) findUnserved(ctx context.Context) error {
	stats, err := s.store.Stats(ctx)
	if err != nil {
		return err
	}
	actions := map[string]int{}
	for _, r := range stats.Routes {
		if r.Queue == queue {
			actions[r.Route] += r.Pending
		}
	}
	schedules, err := roster.Scheduled(ctx, s.store)
	if err != nil {
		return err
	}
	served, _, err := s.served(ctx)
	if err != nil {
		return err
	}
	waiting := map[string]bool{}
	for _, found := range []map[string]int{actions, schedules} {
		for target := range found {
			waiting[target] = !served[target]
		}
	}
	for _, target := range slices.Sorted(maps.Keys(waiting)) {
		if waiting[target] {
			s.note(target, "actions", actions[target], "schedules", schedules[target])
		}
	}
	s.unserved.mu.Lock()
	defer s.unserved.mu.Unlock()
	for target := range s.unserved.noted {
		if !waiting[target] {
			delete(s.unserved.noted, target)
			s.log.Info("target is served again, or nothing waits for it", "target", target)
		}
	}
	return nil
}
