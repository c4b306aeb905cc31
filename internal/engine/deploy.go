package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// While a new build is deployed, processes of both builds serve the same routes, and an instance may meet
// code that cannot replay it: old code that meets a history of new code, or new code with a mistake that old
// code does not have. A stall for a person to look at would be right for the second and a nuisance for the
// first, of which a rolling deployment has many. An engine cannot tell the two apart; but it can try another
// build. Three rules make such an instance go on without an operator:
//
//   - A stall that another build may not have (nondeterminism, a panic, blocked code) keeps
//     the build in the record. Engines of other builds look for such instances and resume
//     them. A build under which an instance has stalled does not resume it.
//   - A build under which the instance has stalled leaves its turns to the build that
//     resumed it.
//   - A build that finds a mismatch leaves the turn to another build, if the roster has a
//     live worker of one that serves the route.
//
// A turn is left maxDeferrals times at most, and the instance is resumed by one build maxResumes times at
// most, until a turn of the instance is committed: from then on what was tried before does not count. Both
// bounds end the search: an instance that no build can replay stalls for good, and a person sees it. What
// was tried is in the record (trial), so that it survives restarts; how often a turn was left is in memory
// (deferrals), as it only delays.

// Causes of stalls that another build may not have.
const (
	causeMismatch = "nondeterminism"
	causePanic    = "panic"
	causeBlocked  = "blocked"
)

const (
	// maxTried is how many builds the record remembers. An instance that has stalled under
	// as many is not resumed any more.
	maxTried = 16

	// maxResumes is how often one build resumes an instance that has not stalled under it:
	// an old build may take the turn instead.
	maxResumes = 3

	// stalledEvery is how often an engine looks for stalled instances, and stalledPage how
	// many of them it looks at then. When it starts it looks at all.
	stalledEvery = time.Minute
	stalledPage  = 1_000

	// maxDeferrals is how often an engine leaves a turn to another build. It keeps the claim
	// for minDefer the first time, and twice as long each further time, up to maxDefer.
	maxDeferrals = 10
	minDefer     = 100 * time.Millisecond
	maxDefer     = 2 * time.Second

	// maxDeferred is how many instances are remembered whose turns were left.
	maxDeferred = 10_000

	// rosterFresh is how long the builds of the roster are taken for granted.
	rosterFresh = 5 * time.Second
)

// trial is what builds have made of an instance since its last turn.
type trial struct {
	// cause and build are those of the last stall, if another build may not have it.
	cause string
	build string

	// stalled has the builds under which the instance has stalled, at most maxTried, and resumed
	// those that resumed it automatically, one entry for each time.
	stalled []string
	resumed []string
}

func (t *trial) empty() bool { return t.cause == "" && len(t.stalled)+len(t.resumed) == 0 }

// stall records a stall under a build. The slice is clipped, because copies of Info share it.
func (t *trial) stall(cause, build string) {
	t.cause, t.build = cause, build
	if cause != "" && build != "" && !slices.Contains(t.stalled, build) && len(t.stalled) < maxTried {
		t.stalled = append(slices.Clip(t.stalled), build)
	}
}

// resumable reports whether an engine of a build may resume the instance by itself.
func (t *trial) resumable(build string) bool {
	times := 0
	for _, b := range t.resumed {
		if b == build {
			times++
		}
	}
	return build != "" && t.cause != "" && t.build != build && !slices.Contains(t.stalled, build) &&
		times < maxResumes && len(t.stalled) < maxTried && len(t.resumed) < maxTried
}

// resume notes that an engine of a build has resumed the instance by itself.
func (t *trial) resume(build string) {
	t.cause, t.build = "", ""
	t.resumed = append(slices.Clip(t.resumed), build)
}

func (t *trial) encode() []byte {
	out := wire.AppendString(nil, t.cause)
	out = wire.AppendString(out, t.build)
	for _, builds := range [][]string{t.stalled, t.resumed} {
		out = wire.AppendNumber(out, uint64(len(builds)))
		for _, b := range builds {
			out = wire.AppendString(out, b)
		}
	}
	return out
}

func (t *trial) decode(data []byte) error {
	d := wire.Reader{Data: data}
	t.cause, t.build = d.String(), d.String()
	for _, builds := range []*[]string{&t.stalled, &t.resumed} {
		for n := d.Number(); n > 0 && d.Err == nil; n-- {
			*builds = append(*builds, d.String())
		}
	}
	return d.Err
}

// serveStalled resumes instances that have stalled under another build, until the engine
// is closed: all of them when it starts, and then a page at a time.
func (e *Engine) serveStalled() {
	first, failing, cursor := true, false, ""
	for e.claiming.Err() == nil {
		next, err := e.resumePage(e.claiming, cursor)
		switch {
		case errors.Is(err, store.ErrClosed):
			return
		case err != nil && !failing && e.claiming.Err() == nil:
			e.log.Warn("stalled instances not listed", "error", err)
		case err == nil:
			cursor, first = next, first && next != ""
		}
		if failing = err != nil; !failing && first {
			continue
		}
		_ = base.Sleep(e.claiming, e.clock, stalledEvery)
	}
}

