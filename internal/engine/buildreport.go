package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/builds"
	"github.com/abidehq/abide/store"
)

// What a report of a build looks at, at most.
const (
	// reportInstances is how many instances of a build are counted.
	reportInstances = 10_000

	// reportTimers is of how many instances of an orchestration the pending timers are read.
	reportTimers = 100

	reportPage = 1_000
)

// openStatuses are those of instances that have not ended.
var openStatuses = []Status{Pending, Running, Suspended, Stalled}

// BuildReport is a build, and what needs it.
type BuildReport struct {
	builds.Build

	// Workers is the number of live workers of the build.
	Workers int

	// Needs are the orchestrations with open instances that are pinned to it. More is true if there are
	// more than were counted.
	Needs []BuildNeed
	More  bool
}

// BuildNeed is an orchestration whose open instances need a build.
type BuildNeed struct {
	Route string
	Open  int

	// Until is the latest time for which one of them has set a timer, of the first reportTimers of them;
	// zero if none has. They may end before it, and need the build after it.
	Until time.Time
}

// Builds returns the builds that pin instances, or for which something is set, or one of them.
func (c *Client) Builds(ctx context.Context, only string) ([]BuildReport, error) {
	settings, err := builds.Read(ctx, c.store)
	if err != nil {
		return nil, wrap("builds", err)
	}
	workers, err := c.Workers(ctx)
	if err != nil {
		return nil, err
	}
	if only != "" {
		b := settings.Find(only)
		if b == nil {
			return nil, fmt.Errorf("abide: builds: no instance is or was pinned to the build %q, and nothing is set for it: %w", only, ErrNotFound)
		}
		settings.Builds = []builds.Build{*b}
	}
	reports := make([]BuildReport, len(settings.Builds))
	for i := range settings.Builds {
		r := &reports[i]
		r.Build = settings.Builds[i]
		for j := range workers {
			if workers[j].Build == r.ID {
				r.Workers++
			}
		}
		if err := c.reportNeeds(ctx, r); err != nil {
			return nil, wrap("builds", err)
		}
	}
	return reports, nil
}

// reportNeeds counts the open instances that are pinned to a build.
func (c *Client) reportNeeds(ctx context.Context, r *BuildReport) error {
	byRoute := map[string]*BuildNeed{}
	n := 0
	q := Query{Statuses: openStatuses, Build: r.ID, Limit: reportPage}
	for {
		infos, next, err := c.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range infos {
			route := infos[i].Route()
			need := byRoute[route]
			if need == nil {
				need = &BuildNeed{Route: route}
				byRoute[route] = need
			}
			if need.Open++; need.Open <= reportTimers {
				if err := c.reportTimer(ctx, &infos[i], need); err != nil {
					return err
				}
			}
		}
		if n += len(infos); next == "" || n >= reportInstances {
			r.More = next != ""
			break
		}
		q.Cursor = next
	}
	for _, route := range sortedKeys(byRoute) {
		r.Needs = append(r.Needs, *byRoute[route])
	}
	return nil
}

// reportTimer looks for the latest time at which a timer of an instance is due.
func (c *Client) reportTimer(ctx context.Context, info *Info, need *BuildNeed) error {
	pending, err := c.store.Pending(ctx, info.Ref.key(), store.DefaultMessages)
	if err != nil {
		return err
	}
	for i := range pending {
		if at := pending[i].VisibleAt; strings.HasPrefix(pending[i].ID, prefixTimer+"/") && at.After(need.Until) {
			need.Until = at
		}
	}
	return nil
}

// BuildChange is what is set for a build. What is nil stays as it is.
type BuildChange struct {
	Percent *int // builds.Unset for no share
	Drained *bool
}

// SetBuild sets what share of new instances a build gets, and whether it is drained.
func (c *Client) SetBuild(ctx context.Context, id string, change BuildChange) error {
	if err := CheckBuild(id); err != nil {
		return err
	}
	if p := change.Percent; p != nil && (*p < builds.Unset || *p > 100) {
		return fmt.Errorf("abide: builds: the share is %d %%, 0 to 100 are allowed: %w", *p, ErrInvalid)
	}
	_, err := builds.Change(ctx, c.store, func(s *builds.Settings) (bool, error) {
		b := s.Add(id, c.clock.Now())
		if change.Percent != nil {
			b.Percent = *change.Percent
		}
		if change.Drained != nil {
			b.Drained = *change.Drained
		}
		if err := s.CheckShares(); err != nil {
			return false, fmt.Errorf("%w: %w", err, ErrInvalid)
		}
		return true, nil
	})
	return wrap("builds", err)
}

