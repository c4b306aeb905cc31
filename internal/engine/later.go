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
// What was seen is remembered in memory, per process, for keys that come again within seenAgain. A restart
// begins anew, which only delays the verdict.

// causeLater is the cause of a stall because of an event of a later release.
const causeLater = "later release"

func laterCause(err error) string {
	if unknownEvent(err) {
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

// leaveLater reports whether a claim is to be left to other processes. It logs so once.
func (e *Engine) leaveLater(c *store.Claim, why error) bool {
	now := e.clock.Now()
	s := &e.unknown
	s.mu.Lock()
	defer s.mu.Unlock()
	before, there := s.byKey[c.Key]
	if there && now.Sub(before.last) <= seenAgain {
		if now.Sub(before.first) >= e.cfg.Unknown {
			delete(s.byKey, c.Key)
			return false
		}
		s.byKey[c.Key] = seen{before.first, now}
		return true
	}
	maps.DeleteFunc(s.byKey, func(_ store.Key, old seen) bool { return now.Sub(old.last) > seenAgain })
	if len(s.byKey) >= maxDeferred {
		return false
	}
	if s.byKey == nil {
		s.byKey = map[store.Key]seen{}
	}
	s.byKey[c.Key] = seen{now, now}
	e.log.Warn("claim left to a later release", aboutClaim(c), "for", e.cfg.Unknown, "error", why)
	return true
}

// giveBackLater gives back what other processes know. It is kept for a while first: the
// messages of an instance must stay in order, so it is not released with a delay.
func (e *Engine) giveBackLater(c *store.Claim) {
	_ = base.Sleep(e.claiming, e.clock, maxDefer)
	e.giveBack(c)
}
