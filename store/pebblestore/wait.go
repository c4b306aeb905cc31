package pebblestore

import (
	"slices"

	"github.com/abidehq/abide/store"
)

// waiter is a Claim call that waits. Whoever makes a key ready claims it on the
// waiter's behalf, so that no wake-up is lost and none is in vain.
type waiter struct {
	req  store.ClaimRequest
	done chan struct{} // closed when the wait is over; taken and err are set before
	taken
	err error
}

func (w *waiter) end(t taken, err error) {
	w.taken, w.err = t, err
	close(w.done)
}

func (s *Store) addWaiter(q *queue, w *waiter) {
	s.waiting++
	q.waiters = append(q.waiters, w)
	for _, route := range w.req.Routes {
		rs := s.route(q, route)
		rs.waiters++
		q.awaited[route] = rs
	}
}

func (s *Store) removeWaiter(q *queue, i int) {
	s.waiting--
	for _, route := range q.waiters[i].req.Routes {
		rs := q.awaited[route]
		if rs.waiters--; rs.waiters == 0 {
			delete(q.awaited, route)
			s.pruneRoute(rs)
		}
	}
	q.waiters = slices.Delete(q.waiters, i, i+1)
}

// giveUp ends a wait without claims, unless there are some after all.
func (s *Store) giveUp(q *queue, w *waiter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil && !s.closed {
		s.serve(q, s.now())
	}
	if i := slices.Index(q.waiters, w); i >= 0 {
		s.removeWaiter(q, i)
		w.end(taken{}, err)
	}
}

// serve gives the queue's waiters what they wait for.
func (s *Store) serve(q *queue, now int64) {
	for i := 0; i < len(q.waiters); {
		w := q.waiters[i]
		t, err := s.claim(q, &w.req, now)
		if s.failure != nil {
			return // everybody has been told
		}
		if len(t.claims) == 0 && err == nil {
			w.after(t.group)
			i++
			continue
		}
		t.after(w.group)
		s.removeWaiter(q, i)
		w.end(t, err)
	}
}
