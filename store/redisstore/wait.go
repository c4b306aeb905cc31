package redisstore

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide/store"
)

// group is the Claim calls of this process that wait for the same: a queue and routes. One
// of them looks at a time, when there is a reason to: a hint, a commit of this process, or
// a time that has come. When it finds something, there may be more, and others look too.
type group struct {
	queue   string
	routes  []string // sorted
	waiters []*waiter

	// looking is how many of them ask the server at the moment, or are named by a commit
	// that does. A reason to look that comes meanwhile is noted, as their answer may be
	// older.
	looking int
	again   bool

	wakeAt time.Time // by the ticker; zero if there is no time to look
}

// waiter is a Claim call.
type waiter struct {
	req   store.ClaimRequest
	group *group // nil for a call that does not wait

	busy  bool // it is one of those that look
	waits bool // it has looked in vain
	last  bool // its Wait is over: it looks once more
	over  bool // it has returned

	done   chan struct{} // closed when the call is over; claims and err are set before
	claims []store.Claim
	err    error
}

// finish ends the call. The lock is held.
func (w *waiter) finish(claims []store.Claim, err error) {
	if !w.over {
		w.over = true
		w.claims, w.err = claims, err
		close(w.done)
	}
}

// join enters a call, which looks for the first time. It reports whether the store is
// open.
func (s *Store) join(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if w.req.Wait == 0 {
		s.start(w)
		return true
	}
	groups := s.groups[w.req.Queue]
	if groups == nil {
		groups = map[string]*group{}
		s.groups[w.req.Queue] = groups
	}
	name := groupName(w.req.Routes)
	g := groups[name]
	if g == nil {
		g = &group{queue: w.req.Queue, routes: w.req.Routes}
		groups[name] = g
	}
	w.group = g
	g.waiters = append(g.waiters, w)
	s.watch()
	s.start(w)
	return true
}

func groupName(routes []string) string {
	var b []byte
	for _, route := range routes {
		b = long(b, route)
	}
	return string(b)
}

// drop takes a call out of its group. The lock is held.
func (s *Store) drop(w *waiter) {
	g := w.group
	if g == nil {
		return
	}
	g.waiters = slices.DeleteFunc(g.waiters, func(x *waiter) bool { return x == w })
	name := groupName(g.routes)
	if len(g.waiters) == 0 && g.looking == 0 && s.groups[g.queue][name] == g { // not one that took its place
		delete(s.groups[g.queue], name)
		if len(s.groups[g.queue]) == 0 {
			delete(s.groups, g.queue)
		}
	}
}

// start has a call look, in a goroutine of its own or with the next commits. The lock is
// held, and the store open.
func (s *Store) start(w *waiter) {
	s.mark(w)
	if !s.ride(w) {
		go s.lookFor(w)
	}
}

// mark notes that a call looks. The lock is held, and the store open.
func (s *Store) mark(w *waiter) {
	s.calls.Add(1)
	w.busy = true
	if w.group != nil {
		w.group.looking++
	}
}

// lookFor looks on behalf of a call that is marked, and ends the call or leaves it
// waiting.
func (s *Store) lookFor(w *waiter) {
	defer s.calls.Done()
	for {
		f, err := s.look(s.life, &w.req)
		again, unwanted := s.looked(w, f, err)
		s.giveBack(unwanted)
		if !again {
			return
		}
	}
}

// looked notes what a look, or a commit, has found for a call. It reports whether the call
// must look again, and returns the claims that nobody is there for.
func (s *Store) looked(w *waiter, f found, err error) (again bool, unwanted []store.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.busy = false
	g := w.group
	if g != nil {
		g.looking--
	}
	for i := range f.claims {
		s.noteLease(f.claims[i].Key.Queue, f.now, f.claims[i].Until)
	}
	switch {
	case w.over:
		unwanted = f.claims
	case err != nil && len(f.claims) == 0:
		w.finish(nil, err)
	case len(f.claims) > 0 || g == nil:
		w.finish(f.claims, nil)
	case g.again || len(f.spent) > 0:
		g.again = false
		w.busy = true
		g.looking++
		return true, nil
	case w.last:
		w.finish(nil, nil)
	default:
		w.waits = true
	}
	if w.over {
		s.drop(w)
	}
	if g != nil {
		g.at(s, f.now, f.next)
		if f.more || g.again {
			g.again = false
			s.wakeSome(g, 2)
		}
		s.setAlarm()
	}
	return false, unwanted
}

// giveBack gives up claims that a call got after it had returned.
func (s *Store) giveBack(claims []store.Claim) {
	for i := range claims {
		err := s.release(s.life, store.Release{Lease: claims[i].Lease(), Uncounted: true})
		if err != nil && s.life.Err() == nil {
			s.logger.Debug("redisstore: claim without a caller not released, its lease expires", "key", claims[i].Key, "error", err)
		}
	}
}

