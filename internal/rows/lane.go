package rows

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// queue is the Claim calls of a queue, and what is known of what they wait for.
type queue struct {
	name       string
	views      map[ID]*view
	idle       int        // Claim calls that wait and that nobody serves at the moment
	busy       int        // Claim calls that somebody is busy with
	waiting    int        // all that wait
	lastTenant int64      // the tenant whose turn it was last
	expiring   *partition // the keys without a route

	letting  int           // leases of which nobody knows, which are being released
	lettings uint64        // how many there were so far
	let      chan struct{} // closed when they are released; nil if there are none

	serving   bool
	sweeping  chan struct{} // closed when the sweep that is under way has ended
	arrived   int64         // the earliest that came into expiring during the sweep
	stopAlarm func() bool
	alarmAt   int64
}

// partition is what is known of the keys of a queue and a route.
type partition struct {
	queue *queue
	views []*view // that have it

	// next is a time before which there is nothing to claim in the partition, as far as is
	// known; 0 if nothing is known.
	next int64
}

// view is the partitions that a Claim call asks for, and that in which messages expire. Those
// who ask for the same routes share one, so that what is known of thousands of partitions is
// gathered once, and not for each of thousands who wait.
type view struct {
	id         ID
	queue      *queue
	ids        []int64      // of the partitions, in order, without the one in which messages expire
	partitions []*partition // all of them
	users      int          // calls and picks that need it

	asked time.Time // when it was last asked for by somebody who does so every now and then

	next  int64 // the least of its partitions, unless it is stale
	stale bool

	stock // what is leased for its next calls

	picks   map[*pick]bool // under way
	looked  uint64         // the last look at all of its partitions that has ended, by its number
	waiters []*waiter      // in the order of their numbers, without those that are being served
}

func (f *Frame) queue(name string) *queue {
	q := f.queues[name]
	if q == nil {
		q = &queue{name: name, views: map[ID]*view{}, stopAlarm: func() bool { return false }, alarmAt: Never, arrived: Never}
		q.expiring = &partition{queue: q}
		f.partitions[PartitionOf(name, "")] = q.expiring
		f.queues[name] = q
	}
	return q
}

// viewID names a view by its partitions.
func viewID(partitions []int64) (id ID) {
	b := make([]byte, 0, 8*len(partitions))
	for _, l := range partitions {
		b = binary.BigEndian.AppendUint64(b, uint64(l))
	}
	sum := sha256.Sum256(b)
	copy(id[:], sum[:])
	return id
}

// view returns the view of a queue with these partitions, which are ordered.
func (f *Frame) view(name string, id ID, partitions []int64) *view {
	q := f.queue(name)
	if v := q.views[id]; v != nil {
		return v
	}
	f.forgetIdle()
	q = f.queue(name)
	v := &view{id: id, queue: q, ids: partitions, partitions: make([]*partition, 0, len(partitions)+1), picks: map[*pick]bool{}, stale: true}
	for _, number := range partitions {
		l := f.partitions[number]
		if l == nil {
			l = &partition{queue: q}
			f.partitions[number] = l
		}
		v.partitions = append(v.partitions, l)
	}
	v.partitions = append(v.partitions, q.expiring)
	for _, l := range v.partitions {
		l.views = append(l.views, v)
	}
	q.views[id] = v
	return v
}

// keepLanes is how many partitions are remembered at least, whether somebody asks for them or
// not.
const keepLanes = 20_000

// forgetIdle forgets what nobody asks for at the moment, if there is a lot of it. Whoever
// asks for it again looks.
func (f *Frame) forgetIdle() {
	if len(f.partitions) < max(f.laneLimit, keepLanes) {
		return
	}
	used := map[*partition]bool{}
	for name, q := range f.queues {
		for id, v := range q.views {
			if v.users == 0 && !v.stocked() {
				delete(q.views, id)
				continue
			}
			for _, l := range v.partitions {
				used[l] = true
			}
		}
		if len(q.views) == 0 {
			q.stopAlarm()
			delete(f.queues, name)
		}
	}
	for number, l := range f.partitions {
		if !used[l] {
			delete(f.partitions, number)
			continue
		}
		l.views = slices.DeleteFunc(l.views, func(v *view) bool { return v.users == 0 && !v.stocked() })
	}
	f.laneLimit = 2 * len(f.partitions)
}

// soonest returns when there may be something to claim in one of the partitions, or to sweep in
// the queue.
func (f *Frame) soonest(v *view) int64 {
	if v.stale {
		v.next, v.stale = Never, false
		for _, l := range v.partitions {
			if !f.held || l != v.queue.expiring {
				v.next = min(v.next, l.next)
			}
		}
	}
	return v.next
}

// due reports whether there may be something.
func (f *Frame) due(v *view) bool { return f.soonest(v) <= f.now() }

// lower notes that there is something in a partition from a time on.
func (f *Frame) lower(l *partition, at int64) {
	expiring := l == l.queue.expiring
	if expiring {
		l.queue.arrived = min(l.queue.arrived, at)
	}
	for _, v := range l.views {
		for p := range v.picks {
			p.note(l, at)
		}
	}
	if at >= l.next {
		return
	}
	l.next = at
	if expiring && f.held {
		return
	}
	for _, v := range l.views {
		v.next = min(v.next, at)
	}
}

// set notes that there is nothing in a partition before a time.
func (l *partition) set(at int64) {
	if at == l.next {
		return
	}
	l.next = at
	for _, v := range l.views {
		v.stale = true
	}
}

// wanted reports whether somebody waits for the partition.
func (l *partition) wanted() bool {
	return slices.ContainsFunc(l.views, func(v *view) bool { return len(v.waiters) > 0 })
}

// touch notes that there is something to claim in partitions, and has those served who wait
// for it.
func (f *Frame) touch(partitions map[int64]int64) {
	now := f.now()
	for id, at := range partitions {
		l := f.partitions[id]
		if l == nil {
			continue // nobody has asked for it, and who does looks
		}
		f.lower(l, at)
		switch {
		case !l.wanted():
		case at <= now:
			f.serve(l.queue)
		case at < l.queue.alarmAt:
			f.setAlarm(l.queue, at)
		}
	}
}
