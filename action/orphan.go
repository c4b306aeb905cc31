package action

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/pages"
	"github.com/abidehq/abide/store"
)

// orphanBatch is how many messages are claimed at a time to find orphans, and maxOrphans how
// many of them in one sweep.
const (
	orphanBatch = 100
	maxOrphans  = 1_000
)

// endOrphans ends actions that were running when their process died and whose target no live
// worker serves, so that no process claims them: such as after the target was taken out of the
// configuration. They are failed, or pending again if they are idempotent. It returns how many
// there were.
//
// Who runs an action holds the lease of its message. So an action whose message can be claimed
// has lost its process: at once on the embedded store, and when the lease has ended on others.
// What is claimed and is no orphan is given back.
func (s *Service) endOrphans(ctx context.Context) (ended int, err error) {
	targets, running, err := s.orphaned(ctx)
	if err != nil || running == 0 {
		return 0, err
	}
	var others []store.Lease
	defer func() { _ = claimloop.Release(s.store, s.cfg.LeaseDuration, others...) }()
	for ended < running && len(others) < maxOrphans {
		claims, err := s.store.Claim(ctx, store.ClaimRequest{
			Queue: queue, Routes: targets, Max: orphanBatch, MaxMessages: 1, Lease: s.cfg.LeaseDuration, Owner: base.ProcessName(),
		})
		if err != nil || len(claims) == 0 {
			return ended, err
		}
		for i := range claims {
			orphan, err := s.endOrphan(ctx, &claims[i])
			if err != nil {
				others = append(others, claims[i].Lease())
				return ended, err
			}
			if orphan {
				ended++
			} else {
				others = append(others, claims[i].Lease())
			}
		}
	}
	return ended, nil
}

// orphaned returns the targets of running actions that no live worker serves, and how many
// such actions there are.
func (s *Service) orphaned(ctx context.Context) (targets []string, running int, err error) {
	found := map[string]int{}
	q := store.Query{Kind: kind, Statuses: []string{string(Running)}, Limit: store.MaxPage}
	for rec, err := range pages.Records(ctx, s.store, q) {
		if err != nil {
			return nil, 0, err
		}
		a, err := parseRecord(rec)
		if err != nil {
			s.log.Error("action record unreadable", "tenant", rec.Key.Tenant, "action", rec.Key.ID, "error", err)
			continue
		}
		if _, ours := s.cfg.Targets[a.Target]; !ours {
			found[a.Target]++
		}
	}
	if len(found) == 0 {
		return nil, 0, nil
	}
	served, _, err := s.served(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, target := range slices.Sorted(maps.Keys(found)) {
		if !served[target] {
			targets = append(targets, target)
			running += found[target]
		}
	}
	return targets, running, nil
}

// endOrphan ends the action of a claim if it says that it is running, and reports whether it
// did.
func (s *Service) endOrphan(ctx context.Context, c *store.Claim) (bool, error) {
	a, body, err := parseMessage(&c.Messages[0])
	if err != nil {
		return false, nil //nolint:nilerr // who serves the target puts it into quarantine
	}
	t := &task{claim: c, body: body, message: a.Version}
	t.a, err = s.get(ctx, "sweep", a.Tenant, a.ID)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && (t.a.Status != Running || t.a.message != t.message):
		return false, nil
	case err != nil:
		return false, err
	}
	s.settle(t, Outcome{}, recoveredError{})
	return true, nil
}