// wakeSome has up to n calls of a group look. The lock is held.
func (s *Store) wakeSome(g *group, n int) {
	woken := false
	for _, w := range g.waiters {
		if n == 0 {
			return
		}
		if !w.busy {
			s.start(w)
			n--
			woken = true
		}
	}
	if !woken && g.looking > 0 {
		g.again = true
	}
}

// at notes when there is something for the group. The lock is held.
func (g *group) at(s *Store, now, next int64) {
	if next < 0 {
		return
	}
	at := s.moment(now, next)
	if g.wakeAt.IsZero() || at.Before(g.wakeAt) {
		g.wakeAt = at
	}
}

// noteLease has those who wait look when a lease ends that began meanwhile. The lock is
// held.
func (s *Store) noteLease(queue string, now int64, until time.Time) {
	for _, g := range s.groups[queue] {
		g.at(s, now, until.UnixMilli())
	}
}

// giveUp ends a wait, after a last look.
func (s *Store) giveUp(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.over {
		return
	}
	w.last = true
	if w.busy {
		w.group.again = true
		return
	}
	s.start(w)
}

// abandon ends a call whose context has ended.
func (s *Store) abandon(w *waiter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.finish(nil, err)
	s.drop(w)
	if g := w.group; g != nil && g.again {
		g.again = false
		s.wakeSome(g, 1)
	}
}

// readiness is a lane that has something, now or later.
type readiness struct {
	queue, route string
	at           int64
}

func (s *Store) parseReady(a *answer) (list []readiness) {
	for a.more() {
		lane, at := a.text(), a.num()
		queue, route, err := parseLane(lane)
		if err != nil {
			s.logger.Error("redisstore: script returned an invalid lane", "error", err)
			continue
		}
		list = append(list, readiness{queue, route, at})
	}
	return list
}

// wake tells those who wait what has become ready.
func (s *Store) wake(now int64, list []readiness) {
	if len(list) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		for _, g := range s.groups[r.queue] {
			if _, serves := slices.BinarySearchFunc(g.routes, r.route, strings.Compare); !serves {
				continue
			}
			if r.at <= now {
				s.wakeSome(g, 1)
			} else {
				g.at(s, now, r.at)
			}
		}
	}
	s.setAlarm()
}

// setAlarm sees to it that ring is called when the next group has a reason to look. The
// lock is held.
func (s *Store) setAlarm() {
	var next time.Time
	for _, groups := range s.groups {
		for _, g := range groups {
			if len(g.waiters) > 0 && !g.wakeAt.IsZero() && (next.IsZero() || g.wakeAt.Before(next)) {
				next = g.wakeAt
			}
		}
	}
	if !s.expireAt.IsZero() && (next.IsZero() || s.expireAt.Before(next)) {
		next = s.expireAt
	}
	if s.closed || next.IsZero() || !s.alarm.at.IsZero() && !next.Before(s.alarm.at) {
		return // the alarm that is set comes first, and sets the next one
	}
	s.alarm.stop()
	s.alarm.at = next
	s.alarm.stop = s.ticker().AfterFunc(next.Sub(s.ticker().Now()), s.ring)
}

// ring has groups look whose time has come. It returns when they have, so that whoever
// made the time pass finds it done.
func (s *Store) ring() {
	s.mu.Lock()
	s.alarm.at = time.Time{}
	now := s.ticker().Now()
	var looks sync.WaitGroup
	for _, groups := range s.groups {
		for _, g := range groups {
			if g.wakeAt.IsZero() || g.wakeAt.After(now) {
				continue
			}
			g.wakeAt = time.Time{}
			if s.closed {
				continue
			}
			i := slices.IndexFunc(g.waiters, func(w *waiter) bool { return !w.busy })
			if i < 0 {
				g.again = g.looking > 0
				continue
			}
			w := g.waiters[i]
			s.mark(w)
			looks.Go(func() { s.lookFor(w) })
		}
	}
	if !s.closed && !s.expireAt.IsZero() && !s.expireAt.After(now) {
		s.expireAt = time.Time{}
		s.calls.Add(1)
		looks.Go(func() {
			defer s.calls.Done()
			if err := s.sweep(s.life); err != nil && s.life.Err() == nil {
				s.logger.Warn("redisstore: expired messages not quarantined", "error", err)
				s.noteExpiry(0, pollEvery.Milliseconds())
			}
		})
	}
	s.setAlarm()
	s.mu.Unlock()
	looks.Wait()
}

// lookAgain has everybody who waits look: hints may have been lost.
func (s *Store) lookAgain() {
	s.mu.Lock()
	for _, groups := range s.groups {
		for _, g := range groups {
			s.wakeSome(g, 1)
		}
	}
	s.mu.Unlock()
	s.checkAwaited(context.WithoutCancel(s.life))
}
