package engine

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// Changes returns the instances that change by what this engine commits, after a cursor
// or, if that is empty, from the call on. It goes on until ctx ends, which is no error.
// [ErrMissed] comes last if changes were missed, and [ErrStopping] when the engine is
// closed.
func (e *Engine) Changes(ctx context.Context, after string) iter.Seq2[Change, error] {
	return e.feed.read(ctx, after)
}

// place is the position of a reader in the ring. A reader without a cursor gets changes from the call on, and
// since tells these from changes that were committed before and looked up after. A reader that resumes after
// a cursor may get a change twice, and misses none.
type place struct {
	next    uint64 // the number of the change to read next
	since   uint64 // what was marked no later is not for the reader
	resumed bool   // since is not known any more
}

// wants reports whether a change is for the reader. One that goes on after a cursor gets
// what it may know rather than miss what it may not know.
func (p *place) wants(t *told) bool {
	return p.resumed || (p.since < t.mark && p.since >= t.known)
}

func (f *feed) read(ctx context.Context, after string) iter.Seq2[Change, error] {
	begin := f.begin(after)
	return func(yield func(Change, error) bool) {
		f.join(1)
		defer f.join(-1)
		at := begin
		for ctx.Err() == nil {
			changes, news, err := f.take(&at)
			if err != nil {
				yield(Change{}, err)
				return
			}
			for i := range changes {
				if !yield(changes[i], nil) {
					return
				}
				if ctx.Err() != nil {
					return
				}
			}
			if news == nil {
				continue // there is more
			}
			select {
			case <-news:
			case <-f.work:
				f.look(ctx)
			case <-ctx.Done():
			}
		}
	}
}

// begin returns where a reader begins who has read up to a cursor. What is not a cursor
// of this feed is 0, which no change has as its number.
func (f *feed) begin(after string) place {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after == "" {
		if f.ended == nil {
			f.on.Store(true)
		}
		f.since = f.marks
		return place{next: f.ring.next(), since: f.marks}
	}
	epoch, number, _ := strings.Cut(after, "-")
	n, err := strconv.ParseUint(number, 36, 64)
	if epoch != f.epoch || err != nil || n >= f.ring.next() {
		return place{}
	}
	return place{next: n + 1, resumed: true}
}

// join counts readers.
func (f *feed) join(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers += n
}

// take returns what there is to read next. If that is all, it also returns what is closed
// when there is more.
func (f *feed) take(at *place) (changes []Change, news <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ended != nil:
		return nil, nil, f.ended
	case at.next < f.ring.first:
		return nil, nil, ErrMissed
	}
	list := f.ring.list[at.next-f.ring.first:]
	list = list[:min(len(list), feedBatch)]
	for i := range list {
		if at.wants(&list[i]) {
			changes = append(changes, list[i].Change)
		}
	}
	at.next += uint64(len(list))
	if at.next == f.ring.next() {
		news = f.news
	}
	return changes, news, nil
}

// look looks up a batch of marked instances, and publishes what it finds to all readers. One reader does so
// at a time, so that of two looks at an instance the later one is published later. mu is not held while the
// store is read: marks that are made meanwhile are for the next look.
func (f *feed) look(ctx context.Context) {
	f.mu.Lock()
	if f.looking {
		f.mu.Unlock()
		return
	}
	f.looking = true
	batch := f.marked.take(feedBatch)
	f.mu.Unlock()

	found := make([]told, 0, len(batch))
	var err error
	for _, m := range batch {
		var t told
		if t, err = f.find(ctx, m); err != nil {
			break
		}
		found = append(found, t)
	}
	f.publish(found, batch[len(found):])
	if errors.Is(err, store.ErrClosed) {
		f.end(wrap("changes", err))
	} else if err != nil {
		_ = base.Sleep(ctx, f.clock, feedPause)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looking = false
	f.requestRead()
}

// find looks at an instance.
func (f *feed) find(ctx context.Context, m marked) (told, error) {
	t := told{Change: Change{Ref: m.Ref, At: m.at}, mark: m.number, unborn: m.unborn}
	r, err := f.Store.Get(ctx, m.Ref.record())
	if errors.Is(err, store.ErrNotFound) {
		t.Deleted = true
		return t, nil
	}
	if err != nil {
		return t, err
	}
	t.Name, t.Status, t.Revision = r.Name, Status(r.Status), r.Version
	if info, err := infoOf(r); err == nil { // or somebody else will say that it cannot be read
		t.Version, t.run = info.Version, info.run
	}
	return t, nil
}

// publish tells readers what was found, unless they know, and marks once more what was not
// looked at.
func (f *feed) publish(found []told, left []marked) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended != nil {
		return
	}
	next := f.ring.next()
	for i := range found {
		t := &found[i]
		before := f.ring.latest(t.Ref)
		if before == nil && t.Deleted && t.unborn {
			continue
		}
		if before != nil && before.same(t) {
			if f.since < before.mark {
				continue
			}
			t.known = before.mark // for a reader who came after that, and was not told
		}
		t.Cursor = f.cursor(f.ring.next())
		f.ring.add(*t, f.changes, f.bytes)
	}
	if f.ring.next() > next {
		f.wakeReaders()
	}
	for _, m := range left {
		f.marked.add(m.Ref, m.mark)
	}
}
