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

// position is the position of a reader in the ring. A reader without a cursor gets changes from the call on, and
// since tells these from changes that were committed before and looked up after. A reader that resumes after
// a cursor may get a change twice, and misses none.
type position struct {
	// next is the number of the change to read next.
	next uint64

	// since is the number of the last mark before the reader subscribed: changes that were marked
	// no later are not for it. After a cursor it is unknown, and resumed is true.
	since   uint64
	resumed bool
}

// wants reports whether a change is for the reader. A reader that resumes after a cursor may get a
// change twice rather than miss one.
func (p *position) wants(t *published) bool {
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
				f.readMarked(ctx)
			case <-ctx.Done():
			}
		}
	}
}

// begin returns the position of a reader after a cursor, or at the end without one. A cursor of
// another feed, or of another process, gives position 0, which no change has: the reader gets
// ErrMissed.
func (f *feed) begin(after string) position {
	f.mu.Lock()
	defer f.mu.Unlock()
	if after == "" {
		if f.ended == nil {
			f.on.Store(true)
		}
		f.since = f.marks
		return position{next: f.ring.next(), since: f.marks}
	}
	epoch, number, _ := strings.Cut(after, "-")
	n, err := strconv.ParseUint(number, 36, 64)
	if epoch != f.epoch || err != nil || n >= f.ring.next() {
		return position{}
	}
	return position{next: n + 1, resumed: true}
}

// join adds n to the number of readers. Without readers, nothing is marked once the marks overflow.
func (f *feed) join(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers += n
}

// take returns the changes at a position, at most feedBatch, and advances it. At the end of the ring
// it also returns a channel that is closed when there are more.
func (f *feed) take(at *position) (changes []Change, news <-chan struct{}, err error) {
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

// readMarked reads a batch of marked instances, and publishes their state to all readers. One reader does
// so at a time, so that of two reads of an instance the later one is published later. mu is not held while the
// store is read: marks that are made meanwhile are for the next batch.
func (f *feed) readMarked(ctx context.Context) {
	f.mu.Lock()
	if f.reading {
		f.mu.Unlock()
		return
	}
	f.reading = true
	batch := f.marked.take(feedBatch)
	f.mu.Unlock()

	found := make([]published, 0, len(batch))
	var err error
	for _, m := range batch {
		var t published
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
	f.reading = false
	f.requestRead()
}

// find reads the record of a marked instance. A missing record is a deletion.
func (f *feed) find(ctx context.Context, m marked) (published, error) {
	t := published{Change: Change{Ref: m.Ref, At: m.at}, mark: m.number, unborn: m.unborn}
	r, err := f.Store.Get(ctx, m.Ref.record())
	if errors.Is(err, store.ErrNotFound) {
		t.Deleted = true
		return t, nil
	}
	if err != nil {
		return t, err
	}
	t.Name, t.Status, t.Revision = r.Name, Status(r.Status), r.Version
	if info, err := infoOf(r); err == nil { // its turn reports a record that cannot be read
		t.Version, t.run = info.Version, info.run
	}
	return t, nil
}

// publish adds what was found to the ring, unless readers have seen it, and marks those instances
// again that were not read.
func (f *feed) publish(found []published, left []marked) {
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
