package rows

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/abidehq/abide/store"
)

// awaiter is an Await call that waits.
type awaiter struct {
	key   store.RecordKey
	after int64
	wake  chan struct{} // with room for one

	// What a commit of this process made of the record; news is false if it is to be read.
	news   bool
	record *store.Record // nil if it was deleted; others have it too
}

func (a *awaiter) call() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Await returns a record as soon as its version is greater than after.
func (f *Frame) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	if err := store.ValidateAwait(key, after); err != nil {
		return store.Record{}, err
	}
	if err := f.Check(ctx, "await"); err != nil {
		return store.Record{}, err
	}
	a, number := &awaiter{key: key, after: after, wake: make(chan struct{}, 1)}, RecordOf(key)
	known := f.addAwaiter(number, a, after)
	defer f.removeAwaiter(number, a)
	for {
		if !known {
			r, err := f.db.Record(ctx, key)
			switch {
			case err == nil && r.Version > after:
				return r, nil
			case errors.Is(err, store.ErrNotFound) && after > 0:
				return store.Record{}, store.NotFound("await", key)
			case err != nil && !errors.Is(err, store.ErrNotFound):
				if closed := f.Check(ctx, "await"); closed != nil {
					return store.Record{}, closed
				}
				return store.Record{}, err
			}
		}
		select {
		case <-a.wake:
		case <-ctx.Done():
			return store.Record{}, ctx.Err()
		case <-f.closing:
			return store.Record{}, store.Closed("await")
		}
		f.mu.Lock()
		record, news := a.record, a.news
		a.record, a.news = nil, false
		f.mu.Unlock()
		switch {
		case news && record == nil && after > 0:
			return store.Record{}, store.NotFound("await", key)
		case news && record != nil && record.Version > after:
			return copyRecord(record), nil
		}
		known = news
	}
}

// addAwaiter notes that somebody awaits a record. It reports whether the record is known
// to have had that version a moment ago, and hints tell of the next: then nothing is to
// be read.
func (f *Frame) addAwaiter(number int64, a *awaiter, after int64) bool {
	hinted := f.db.Hinted()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.awaiters[number] == nil {
		f.awaiters[number] = map[*awaiter]bool{}
	}
	f.awaiters[number][a] = true
	f.poll()
	version, ok := f.recent.version(number)
	return ok && hinted && version == after
}

func (f *Frame) removeAwaiter(number int64, a *awaiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.awaiters[number], a)
	if len(f.awaiters[number]) == 0 {
		delete(f.awaiters, number)
	}
}

// change is a record that a group changed; work is nil if what became of it is not known.
type change struct {
	key    store.RecordKey
	number int64
	work   *recordWork
}

// recordChanged tells those who await a record what a commit made of it. No other group of
// this process that is under way touches the record, unless it is not known what became of
// it: then one may have changed it before or after, and does not know.
func (f *Frame) recordChanged(c *change) {
	if c.work == nil {
		for g := range f.groups {
			g.doubts[c.number] = true
		}
		f.recent.forget(c.number)
	} else {
		f.recent.note(c.number, c.work.version)
	}
	for a := range f.awaiters[c.number] {
		if a.key != c.key {
			continue
		}
		a.news, a.record = c.work != nil, nil
		if c.work != nil && c.work.version > 0 {
			a.record = c.work.record
		}
		a.call()
	}
}

// wakeAwaiters has those read who await a record with that number, and forgets what is
// known of it.
func (f *Frame) wakeAwaiters(number int64) {
	f.recent.forget(number)
	for a := range f.awaiters[number] {
		a.news, a.record = false, nil
		a.call()
	}
}

// lookAtRecordsSoon has all awaited records looked at, from now on: once more, if they are
// being looked at.
func (f *Frame) lookAtRecordsSoon() {
	if len(f.awaiters) == 0 {
		return
	}
	if f.lookAgain = f.lookingAt; f.lookingAt {
		return
	}
	f.lookingAt = true
	f.tasks.Go(func() {
		for again := true; again; {
			f.lookAtRecords()
			f.mu.Lock()
			again = f.lookAgain && !f.closed
			f.lookingAt, f.lookAgain = again, false
			f.mu.Unlock()
		}
	})
}

// versionsAtOnce is how many records are asked for in one query.
const versionsAtOnce = 5000

// lookAtRecords finds out which of the records that somebody awaits have changed, a few
// thousand in a query, and has those read who await them.
func (f *Frame) lookAtRecords() {
	f.mu.Lock()
	awaited := map[store.RecordKey]bool{}
	for _, list := range f.awaiters {
		for a := range list {
			awaited[a.key] = true
		}
	}
	f.mu.Unlock()
	for keys := range slices.Chunk(slices.Collect(maps.Keys(awaited)), versionsAtOnce) {
		versions, err := f.db.Versions(f.looking, keys)
		f.mu.Lock()
		for i, key := range keys {
			number := RecordOf(key)
			if err != nil { // those who await it find out for themselves what is wrong
				f.wakeAwaiters(number)
				continue
			}
			f.foundVersion(key, number, versions[i])
		}
		f.mu.Unlock()
	}
}

// foundVersion has those read a record to whom the version that was found is news: it is
// later than the one that they have, or the record is gone. By now there may be a later one
// still, of a commit of this process, which has told of it.
func (f *Frame) foundVersion(key store.RecordKey, number, version int64) {
	if known, ok := f.recent.version(number); ok && known != version {
		f.recent.forget(number)
	}
	for a := range f.awaiters[number] {
		if a.key == key && (version > a.after || version == 0 && a.after > 0) {
			a.news, a.record = false, nil
			a.call()
		}
	}
}

// recent remembers the versions of the records that this process put last, by their
// numbers.
type recent struct {
	now, before map[int64]int64
}

// recentSize is how many records are remembered, at least.
const recentSize = 8192

func newRecent() *recent { return &recent{now: map[int64]int64{}} }

func (r *recent) note(number, version int64) {
	if len(r.now) >= recentSize {
		r.now, r.before = map[int64]int64{}, r.now
	}
	r.now[number] = version
}

func (r *recent) forget(number int64) {
	delete(r.now, number)
	delete(r.before, number)
}

func (r *recent) version(number int64) (int64, bool) {
	if v, ok := r.now[number]; ok {
		return v, true
	}
	v, ok := r.before[number]
	return v, ok
}