// BuildMove moves instances that are pinned from one build to another.
type BuildMove struct {
	From string

	// To is the build that they are pinned to from then on; empty if any may run them.
	To string

	// Routes are the orchestrations whose instances are moved; none means all.
	Routes []string

	// Live allows it although workers of From are alive.
	Live bool
}

// maxMoved is how many instances a call of MoveBuild moves, and moveTries how often one is tried.
const (
	maxMoved  = 1_000
	moveTries = 5
)

// MoveBuild moves open instances from one build to another, at most maxMoved of them, and returns how many it has
// moved, and whether there are more. The new build replays their histories: an instance whose history its code does
// not fit stalls.
func (c *Client) MoveBuild(ctx context.Context, m BuildMove) (moved int, more bool, err error) {
	if err := c.checkMove(ctx, &m); err != nil {
		return 0, false, err
	}
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return 0, false, wrap("move", err)
	}
	q := Query{Statuses: openStatuses, Build: m.From, Limit: reportPage}
	for {
		infos, next, err := c.List(ctx, q)
		if err != nil {
			return moved, true, err
		}
		for i := range infos {
			if len(m.Routes) > 0 && !slices.Contains(m.Routes, infos[i].Route()) {
				continue
			}
			if moved == maxMoved {
				return moved, true, nil
			}
			done, err := c.moveOne(ctx, infos[i].Ref, &m, stats.Now)
			if err != nil {
				return moved, true, wrap("move", err)
			}
			if done {
				moved++
			}
		}
		if next == "" {
			return moved, false, nil
		}
		q.Cursor = next
	}
}

// checkMove reports whether a move can be: workers of the one build are gone, and those of the other are there.
func (c *Client) checkMove(ctx context.Context, m *BuildMove) error {
	if err := CheckBuild(m.From); err != nil {
		return err
	}
	if m.To == m.From {
		return fmt.Errorf("abide: move: from the build %q to itself: %w", m.From, ErrInvalid)
	}
	workers, err := c.Workers(ctx)
	if err != nil {
		return err
	}
	pins := false
	for i := range workers {
		w := &workers[i]
		if w.Build == m.From && !m.Live {
			return fmt.Errorf("abide: move: the worker %s of build %q is alive, and runs its instances; to move them all the same has to be asked for: %w", w.Name, m.From, ErrState)
		}
		pins = pins || w.Build == m.To && len(w.Pinned) > 0
	}
	if m.To != "" && !pins {
		return fmt.Errorf("abide: move: no live worker of build %q pins instances: %w", m.To, ErrState)
	}
	return nil
}

// moveOne moves an instance, unless it has ended or is pinned to another build by now.
func (c *Client) moveOne(ctx context.Context, ref Ref, m *BuildMove, now time.Time) (bool, error) {
	for try := 1; ; try++ {
		info, err := c.Get(ctx, ref)
		if errors.Is(err, ErrNotFound) || err == nil && (info.Status.Ended() || info.Build != m.From) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		err = c.commitMove(ctx, &info, m, now)
		if err == nil || !expected(err) || try == moveTries {
			return err == nil, err
		}
	}
}

// commitMove changes the build in the record, and the route of the key. It appends to the history, as all do that change
// the record, so that a turn which is under way, and an instance in the cache of a worker, meet a conflict.
func (c *Client) commitMove(ctx context.Context, info *Info, m *BuildMove, now time.Time) error {
	page, err := c.store.ReadLog(ctx, info.Ref.key(), math.MaxInt32)
	if err != nil {
		return err
	}
	why := fmt.Sprintf("moved from build %q to build %q", m.From, m.To)
	if m.To == "" {
		why = fmt.Sprintf("moved from build %q to any", m.From)
	}
	info.Build = m.To
	by := actorFrom(ctx)
	var tx store.Tx
	if !info.partial {
		entries := quietTurn(now, int32(page.Length-info.offset), 0,
			history.Event{Kind: history.ExecutionSuspended, Name: why, By: by}, history.Event{Kind: history.ExecutionResumed, Build: m.To, By: by})
		tx.Append = []store.Append{{Key: info.Ref.key(), At: page.Length, Tag: info.run, Entries: entries}}
	}
	if !info.Status.parked() {
		tx.Put = []store.Message{wakeMessage(info)}
	}
	tx.PutRecords = []store.PutRecord{info.putRecord(info.Revision)}
	return c.store.Commit(ctx, &tx)
}
