package pebblestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/internal/cursor"
	"github.com/abidehq/abide/store"
)

// position is a position in the order of a list: the time of a record, then its number,
// which is unique. A cursor encodes it.
type position struct {
	ms  int64
	num uint64
}

func (a position) less(b position) bool {
	if a.ms != b.ms {
		return a.ms < b.ms
	}
	return a.num < b.num
}

// stream is the records of one tenant and status, or of all tenants but the empty one and
// one status, in the order of their time: one range of an index. A list merges the streams
// of its query.
//
// A query for several statuses is a stream for each. The shared index spans
// tenants, so that a query over all tenants does not cost a stream for each.
type stream struct {
	prefix []byte           // of its index keys
	it     *pebble.Iterator // at the head, or nil if there are too many streams
	head   position         // of its next record
	skip   bool             // by its name sum, the record at the head does not match
	index  int              // in the heap of streams, plus one
}

// lister is a List call.
//
// Up to maxIterators streams have an iterator each, and are merged by a heap, as
// an LSM merges its levels. With more streams one iterator goes from one to the
// other, and seeks for each record: slower, and bounded in memory.
type lister struct {
	scan
	heap      indexed[*stream] // streams with a record left, by its position
	iterators []*pebble.Iterator
	searched  bool     // candidates was called
	limit     int      // of records in the page
	nameSums  []uint32 // of the names that the query is about; nil if it is about all
	err       error    // of a move that failed: the next one would forget it
}

// maxScanned is how many records that do not match a list skips before it returns what it has,
// with a cursor: the time for a page is bounded, even for a query that few records match.
const maxScanned = 32_768

// List returns records that match q. The indexes are by tenant, status and time, and by
// status and time, so a filter by these costs nothing. A filter by name reads few other
// records, because the index has a checksum of the name; tags and a prefix are compared record by
// record, unless few match (see searchAfter).
//
// It reads one view of the database without the mutex. Records of a group that is applied
// and not yet durable may be in a page: a list is not a basis for a claim.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := q.Validate(); err != nil {
		return store.Page{}, err
	}
	at, resume, err := cursor.Parse(&q, 8)
	if err != nil {
		return store.Page{}, err
	}
	release, err := s.read(ctx, "list")
	if err != nil {
		return store.Page{}, err
	}
	defer release()
	var l lister
	if l.scan, err = s.scan(&q); err != nil {
		return store.Page{}, s.readError("list", err)
	}
	var after position
	if resume {
		after = position{at.Millis, at.Number()}
	}
	page, err := s.list(ctx, &l, after, resume)
	if err = l.close(err); err != nil {
		return store.Page{}, s.readError("list", err)
	}
	return page, nil
}

// list fills a page. First it seeks each stream to its first record after the position;
// with few streams, each then gets an iterator of its own at that record. After that it
// takes the least head again and again.
func (s *Store) list(ctx context.Context, l *lister, after position, resume bool) (page store.Page, err error) {
	l.heap = indexed[*stream]{
		slot: func(x *stream) *int { return &x.index },
		less: func(a, b *stream) bool {
			if l.q.Descending {
				return b.head.less(a.head)
			}
			return a.head.less(b.head)
		},
	}
	if !resume {
		after = position{ms: l.from - 1, num: math.MaxUint64}
		if l.q.Descending {
			after = position{ms: l.to}
		}
	}
	for _, name := range l.q.Names {
		l.nameSums = append(l.nameSums, nameSum(name))
	}
	prefixes := l.prefixes()
	for _, prefix := range prefixes {
		l.advance(&stream{prefix: prefix}, after)
	}
	if len(prefixes) <= maxIterators {
		defer func() { err = l.closeStreams(err) }()
		for _, st := range l.heap.items {
			if st.it, err = l.view.NewIter(&pebble.IterOptions{LowerBound: st.prefix, UpperBound: upper(st.prefix)}); err != nil {
				return page, err
			}
			l.iterators = append(l.iterators, st.it)
			key := binary.BigEndian.AppendUint64(slices.Clone(st.prefix), uint64(st.head.ms))
			if !st.it.SeekGE(binary.BigEndian.AppendUint64(key, st.head.num)) {
				return page, errors.Join(st.it.Error(), errLostLocation)
			}
		}
	}
	if l.err != nil {
		return page, l.err
	}
	if l.limit = l.q.Limit; l.limit == 0 {
		l.limit = store.DefaultPage
	}
	size, passed := 0, 0
	for l.heap.len() > 0 {
		st := l.heap.items[0]
		if l.searches(passed, len(page.Records), s.limits.searchAfter) {
			spots, ok, err := l.candidates()
			if err != nil {
				return page, err
			}
			if ok {
				err := s.gather(ctx, l, &page, size, after, spots)
				return page, err
			}
		}
		if len(page.Records) == l.limit || passed == maxScanned {
			page.Next = cursor.Format(l.q, cursor.Numbered(after.ms, after.num))
			return page, nil
		}
		if err := ctx.Err(); err != nil {
			return page, err
		}
		passed++
		if !st.skip {
			rec, err := s.readRecordAt(l.view, st.head.num)
			if err != nil {
				return page, err
			}
			if matches(l.q, &rec) {
				if size += len(rec.Body); size > store.PageBytes && len(page.Records) > 0 {
					page.Next = cursor.Format(l.q, cursor.Numbered(after.ms, after.num))
					return page, nil
				}
				page.Records = append(page.Records, rec)
				passed--
			}
		}
		after = st.head
		if l.advance(st, after); l.err != nil {
			return page, l.err
		}
	}
	return page, nil
}

