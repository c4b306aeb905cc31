package redisstore

import "slices"

// want is a Claim call that waits for what a commit may make ready. The commit names it,
// and its script claims on its behalf: that saves a call to the server.
//
// It is the owner of a busy waiter while the group is in flight. The token is
// made here, and the script makes one of it for each key, so that a claim can be
// told from those of other calls even if the answer is lost.
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
//
// One call of a subscription is named at most: it can take as many keys as it
// has asked for, and if there are more, the answer says so and others look. Of
// several subscriptions of a partition the first one with an idle call is taken;
// which one that is changes, since idle calls come and go.
func (s *Store) reserve(group []*call, looks []*waiter) (wants []*want) {
	for _, w := range looks {
		wants = append(wants, &want{waiter: w, token: s.newToken(), looks: true})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.topics) == 0 || s.closed {
		return wants
	}
	for _, c := range group {
		for _, t := range c.partitions {
			if w := s.reserveFor(t, wants); w != nil {
				s.calls.Add(1)
				wants = append(wants, &want{waiter: w, token: s.newToken()})
			}
			if len(wants) >= maxWants {
				return wants
			}
		}
	}
	return wants
}

// reserveFor returns an idle waiter for what is put to a target, of a subscription of which
// the commits name nobody yet. A message without a route goes to that of its key, which is
// not known here. The lock is held.
func (s *Store) reserveFor(t target, wants []*want) *waiter {
	topic := s.topics[t]
	if topic == nil {
		return nil
	}
	for _, sub := range topic.Subscriptions() {
		if slices.ContainsFunc(wants, func(x *want) bool { return x.waiter.Subscription() == sub }) {
			continue
		}
		if w := s.waits.Reserve(sub); w != nil {
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
		s.settle(w, f, false)
	}
}

// settleLater has leases that have ended and messages that expire seen to, and lets the call
// look again if it has nothing.
//
// The script of a commit does not end leases and does not expire messages: both
// need records to be written whose bodies are made here. So a look that rode
// with it may have missed a key whose lease has just ended.
func (s *Store) settleLater(w *want, f found) {
	if err := s.sweep(s.life); err != nil && s.life.Err() == nil {
		s.logger.Warn("redisstore: expired messages not quarantined", "error", err)
	}
	s.settle(w, f, true)
}

// unreserve lets the calls go on waiting: the commit has not happened, or nobody knows. One
// that has not yet looked finds out what is wrong.
func (s *Store) unreserve(wants []*want) {
	for _, w := range wants {
		if w.looks {
			go s.lookFor(w.waiter)
			continue
		}
		s.settle(w, found{next: -1}, false)
	}
}

// settle ends the claim of a commit on behalf of a call. One that has not looked before, and
// for which there is nothing, has looked now; unless there may be something that only a
// look finds: then it is to look again.
func (s *Store) settle(w *want, f found, again bool) {
	defer s.calls.Done()
	again = again || len(f.spent) > 0
	if len(f.claims) == 0 && (again || !w.looks) {
		s.unlooked(w.waiter, f, again)
		return
	}
	s.giveBack(s.looked(w.waiter, f, nil))
}
