package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/internal/cursor"
	"github.com/abidehq/abide/store"
)

// A list with a prefix or tags that few records match would pass over nearly all of them. The names
// of records are in order, and the index of terms has a key for each tag of a record: so after
// searchAfter records of which hardly any matched, the list gathers those that may match from these,
// and sorts them, if there are searchMost at most. If there are more, records that match
// are near each other in time, and the list goes on as before.
const (
	searchAfter = 1024
	searchMost  = 8192

	// searchSeeks is how many ranges of names are read for a prefix: one for each tenant and each
	// length of an ID.
	searchSeeks = 512
)

// termsOf returns the hashes under which the tags of a record are in the index of terms: sorted, each
// once. Two tags may share one: what is found by it is compared.
func termsOf(tags map[string]string) []uint64 {
	if len(tags) == 0 {
		return nil
	}
	terms := make([]uint64, 0, len(tags))
	for name, value := range tags {
		terms = append(terms, termOf(name, value))
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

func termOf(name, value string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(append(appendString(nil, name), value...)) // it never fails
	return h.Sum64()
}

// termPrefix returns the part of a key of the index of terms that is before the time.
func termPrefix(b []byte, kind string, term uint64) []byte {
	b = appendString(append(b, tagTerm), kind)
	return binary.BigEndian.AppendUint64(b, term)
}

func termKey(b []byte, kind string, term uint64, ms int64, num uint64) []byte {
	b = binary.BigEndian.AppendUint64(termPrefix(b, kind, term), uint64(ms))
	return binary.BigEndian.AppendUint64(b, num)
}

// setTerms brings the index of terms to what the tags and the time of a record are now. ms is the time
// that is in the index.
func (s *Store) setTerms(g *group, kind string, r *recordState, ms int64, terms []uint64) {
	moved := ms != r.ms
	if !moved && slices.Equal(r.terms, terms) {
		return
	}
	for _, term := range r.terms {
		if _, kept := slices.BinarySearch(terms, term); moved || !kept {
			s.keyBuf = termKey(s.keyBuf[:0], kind, term, ms, r.num)
			_ = g.batch.Delete(s.keyBuf, nil)
		}
	}
	for _, term := range terms {
		if _, known := slices.BinarySearch(r.terms, term); moved || !known {
			s.keyBuf = termKey(s.keyBuf[:0], kind, term, r.ms, r.num)
			_ = g.batch.Set(s.keyBuf, nil, nil)
		}
	}
	r.terms = terms
}

// searches reports whether to gather, now that so many records did not match and so many did.
func (l *lister) searches(passed, found, after int) bool {
	if l.searched || passed < after || found*100 > passed && after > 0 || found == l.limit || l.q.Prefix == "" && len(l.q.Tags) == 0 {
		return false
	}
	l.searched = true
	return true
}

// candidates returns the positions of all records that may match, or false if there are too many.
func (l *lister) candidates() (spots []position, ok bool, err error) {
	it, err := l.view.NewIter(&pebble.IterOptions{LowerBound: []byte{tagName}, UpperBound: []byte{tagTerm + 1}})
	if err != nil {
		return nil, false, err
	}
	defer func() { err = closeIter(it, err) }()
	if l.q.Prefix != "" {
		spots, ok = l.named(it)
	}
	for name, value := range l.q.Tags {
		found, complete := tagged(it, termPrefix(nil, l.q.Kind, termOf(name, value)))
		switch {
		case !complete:
		case !ok:
			spots, ok = found, true
		default:
			known := make(map[uint64]bool, len(spots))
			for _, spot := range spots {
				known[spot.num] = true
			}
			spots = slices.DeleteFunc(found, func(spot position) bool { return !known[spot.num] })
		}
	}
	return spots, ok, it.Error()
}

// tagged returns what is under a prefix of the index of terms.
func tagged(it *pebble.Iterator, prefix []byte) (spots []position, complete bool) {
	for found := it.SeekGE(prefix); found && bytes.HasPrefix(it.Key(), prefix); found = it.Next() {
		if len(spots) == searchMost {
			return nil, false
		}
		at := it.Key()[len(prefix):]
		spots = append(spots, position{int64(binary.BigEndian.Uint64(at)), binary.BigEndian.Uint64(at[8:])})
	}
	return spots, it.Error() == nil
}

// unknownTime is the time of a record that was found by its name.
const unknownTime = -1

// named returns the records, without their times, whose ID begins with the prefix. Names have the lengths of
// tenant and ID before them: so there is a range for each tenant and each length of an ID.
func (l *lister) named(it *pebble.Iterator) (spots []position, complete bool) {
	root := appendString([]byte{tagName}, l.q.Kind)
	if l.q.Tenant != nil {
		root = appendString(root, *l.q.Tenant)
	}
	found := it.SeekGE(root)
	for seeks := 0; found && bytes.HasPrefix(it.Key(), root); seeks++ {
		if seeks == searchSeeks {
			return nil, false
		}
		// The key that was found is of the tenant and the length to read next.
		base, r := len(root), reader{b: it.Key()[len(root):]}
		if l.q.Tenant == nil {
			r.string()
			base = len(it.Key()) - len(r.b)
		}
		length := r.uvarint()
		if r.err != nil {
			return nil, false
		}
		head := slices.Clone(it.Key()[:base]) // up to the length
		if length < uint64(len(l.q.Prefix)) {
			found = it.SeekGE(binary.AppendUvarint(head, uint64(len(l.q.Prefix))))
			continue
		}
		of := binary.AppendUvarint(slices.Clone(head), length)
		prefix := append(slices.Clone(of), l.q.Prefix...)
		for found = it.SeekGE(prefix); found && bytes.HasPrefix(it.Key(), prefix); found = it.Next() {
			if len(spots) == searchMost || len(it.Value()) != 8 {
				return nil, false
			}
			spots = append(spots, position{unknownTime, binary.BigEndian.Uint64(it.Value())})
		}
		if found && bytes.HasPrefix(it.Key(), of) {
			found = it.SeekGE(upper(of))
		}
	}
	return spots, it.Error() == nil
}

// gather fills the page with those of the candidates that match and come after a position.
func (s *Store) gather(ctx context.Context, l *lister, page *store.Page, size int, after position, spots []position) error {
	for i := range spots {
		if spots[i].ms != unknownTime {
			continue
		}
		rec, err := s.readRecordAt(l.view, spots[i].num)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		spots[i].ms = rec.Time.UnixMilli()
	}
	spots = slices.DeleteFunc(spots, func(spot position) bool {
		return spot.ms < l.from || spot.ms >= l.to || !l.comesAfter(spot, after)
	})
	slices.SortFunc(spots, func(a, b position) int {
		if l.comesAfter(a, b) {
			return 1
		}
		return -1 // no two are the same
	})
	for _, spot := range spots {
		rec, err := s.readRecordAt(l.view, spot.num)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if !l.selects(&rec) {
			continue
		}
		size += len(rec.Body)
		if len(page.Records) == l.limit || size > store.PageBytes && len(page.Records) > 0 {
			page.Next = cursor.Format(l.q, cursor.Numbered(after.ms, after.num))
			return nil
		}
		page.Records = append(page.Records, rec)
		after = spot
	}
	return nil
}

// comesAfter reports whether a position is after another one in the list.
func (l *lister) comesAfter(a, b position) bool {
	if l.q.Descending {
		return a.less(b)
	}
	return b.less(a)
}

// selects reports whether a record of a time that the query is about is one that it is about.
func (l *lister) selects(r *store.Record) bool {
	return r.Key.Kind == l.q.Kind && (l.q.Tenant == nil || *l.q.Tenant == r.Key.Tenant) &&
		(len(l.q.Statuses) == 0 || slices.Contains(l.q.Statuses, r.Status)) && matches(l.q, r)
}