// prefixes returns the index prefixes of the streams of the query. If it names no statuses,
// they are found by a seek for each stream.
func (l *lister) prefixes() (found [][]byte) {
	roots, streams := l.roots()
	if streams {
		return roots
	}
	for _, root := range roots {
		// Each seek lands on the first record of the next stream.
		for l.it.SeekGE(root); l.it.Valid() && bytes.HasPrefix(l.it.Key(), root); {
			streamPrefix := slices.Clone(l.it.Key()[:len(l.it.Key())-16])
			found = append(found, streamPrefix)
			l.it.SeekGE(upper(streamPrefix))
		}
		l.noteError()
	}
	return found
}

// noteError keeps the first error of the shared iterator: its next move would clear it.
func (l *lister) noteError() {
	if err := l.it.Error(); err != nil && l.err == nil {
		l.err = err
	}
}

// maxIterators is up to how many streams have an iterator of their own. With more, a single
// one seeks for each record, which is slower and takes no more memory.
const maxIterators = 64

// errLostLocation: a key that was found before in the same view is not found.
var errLostLocation = errors.New("pebblestore: an iterator has lost its location")

// closeStreams closes the iterators of streams, and returns their first error, or else err.
func (l *lister) closeStreams(err error) error {
	for _, it := range l.iterators {
		err = closeIter(it, err)
	}
	l.iterators = nil
	return err
}

// advance moves a stream to its first record after a position, in the direction of the
// query, or removes it if it has none.
func (l *lister) advance(st *stream, after position) {
	if st.it != nil {
		var found bool
		if l.q.Descending {
			found = st.it.Prev()
		} else {
			found = st.it.Next()
		}
		if err := st.it.Error(); !found && err != nil && l.err == nil {
			l.err = err
		}
		l.reinsert(st, st.it, found)
		return
	}
	key := binary.BigEndian.AppendUint64(slices.Clone(st.prefix), uint64(max(after.ms, 0)))
	var found bool
	if l.q.Descending {
		found = l.it.SeekLT(binary.BigEndian.AppendUint64(key, after.num))
	} else {
		key = binary.BigEndian.AppendUint64(key, after.num)
		if after.ms < 0 {
			key = slices.Clone(st.prefix)
		}
		found = l.it.SeekGE(key)
		if found && after.ms >= 0 && bytes.Equal(l.it.Key(), key) {
			found = l.it.Next()
		}
	}
	if !found {
		l.noteError()
	}
	l.reinsert(st, l.it, found)
}

// reinsert updates the position of a stream from its iterator, and its place in the heap. It
// removes the stream if the iterator is beyond its end, or beyond the query's range of time.
func (l *lister) reinsert(st *stream, it *pebble.Iterator, found bool) {
	if found && len(it.Key()) == len(st.prefix)+16 && bytes.HasPrefix(it.Key(), st.prefix) {
		k := it.Key()[len(st.prefix):]
		st.head = position{ms: int64(binary.BigEndian.Uint64(k)), num: binary.BigEndian.Uint64(k[8:])}
		st.skip = false
		if sum := it.Value(); l.nameSums != nil && len(sum) == 4 {
			st.skip = !slices.Contains(l.nameSums, binary.BigEndian.Uint32(sum))
		}
		if st.head.ms >= l.from && st.head.ms < l.to {
			l.heap.push(st)
			return
		}
	}
	l.heap.remove(st)
}