// resumePage looks at a page of stalled instances, and returns the cursor of the next.
func (e *Engine) resumePage(ctx context.Context, cursor string) (next string, err error) {
	page, err := e.store.List(ctx, store.Query{
		Kind: kindInstance, Statuses: []string{string(Stalled)}, Limit: stalledPage, Cursor: cursor,
	})
	if err != nil {
		return cursor, err
	}
	var now time.Time
	for i := range page.Records {
		info, err := infoOf(page.Records[i])
		if err != nil || !info.trial.resumable(e.cfg.Build) || !slices.Contains(e.cfg.Routes, info.Route()) || info.Build != "" && info.Build != e.cfg.Build {
			continue
		}
		if now.IsZero() {
			stats, err := e.store.Stats(ctx)
			if err != nil {
				return cursor, err
			}
			now = stats.Now
		}
		if err := e.resumeStalled(ctx, &info, now); err != nil && !expected(err) {
			return cursor, fmt.Errorf("resume %v: %w", info.Ref, err)
		}
	}
	return page.Next, nil
}

// resumeStalled resumes an instance that has stalled under another build. Of several
// engines one does: the others have a conflict.
func (e *Engine) resumeStalled(ctx context.Context, info *Info, now time.Time) error {
	stalled := info.trial.build
	c := e.newControl(ctx, *info, store.Tx{}, now)
	if err := c.resume(e.cfg.Build, ""); err != nil {
		return err
	}
	if err := c.commit(info.Revision); err != nil {
		return err
	}
	e.log.Info("stalled instance resumed", info.about(), "build", e.cfg.Build, "stalled_build", stalled)
	return nil
}

// errElsewhere is the error of a turn that is left to another build.
var errElsewhere = errors.New("abide: the turn is left to another build")

// stalledHere reports whether the instance has stalled under this build, and another one
// has resumed it.
func (t *turn) stalledHere() bool {
	movable := t.in.info.Build == "" || t.pinned != ""
	return movable && t.e.cfg.Build != "" && slices.Contains(t.in.info.trial.stalled, t.e.cfg.Build)
}

// leaveTurn counts that the turn is to be left to another build, and reports whether it
// may be.
func (t *turn) leaveTurn() bool { return t.e.deferred.add(t.claim, t.e.clock.Now()) }

// otherBuild reports whether a live worker of another build serves the route.
func (t *turn) otherBuild() bool {
	if t.in.info.Build != "" && t.pinned == "" {
		return false
	}
	workers, err := t.e.Client.peers.get(t.ctx, t.e.Client, t.claim.Now)
	if err != nil {
		t.e.log.Warn("workers not listed", "error", err)
		return false
	}
	return slices.ContainsFunc(workers, func(w Worker) bool {
		return w.Build != t.e.cfg.Build && slices.Contains(w.Routes, t.in.info.Route())
	})
}

// deferrals counts how often turns were left to another build.
type deferrals struct {
	mu    sync.Mutex
	byKey map[store.Key]deferral
}

type deferral struct {
	length int // of the log: a turn that was committed since makes it another one
	times  int
	at     time.Time
}

// add counts a turn that is to be left, and reports whether it may be.
func (d *deferrals) add(c *store.Claim, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, there := d.byKey[c.Key]
	if before.length != c.LogLength {
		before = deferral{}
	}
	if before.times == maxDeferrals {
		delete(d.byKey, c.Key)
		return false
	}
	if !there && len(d.byKey) >= maxDeferred {
		for key, old := range d.byKey {
			if now.Sub(old.at) > time.Minute {
				delete(d.byKey, key)
			}
		}
		if len(d.byKey) >= maxDeferred {
			return false
		}
	}
	if d.byKey == nil {
		d.byKey = map[store.Key]deferral{}
	}
	d.byKey[c.Key] = deferral{length: c.LogLength, times: before.times + 1, at: now}
	return true
}

// times returns how often a turn was left.
func (d *deferrals) times(key store.Key) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byKey[key].times
}

// leaveToAnother gives a claim back so that another build can have it. It is kept for a
// while first, so that this engine does not claim it again at once, and not released with
// a delay: the messages of an instance must stay in order.
func (e *Engine) leaveToOtherBuild(t *turn) {
	times := e.deferred.times(t.claim.Key)
	if times == 1 {
		e.log.Info("turn left to another build", t.about(), "build", e.cfg.Build)
	}
	wait := min(minDefer<<(max(times, 1)-1), maxDefer)
	_ = base.Sleep(e.claiming, e.clock, backoff.Jitter(wait, t.claim.Key.Tenant+"/"+t.claim.Key.Name, times))
	e.giveBack(t.claim)
}
