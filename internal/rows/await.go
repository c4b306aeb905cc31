package rows

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/abidehq/abide/store"
)

// awaiter is an Await call that waits.
type awaiter struct {
	wake chan struct{} // with room for one

	// What a commit of this process made of the record; news is false if it is to be read.
	news   bool
	record *store.Record // nil if it was deleted
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
	a := &awaiter{wake: make(chan struct{}, 1)}
	known := f.addAwaiter(key, a, after)
	defer f.removeAwaiter(key, a)
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
			return *record, nil
		}
		known = news
	}
}

// addAwaiter notes that somebody awaits a record. It reports whether the record is known
// to have had that version a moment ago, and hints tell of the next: then nothing is to
// be read.
func (f *Frame) addAwaiter(key store.RecordKey, a *awaiter, after int64) bool {
	hinted := f.db.Hinted()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.awaiters[key] = append(f.awaiters[key], a)
	n := RecordOf(key)
	if f.numbers[n] == nil {
		f.numbers[n] = map[store.RecordKey]bool{}
	}
	f.numbers[n][key] = true
	f.poll()
	version, ok := f.recent.version(key)
	return ok && hinted && version == after
}

func (f *Frame) removeAwaiter(key store.RecordKey, a *awaiter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.awaiters[key]
	if i := slices.Index(all, a); i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	if len(all) > 0 {
		f.awaiters[key] = all
		return
	}
	delete(f.awaiters, key)
	n := RecordOf(key)
	delete(f.numbers[n], key)
	if len(f.numbers[n]) == 0 {
		delete(f.numbers, n)
	}
}

// recordChanged tells those who await a record what a commit made of it; r is nil if that
// is not known.
func (f *Frame) recordChanged(key store.RecordKey, r *recordWork) {
	if r == nil {
		f.recent.forget(key)
	} else {
		f.recent.note(key, r.version)
	}
	for _, a := range f.awaiters[key] {
		a.news, a.record = r != nil, nil
		if r != nil && r.record != nil && r.version > 0 {
			record := *r.record
			record.Tags, record.Body = maps.Clone(record.Tags), bytes.Clone(record.Body)
			a.record = &record
		}
		a.call()
	}
}

// recent remembers the versions of the records that this process put last.
type recent struct {
	now, before map[store.RecordKey]int64
}

// recentSize is how many records are remembered, at least.
const recentSize = 8192

func newRecent() *recent { return &recent{now: map[store.RecordKey]int64{}} }

func (r *recent) note(key store.RecordKey, version int64) {
	if len(r.now) >= recentSize {
		r.now, r.before = map[store.RecordKey]int64{}, r.now
	}
	r.now[key] = version
}

func (r *recent) forget(key store.RecordKey) {
	delete(r.now, key)
	delete(r.before, key)
}

func (r *recent) version(key store.RecordKey) (int64, bool) {
	if v, ok := r.now[key]; ok {
		return v, true
	}
	v, ok := r.before[key]
	return v, ok
}
