package pebblestore

import (
	"math"
	"time"

	"github.com/abidehq/abide/store"
)

// now returns the time. It does not run backwards.
func (s *Store) now() int64 {
	s.lastNow = s.time.Now()
	return s.lastNow
}

// maxAlarm is the longest time, in milliseconds, after which the clock is looked at
// again: the timer of a machine that sleeps, or whose clock is set, goes off late.
const maxAlarm = 60_000

// setAlarm sees to it that alarm is called when the next thing happens by itself: a
// message that somebody waits for is due, a lease ends while somebody waits, or a
// message without a route expires.
func (s *Store) setAlarm(now int64) {
	next := int64(math.MaxInt64)
	if s.waiting > 0 && s.leases.len() > 0 {
		next = s.leases.items[0].until
	}
	for _, q := range s.queues {
		if rs := q.routes[""]; rs != nil && rs.due.len() > 0 {
			next = min(next, max(rs.due.items[0].next.due, q.sweepAt))
		}
		for _, rs := range q.awaited {
			if rs.due.len() > 0 {
				next = min(next, rs.due.items[0].next.due)
			}
		}
	}
	if next == math.MaxInt64 || (s.alarmAt != 0 && next >= s.alarmAt) {
		return // the alarm that is set comes first, and sets the next one
	}
	s.stopAlarm()
	s.alarmAt = min(max(next, now+1), now+maxAlarm)
	wait := min(store.FromMillis(s.alarmAt).Sub(s.clock.Now()), durationMS(s.alarmAt-now))
	s.stopAlarm = s.clock.AfterFunc(wait, s.alarm)
}

// alarm does what is due.
func (s *Store) alarm() {
	s.mu.Lock()
	if s.closed || s.failure != nil {
		s.mu.Unlock()
		return
	}
	now := s.now()
	s.alarmAt = 0
	s.expireLeases(now)
	var swept []*group
	for _, q := range s.queues {
		if q.sweepDue(now) {
			s.sweep(q)
			swept = append(swept, q.swept)
		}
		s.serve(q, now)
	}
	s.setAlarm(now)
	s.mu.Unlock()
	for _, g := range swept { // so that whoever made the time pass finds it done
		if g != nil {
			<-g.done
		}
	}
}

// millis returns a duration in milliseconds, rounded up.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

func durationMS(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
