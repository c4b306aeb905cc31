package redisstore

import (
	"cmp"
	"context"
	"strings"

	"github.com/abidehq/abide/store"
)

// A list of all tenants merges the lists of the segments. All go by time and then by tenant and
// ID, so a position in the merged list is a position in each of them, and the cursor of a page is
// a single position: whatever is after it in a segment has not been returned.

// stream is the list of one segment, of which some records have been read ahead.
type stream struct {
	segment   *segment
	records   []store.Record // read, and not yet returned
	positions []position
	after     position // how far was read
	more      bool     // the segment has more after that
}

// mergedList merges the lists of segments into a page.
type mergedList struct {
	store   *Store
	query   *store.Query
	streams []*stream
	limit   int
	passed  int // records that were read
	size    int // bytes of the bodies of the page
	page    store.Page
	last    position // of the last record of the page
}

// mergedPage returns a page of the records of all segments.
func (s *Store) mergedPage(ctx context.Context, q *store.Query, after position, limit int) (store.Page, error) {
	m := mergedList{store: s, query: q, limit: limit, last: after}
	for _, seg := range s.segments {
		m.streams = append(m.streams, &stream{segment: seg, after: after, more: true})
	}
	for {
		empty := m.empty()
		if len(empty) > 0 && len(m.page.Records) == limit {
			m.page.Next = formatCursor(q, m.last)
			return m.page, nil
		}
		if len(empty) > 0 && m.passed < maxScanned {
			if err := m.fill(ctx, empty); err != nil {
				return store.Page{}, err
			}
			continue
		}
		// All that is before the earliest of what was read is known.
		bound := position{}
		for _, st := range empty {
			if !bound.set || m.before(st.after, bound) {
				bound = st.after
			}
		}
		full := m.take(bound)
		switch {
		case full:
			m.page.Next = formatCursor(q, m.last)
			return m.page, nil
		case bound.set: // it has read as much as it may
			m.page.Next = formatCursor(q, bound)
			return m.page, nil
		case len(m.empty()) == 0:
			return m.page, nil // there is nothing left
		}
	}
}

// empty returns the streams whose next record is not known.
func (m *mergedList) empty() (list []*stream) {
	for _, st := range m.streams {
		if len(st.records) == 0 && st.more {
			list = append(list, st)
		}
	}
	return list
}

// fill reads on in streams, concurrently, a share of the page in each.
func (m *mergedList) fill(ctx context.Context, list []*stream) error {
	n := len(m.streams)
	share := min(m.limit-len(m.page.Records), max(8, 2*m.limit/n))
	budget := max(1, min(scanBatch, (maxScanned-m.passed)/len(list)))
	segments := make([]*segment, len(list))
	for i, st := range list {
		segments[i] = st.segment
	}
	read := make([]int, len(list))
	errs := forEach(segments, func(i int, seg *segment) error {
		st := list[i]
		w, err := m.store.walk(ctx, seg, "list", m.query, st.after, share, budget, store.PageBytes/n)
		st.records, st.positions, st.after, st.more = w.records, w.positions, w.after, w.more
		read[i] = w.scanned
		return err
	})
	for i, err := range errs {
		if err != nil {
			return m.store.nameSegment(segments[i].index, err)
		}
		m.passed += read[i]
	}
	return nil
}

// take moves records from the streams to the page, in order, up to bound if that is set, and
// until a stream has to be read on. It reports whether the page is full.
func (m *mergedList) take(bound position) (full bool) {
	for {
		var next *stream
		for _, st := range m.streams {
			switch {
			case len(st.records) == 0 && st.more && !bound.set:
				return false
			case len(st.records) == 0:
			case next == nil || m.before(st.positions[0], next.positions[0]):
				next = st
			}
		}
		if next == nil || bound.set && m.before(bound, next.positions[0]) {
			return false
		}
		body := len(next.records[0].Body)
		if len(m.page.Records) == m.limit || m.size+body > store.PageBytes && len(m.page.Records) > 0 {
			return true
		}
		m.size += body
		m.page.Records = append(m.page.Records, next.records[0])
		m.last = next.positions[0]
		next.records, next.positions = next.records[1:], next.positions[1:]
	}
}

// before reports whether a position comes before another in the order of the list.
func (m *mergedList) before(a, b position) bool {
	order := cmp.Or(cmp.Compare(a.ms, b.ms), strings.Compare(a.tie, b.tie))
	if m.query.Descending {
		return order > 0
	}
	return order < 0
}
