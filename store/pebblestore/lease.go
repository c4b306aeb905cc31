package pebblestore

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

// lease is a live claim of a key. Leases are only in memory: one process owns the
// directory, so when it ends no claim is held any more.
//
// The lease of a key covers the messages that were delivered with it. What is
// put during the lease waits. If a delivered message is deleted or re-timed by
// another commit, the lease ends: its holder must not finish a claim whose messages
// have changed. A change of the key's route moves the messages, and leaves the lease.
type lease struct {
	key       *keyState // pinned once for the lease
	token     store.Token
	owner     string // of the claim
	until     int64  // when it expires, in milliseconds
	delivered []*ref // some may be gone: see ref.gone
	index     int    // in the heap of leases, plus one
}

// live reports whether the key is leased under a token, and the lease has not expired. It
// compares with the time itself, so that an expired lease is dead before expireLeases ends it.
func (k *keyState) live(token store.Token, now int64) bool {
	return k.lease != nil && k.lease.token == token && now < k.lease.until
}

// newToken returns a token that no process has used: random bytes of this process, and a
// counter.
func (s *Store) newToken() store.Token {
	s.tokens++
	b := make([]byte, 0, 24)
	b = append(b, s.epoch[:]...)
	return store.Token(binary.BigEndian.AppendUint64(b, s.tokens))
}

// startLease leases a key with the messages that are delivered. The caller refreshes the key.
func (s *Store) startLease(k *keyState, delivered []*ref, owner string, until int64) *lease {
	l := &lease{key: k, token: s.newToken(), owner: owner, until: until, delivered: delivered}
	k.lease = l
	for _, r := range delivered {
		r.leased = l
	}
	s.keys.pin(k.entry)
	s.leases.push(l)
	return l
}

// endLease ends the lease of a key. The caller refreshes the key when it is done.
func (s *Store) endLease(k *keyState) {
	l := k.lease
	k.lease = nil
	for _, r := range l.delivered {
		r.leased = nil
	}
	s.leases.remove(l)
	s.unpinKey(k)
}

// expireLeases ends the leases whose time is over.
//
// It is called before each claim and by the alarm, so that a claim sees keys
// whose lease has just ended, with or without an alarm.
func (s *Store) expireLeases(now int64) {
	for s.leases.len() > 0 && s.leases.items[0].until <= now {
		k := s.leases.items[0].key
		s.keys.pin(k.entry)
		s.endLease(k)
		s.refresh(k, now)
		s.unpinKey(k)
	}
}

// Leases returns live leases, from memory.
func (s *Store) Leases(ctx context.Context, q store.LeaseQuery) ([]store.LeaseInfo, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now, err := s.lock("leases")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if q.Key.Name != "" {
		if e := s.keys.get(q.Key); e != nil && e.value.lease != nil && now < e.value.lease.until {
			return []store.LeaseInfo{e.value.lease.info()}, nil
		}
		return nil, nil
	}
	var live []*lease
	for _, l := range s.leases.items {
		if now < l.until && (q.Queue == "" || q.Queue == l.key.key.Queue) {
			live = append(live, l)
		}
	}
	slices.SortFunc(live, func(a, b *lease) int { return cmp.Compare(a.until, b.until) })
	leases := make([]store.LeaseInfo, 0, min(len(live), cmp.Or(q.Limit, store.DefaultPage)))
	for _, l := range live[:cap(leases)] {
		leases = append(leases, l.info())
	}
	return leases, nil
}

func (l *lease) info() store.LeaseInfo {
	return store.LeaseInfo{Key: l.key.key, Route: l.key.route, Owner: l.owner, Until: store.FromMillis(l.until)}
}

// Renew makes leases last for d from now, and returns those that are lost. It never shortens
// one, and writes nothing.
func (s *Store) Renew(ctx context.Context, d time.Duration, leases []store.Lease) (lost []store.Lease, err error) {
	if err := store.ValidateRenew(d, leases); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now, err := s.lock("renew")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for _, l := range leases {
		e := s.keys.get(l.Key)
		if e == nil || !e.value.live(l.Token, now) {
			lost = append(lost, l)
			continue
		}
		lease := e.value.lease
		lease.until = max(lease.until, now+millis(d))
		s.leases.push(lease)
	}
	return lost, nil
}

// Release ends a lease without consuming its messages, or returns [store.ErrClaimLost].
//
// Without a delay it changes only memory, and the journal if the attempt is not to count: it
// waits for no sync. With a delay the messages move to a later position, in the open group,
// and it returns when that is durable. What the move needs is read before anything is
// changed.
func (s *Store) Release(ctx context.Context, r store.Release) error {
	if err := r.Validate(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	now, err := s.lock("release")
	if err != nil {
		return err
	}
	e := s.keys.get(r.Lease.Key)
	if e == nil || !e.value.live(r.Lease.Token, now) {
		s.mu.Unlock()
		return store.ClaimLost("release", r.Lease)
	}
	k, g := e.value, s.openGroup
	if r.After > 0 {
		if err := s.checkRoom(false); err != nil {
			s.mu.Unlock()
			return err
		}
	}
	if r.After > 0 {
		for _, ref := range k.lease.delivered {
			if err := s.prepareData(k, ref); err != nil {
				s.mu.Unlock()
				return err
			}
		}
	}
	s.keys.pin(e)
	if r.After > 0 {
		g.keys = append(g.keys, k)
	}
	delivered := k.lease.delivered
	s.endLease(k)
	if r.Uncounted {
		for _, ref := range delivered {
			ref.attempt--
			s.attempts.note(location{k.partition.id, ref.pos}, ref.attempt)
		}
		err = s.attempts.flush()
	}
	if r.After > 0 {
		for _, ref := range delivered {
			if err := s.moveTo(g, k, ref, now+millis(r.After)); err != nil {
				s.failLocked(err)
				s.mu.Unlock()
				return s.failure
			}
		}
	}
	s.refresh(k, now)
	s.ready(k)
	s.serve()
	s.setAlarm(now)
	if r.After == 0 {
		s.unpinKey(k)
		s.mu.Unlock()
		return err
	}
	s.kick()
	s.mu.Unlock()
	return s.wait(ctx, g)
}
