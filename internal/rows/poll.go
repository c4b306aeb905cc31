package rows

import (
	"maps"
	"slices"
	"time"
)

// Hint is how the backend tells that another process announced something. Without lanes
// and records it says that anything may have happened: after a connection was lost, say.
func (f *Frame) Hint(lanes map[int64]int64, records []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	if len(lanes) == 0 && len(records) == 0 {
		lanes = map[int64]int64{}
		for id := range f.lanes {
			lanes[id] = 0
		}
		for number := range f.numbers {
			records = append(records, number)
		}
	}
	f.touch(lanes)
	for _, number := range records {
		for key := range f.numbers[number] {
			f.recent.forget(key)
			for _, a := range f.awaiters[key] {
				a.call()
			}
		}
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

func (f *Frame) pollLater() {
	gap := min(f.pollGap, f.o.PollUnhinted)
	if f.db.Hinted() {
		gap = f.o.Poll
	}
	f.clock.AfterFunc(gap, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.closed || !f.somebodyWaits() {
			f.polling = false
			return
		}
		f.tasks.Add(1)
		go func() {
			defer f.tasks.Done()
			f.pollOnce()
		}()
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
	}
	return false
}

// pollOnce looks at all lanes that somebody waits for, in one query, and has awaited
// records read again.
func (f *Frame) pollOnce() {
	f.mu.Lock()
	ids := map[int64]bool{}
	for _, q := range f.queues {
		if q.waiting > 0 {
			ids[LaneOf(q.name, "")] = true
		}
		for _, w := range q.waiters {
			for _, id := range w.lanes {
				ids[id] = true
			}
		}
	}
	for key, all := range f.awaiters {
		f.recent.forget(key)
		for _, a := range all {
			a.call()
		}
	}
	f.mu.Unlock()

	lanes := slices.Sorted(maps.Keys(ids))
	found := map[int64]int64{}
	if len(lanes) > 0 {
		now, at, err := f.db.Look(f.ctx, lanes)
		f.mu.Lock()
		if err == nil {
			f.observe(now)
			for i, id := range lanes {
				if l := f.lanes[id]; l != nil && at[i] < l.next {
					found[id] = at[i]
				}
			}
		}
		f.mu.Unlock()
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.pollGap = min(2*f.pollGap, f.o.PollUnhinted)
	if len(found) > 0 {
		f.pollGap = firstPoll
		f.touch(found)
	}
	f.pollLater()
}
