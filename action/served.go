package action

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/roster"
)

// servedFor is how long it is taken to be known which targets live workers serve.
const servedFor = 2 * time.Second

// unserved knows which targets no live worker serves.
type unserved struct {
	mu     sync.Mutex
	served map[string]bool // by workers that were alive then
	at     time.Time       // by our clock; zero if it was never asked
	noted  map[string]bool // what the log says is not served
}

// served returns the targets of this service and of all live workers. No lock is held while the
// store is called.
func (s *Service) served(ctx context.Context) (map[string]bool, error) {
	now := s.clock.Now()
	s.unserved.mu.Lock()
	fresh, all := !s.unserved.at.IsZero() && now.Sub(s.unserved.at) < servedFor, s.unserved.served
	s.unserved.mu.Unlock()
	if fresh {
		return all, nil
	}
	workers, err := roster.Live(ctx, s.store, s.now(ctx))
	if err != nil {
		return nil, wrap("list workers", "of targets", err)
	}
	all = map[string]bool{}
	for _, name := range s.targets {
		all[name] = true
	}
	for i := range workers {
		for _, name := range workers[i].Targets {
			all[name] = true
		}
	}
	s.unserved.mu.Lock()
	defer s.unserved.mu.Unlock()
	s.unserved.served, s.unserved.at = all, now
	return all, nil
}

// Served reports whether this service or a live worker serves a target. Services are workers if
// [Config.WorkerName] is set. The answer may be two seconds old.
func (s *Service) Served(ctx context.Context, target string) (bool, error) {
	if _, ours := s.cfg.Targets[target]; ours {
		return true, nil
	}
	served, err := s.served(ctx)
	return served[target], err
}

// warning returns what to say of something that was added for a target: nothing, unless no live
// worker serves it. If that cannot be found out, it is taken to be served.
func (s *Service) warning(ctx context.Context, target string) string {
	if served, err := s.Served(ctx, target); err != nil || served {
		return ""
	}
	s.note(target)
	return fmt.Sprintf("no live worker serves target %q; it waits until one does", target)
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
	served, err := s.served(ctx)
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
