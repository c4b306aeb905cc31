package rows

import (
	"maps"
	"slices"
	"time"
)

// Hint is how the backend tells that another process announced something. Without partitions
// and records it says that anything may have happened: after a connection was lost, say,
// or when hints do not arrive any more.
func (f *Frame) Hint(partitions map[int64]int64, records []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	if len(partitions) == 0 && len(records) == 0 {
		f.hintAll()
		return
	}
	f.touch(partitions)
	for _, number := range records {
		for g := range f.groups {
			g.doubts[number] = true
		}
		f.wakeAwaiters(number)
	}
}

func (f *Frame) hintAll() {
	for g := range f.groups {
		g.doubted = true
	}
	partitions := make(map[int64]int64, len(f.partitions))
	for id := range f.partitions {
		partitions[id] = 0
	}
	f.touch(partitions)
	f.recent = newRecent()
	f.lookAtRecordsSoon()
	if f.polling && !f.db.Hinted() {
		f.pollGap = firstPoll
		f.pollLater() // sooner than while there were hints
	}
}

// firstPoll is how soon the frame looks for what nobody told it of, while no hints arrive.
const firstPoll = 50 * time.Millisecond

// poll sees to it that the database is looked at now and then while somebody waits: a hint
// may be lost, and none comes of what is left by a process that died.
func (f *Frame) poll() {
	if f.polling {
		return
	}
	f.polling = true
	f.pollGap = firstPoll
	f.pollLater()
}

// pollLater sets the time of the next poll, instead of the one that was set before.
func (f *Frame) pollLater() {
	f.pollStop()
	f.pollAt++
	at := f.pollAt
	gap := min(f.pollGap, f.o.PollUnhinted)
	if f.db.Hinted() {
		gap = f.o.Poll
	}
	f.pollStop = f.clock.AfterFunc(gap, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case f.closed || at != f.pollAt:
		case f.somebodyWaits():
			f.tasks.Go(func() { f.pollOnce(at) })
		default:
			f.polling = false
		}
	})
}

func (f *Frame) somebodyWaits() bool {
	if len(f.awaiters) > 0 {
		return true
	}
	for _, q := range f.queues {
		if q.waiting > 0 {
			return true
		}
		for _, v := range q.views {
			if f.asks(v) {
				return true
			}
		}
	}
	return false
}

// pollOnce looks at all partitions that somebody waits for, in one query, and at all records that
// somebody awaits, in another.
func (f *Frame) pollOnce(at uint64) {
	f.mu.Lock()
	f.looks++
	look := f.looks
	var views []*view
	ids := map[int64]bool{}
	for _, q := range f.queues {
		for _, v := range q.views {
			if len(v.waiters) == 0 && !f.asks(v) {
				continue
			}
			views = append(views, v)
			ids[PartitionOf(q.name, "")] = true
			for _, id := range v.ids {
				ids[id] = true
			}
		}
	}
	f.mu.Unlock()
	f.lookAtRecords()
	found := f.lookAt(slices.Sorted(maps.Keys(ids)), views, look)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || at != f.pollAt {
		return
	}
	f.pollGap = min(2*f.pollGap, f.o.PollUnhinted)
	if found {
		f.pollGap = firstPoll
	}
	f.pollLater()
}

// lookAt looks at partitions, and reports whether there is something sooner than was known.
func (f *Frame) lookAt(partitions []int64, views []*view, look uint64) bool {
	if len(partitions) == 0 {
		return false
	}
	q := f.question()
	now, at, err := f.db.Look(f.looking, partitions)
	if err != nil {
		return false // those who wait do so until it can be looked again
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.observe(q, now)
	found := map[int64]int64{}
	for i, id := range partitions {
		if l := f.partitions[id]; l != nil && at[i] < l.next {
			found[id] = at[i]
		}
	}
	f.touch(found)
	for _, v := range views {
		v.looked = max(v.looked, look)
	}
	return len(found) > 0
}
