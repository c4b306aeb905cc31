package redisstore

import (
	"slices"
	"strings"
)

// want is a Claim call that waits for what a commit may make ready. The commit names it,
// and its script claims on its behalf: that saves a call to the server.
type want struct {
	waiter *waiter
	token  string
	looks  bool // it has not yet looked
}

// A group names maxWants calls at most, and looks for them by the first maxPuts messages of
// each commit.
const (
	maxWants = 8
	maxPuts  = 256
)

// reserve finds calls that wait for what commits put. Each waits because nothing is ready
// for it, so it takes nobody's turn; and the script lets tenants take turns all the same.
func (s *Store) reserve(group []*call, looks []*waiter) (wants []*want) {
	for _, w := range looks {
		wants = append(wants, &want{waiter: w, token: s.newToken(), looks: true})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.groups) == 0 || s.closed {
		return wants
	}
	for _, c := range group {
		for _, t := range c.lanes {
			for _, g := range s.groups[t.queue] {
				if w := g.idle(t.route); w != nil && !slices.ContainsFunc(wants, func(x *want) bool { return x.waiter.group == g }) {
					s.mark(w)
					wants = append(wants, &want{waiter: w, token: s.newToken()})
					break
				}
			}
			if len(wants) >= maxWants {
				return wants
			}
		}
	}
	return wants
}

// idle returns a call that waits and does not look, if the group serves the route. A
// message without one goes to the route that its key has, which is not known here.
func (g *group) idle(route string) *waiter {
	if route != "" {
		if _, serves := slices.BinarySearchFunc(g.routes, route, strings.Compare); !serves {
			return nil
		}
	}
	for _, w := range g.waiters {
		if !w.busy && w.waits {
			return w
		}
	}
	return nil
}

// handOver gives the calls what the commits have claimed for them. If there is something due
// that only a claim sees to, those that look do not return before.
func (s *Store) handOver(wants []*want, handed *answer, due bool) {
	for _, w := range wants {
		f := found{next: -1}
		var err error
		if handed.more() {
			a := handed.sub()
			f = parseFound(a)
			err = a.err
		}
		if err != nil {
			s.logger.Error("redisstore: claim of a commit undecodable", "error", err)
		}
		if w.looks && due {
			go s.settleLater(w, f)
			continue
		}
		s.settle(w, f)
	}
}

// settleLater has leases that have ended and messages that expire seen to, and lets the call
// look again if it has nothing.
func (s *Store) settleLater(w *want, f found) {
	if err := s.sweep(s.life); err != nil && s.life.Err() == nil {
		s.logger.Warn("redisstore: expired messages not quarantined", "error", err)
	}
	s.mu.Lock()
	w.waiter.group.again = true
	s.mu.Unlock()
	s.settle(w, f)
}

// unreserve lets the calls go on waiting: the commit has not happened, or nobody knows. One
// that has not yet looked finds out what is wrong.
func (s *Store) unreserve(wants []*want) {
	for _, w := range wants {
		if w.looks {
			go s.lookFor(w.waiter)
			continue
		}
		s.settle(w, found{next: -1})
	}
}

func (s *Store) settle(w *want, f found) {
	again, unwanted := s.looked(w.waiter, f, nil)
	if again {
		if !s.ride(w.waiter) {
			go s.lookFor(w.waiter)
		}
		return
	}
	defer s.calls.Done()
	s.giveBack(unwanted)
}
