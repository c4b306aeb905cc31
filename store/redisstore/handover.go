package redisstore

import "slices"

// reservation is a Claim call that a group of commits names, so that the script of the group
// claims on its behalf: that saves a round trip.
//
// It is the owner of a busy waiter while the group is in flight. The token is
// made here, and the script derives one from it for each key, so that a claim can be
// told from those of other calls even if the answer is lost.
//
// There are two kinds. An attached attempt (attempt is true) is a call that has had no
// answer since it came or was woken: if nothing is found, the attempt counts as a full
// claim, and a call whose wait is over ends with it. The other kind is an idle call that
// the group might have something for: if nothing is found, it waits on as if it had not
// been named.
type reservation struct {
	waiter  *waiter
	token   string
	attempt bool // it is an attached attempt
}

// destination is what messages are put to. The tenant matters only if calls wait that are limited
// to tenants: otherwise it is empty, so that a commit to many tenants has few destinations.
type destination struct {
	target
	tenant string
}

// A group has at most maxReservations, since each makes its script longer; and the idle calls
// among them are chosen by the first maxPuts messages of each commit.
const (
	maxReservations = 8
	maxPuts         = 256
)

// reserve returns the reservations of a group: the attached attempts, and idle calls that
// wait for what the commits put. An idle call waits because nothing is ready for it, so it
// is served ahead of no other call; and the script keeps the round-robin of tenants.
//
// One call of a subscription is named at most: it can take as many keys as it
// has asked for, and if there are more, the answer says so and others try. Of
// several subscriptions of a partition the first one with an idle call is taken;
// which one that is changes, since idle calls come and go.
func (s *Store) reserve(group []*pendingCommit, attempts []*waiter) (reservations []*reservation) {
	for _, w := range attempts {
		reservations = append(reservations, &reservation{waiter: w, token: s.newToken(w.Request.Owner), attempt: true})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.topics) == 0 || s.closed {
		return reservations
	}
	for _, c := range group {
		for _, d := range c.partitions {
			if w := s.reserveFor(d, reservations); w != nil {
				s.calls.Add(1)
				reservations = append(reservations, &reservation{waiter: w, token: s.newToken(w.Request.Owner)})
			}
			if len(reservations) >= maxReservations {
				return reservations
			}
		}
	}
	return reservations
}

// reserveFor returns an idle waiter for what is put to a target, of a subscription that has
// no reservation in this group yet, or nil. A message without a route goes to the route of
// its key, which is not known here, so nothing is reserved for it: the answer wakes the
// calls of that route. The lock is held.
func (s *Store) reserveFor(d destination, reservations []*reservation) *waiter {
	topic := s.topics[d.target]
	if topic == nil {
		return nil
	}
	for _, sub := range topic.Subscriptions() {
		if !sub.Takes(d.tenant) {
			continue
		}
		if slices.ContainsFunc(reservations, func(x *reservation) bool { return x.waiter.Subscription() == sub }) {
			continue
		}
		if w := s.waits.Reserve(sub); w != nil {
			return w
		}
	}
	return nil
}

// handOver gives the calls what the script of a group has claimed for them. With due, leases
// or messages have expired, which only a claim script handles: attached attempts are settled
// after a sweep, in goroutines of their own, so that the commits of the group do not wait
// for it.
func (s *Store) handOver(seg *segment, reservations []*reservation, handed *answer, due bool) {
	for _, w := range reservations {
		f := claimResult{next: -1}
		var err error
		if handed.more() {
			a := handed.sub()
			f = parseClaimResult(a)
			err = a.err
		}
		if err != nil {
			s.logger.Error("redisstore: claim of a commit undecodable", "error", err)
		}
		if w.attempt && due {
			go s.sweepThenSettle(seg, w, f)
			continue
		}
		s.settle(seg, w, f, false)
	}
}

// sweepThenSettle ends expired leases and quarantines expired messages, and then settles a
// reservation, which tries again if it has nothing.
//
// The script of a commit does neither: ending many leases would make commits slow, and
// quarantine records are encoded here, which takes another script. So an attached attempt
// may have missed a key whose lease has just ended.
func (s *Store) sweepThenSettle(seg *segment, w *reservation, f claimResult) {
	if err := s.sweep(s.lifetime, seg); err != nil && s.lifetime.Err() == nil {
		s.logger.Warn("redisstore: expired messages not quarantined", "error", err)
	}
	s.settle(seg, w, f, true)
}

// cancelReservations ends the reservations of a group whose script failed, or whose outcome is
// unknown. Idle calls wait on. An attached attempt is made alone: it succeeds, or its
// error becomes that of its call.
func (s *Store) cancelReservations(seg *segment, reservations []*reservation) {
	for _, w := range reservations {
		if w.attempt {
			go s.attempt(w.waiter)
			continue
		}
		s.settle(seg, w, claimResult{next: -1}, false)
	}
}

// settle ends a reservation. An attached attempt that found nothing counts as a full claim,
// unless again says that a full claim may find something; messages to quarantine that
// the script has returned say the same, since a claim script returns them again and the
// attempt then moves them.
func (s *Store) settle(seg *segment, w *reservation, f claimResult, again bool) {
	defer s.calls.Done()
	again = again || len(f.quarantine) > 0
	s.noteHandOver(seg, w.waiter, f, again)
	if len(f.claims) == 0 && (again || !w.attempt) {
		s.cancelAttempt(w.waiter, f, again)
		return
	}
	s.releaseUnwanted(s.finishAttempt(w.waiter, f, nil))
}
