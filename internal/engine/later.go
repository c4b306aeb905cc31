package engine

import (
	"maps"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// While Abide itself is upgraded, a process of the old release may claim what one of the new release has
// written: a message or an event of a kind, or with a flag, that it does not know. To quarantine the message
// or to stall the instance would be wrong, as other processes can read it; to release it at once would be a
// busy loop between the old processes. So the old process holds the claim for a moment, releases it, and
// does so for Config.Unknown. If it still gets the same key then, no newer process is there to take it (the
// upgrade was rolled back), and what it cannot read is treated as unreadable.
//
// Code elsewhere is another matter (ErrOutdated): the process at one end of the connection does not know what the
// other one has written, and each of them can be replaced by a later release without the other. A stall would
// outlast that, as it is resumed by another build of the code and not by another server. So what such code cannot
// do is left to others for as long as it takes, and said again each time that Config.Unknown has passed.
//
// What was seen is remembered in memory, per process, for keys that come again within seenAgain. A restart
// begins anew, which only delays the verdict.

// causeLater is the cause of a stall because of an event of a later release.
const causeLater = "later release"

func laterCause(err error) string {
	if UnknownEvent(err) {
		return causeLater
	}
	return ""
}

// seenKeys remembers since when a key has something that this release does not know.
type seenKeys struct {
	mu    sync.Mutex
	byKey map[store.Key]seen
}

type seen struct{ first, last time.Time }

// seenAgain is how soon a key comes again if no other process has taken it meanwhile.
const seenAgain = time.Minute

// note notes that a key was seen, and reports whether that is new, or has been so for a time, after which it is
// forgotten.
func (s *seenKeys) note(key store.Key, now time.Time, limit time.Duration) (fresh, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, there := s.byKey[key]
	if there && now.Sub(before.last) <= seenAgain {
		if now.Sub(before.first) >= limit {
			delete(s.byKey, key)
			return false, true
		}
		s.byKey[key] = seen{before.first, now}
		return false, false
	}
	maps.DeleteFunc(s.byKey, func(_ store.Key, old seen) bool { return now.Sub(old.last) > seenAgain })
	if len(s.byKey) >= maxDeferred {
		return false, true
	}
	if s.byKey == nil {
		s.byKey = map[store.Key]seen{}
	}
	s.byKey[key] = seen{now, now}
	return true, false
}

const claimLeft = "claim left to a later release"

// leaveLater reports whether a claim is to be left to other processes. It logs so once.
func (e *Engine) leaveLater(c *store.Claim, why error) bool {
	fresh, over := e.unknown.note(c.Key, e.clock.Now(), e.cfg.Unknown)
	if fresh {
		e.log.Warn(claimLeft, aboutClaim(c), "for", e.cfg.Unknown, "error", why)
	}
	return !over
}

// leaveOutdated gives back a claim whose code is elsewhere, at the end of a connection one end of which is of an
// earlier release. It logs so once, and again after Config.Unknown.
func (e *Engine) leaveOutdated(c *store.Claim, why error) {
	e.noteOutdated(c, why)
	e.giveBackLater(c)
}

// leaveOutdatedTask is leaveOutdated for an attempt at an activity, which others may begin meanwhile.
func (e *Engine) leaveOutdatedTask(c *store.Claim, why error) {
	e.noteOutdated(c, why)
	e.release(c, outdatedDelay)
}

// outdatedDelay is how long nobody begins an attempt again that was given up because of [ErrOutdated]: the
// function may have run.
const outdatedDelay = 10 * time.Second

func (e *Engine) noteOutdated(c *store.Claim, why error) {
	now := e.clock.Now()
	fresh, over := e.unknown.note(c.Key, now, e.cfg.Unknown)
	if over {
		fresh, _ = e.unknown.note(c.Key, now, e.cfg.Unknown)
	}
	if fresh {
		e.log.Warn(claimLeft, aboutClaim(c), "error", why)
	}
}

// giveBackLater gives back what other processes know. It is kept for a while first: the
// messages of an instance must stay in order, so it is not released with a delay.
func (e *Engine) giveBackLater(c *store.Claim) {
	_ = base.Sleep(e.claiming, e.clock, maxDefer)
	e.giveBack(c)
}
