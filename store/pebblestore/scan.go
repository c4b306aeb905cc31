package pebblestore

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// scan is the read side of a query: the index, and the records where the index is not enough,
// in one view of the database.
//
// All of a page is read from one view, so that an index key and its record agree.
// Pages are read from different views: a record that changes between them may be seen at
// its old position in the list, at its new one, at both or at neither.
type scan struct {
	q        *store.Query
	view     view
	it       *pebble.Iterator // over the indexes
	from, to int64            // bounds of the time: from <= ms < to
}

func (s *Store) scan(q *store.Query) (scan, error) {
	sc := scan{q: q, to: math.MaxInt64}
	if !q.From.IsZero() {
		sc.from = store.Millis(q.From)
	}
	if !q.To.IsZero() {
		sc.to = store.Millis(q.To)
	}
	var err error
	if sc.view, err = s.view(); err != nil {
		return sc, err
	}
	sc.it, err = sc.view.NewIter(&pebble.IterOptions{LowerBound: []byte{tagIndex}, UpperBound: []byte{tagShared + 1}})
	if err != nil {
		sc.view.close()
	}
	return sc, err
}

// close ends the scan, and returns the error of its last move, or else err.
func (sc *scan) close(err error) error {
	err = closeIter(sc.it, err)
	sc.view.close()
	return err
}

// roots returns the index prefixes, in their order, of all records that the query may match:
// those of its streams if it names statuses, or else prefixes that cover all streams.
// A query over all tenants reads the shared index and the index of the empty tenant.
func (sc *scan) roots() (roots [][]byte, streams bool) {
	kind := func(tag byte) []byte { return appendString([]byte{tag}, sc.q.Kind) }
	if sc.q.Tenant != nil {
		roots = [][]byte{appendString(kind(tagIndex), *sc.q.Tenant)}
	} else {
		roots = [][]byte{appendString(kind(tagIndex), ""), kind(tagShared)}
	}
	if len(sc.q.Statuses) == 0 {
		return roots, false
	}
	var found [][]byte
	for _, root := range roots {
		for _, status := range sc.q.Statuses {
			found = append(found, appendString(slices.Clone(root), status))
		}
	}
	slices.SortFunc(found, bytes.Compare)
	return slices.CompactFunc(found, bytes.Equal), true
}

// readsRecords reports whether the query has filters that the index cannot decide.
func (sc *scan) readsRecords() bool { return !sc.q.ByFields() }

// matches reports whether a record matches the names, the tags and the prefix of a query.
func matches(q *store.Query, r *store.Record) bool {
	if !strings.HasPrefix(r.Key.ID, q.Prefix) {
		return false
	}
	if len(q.Names) > 0 && !slices.Contains(q.Names, r.Name) {
		return false
	}
	for name, value := range q.Tags {
		if v, ok := r.Tags[name]; !ok || v != value {
			return false
		}
	}
	return true
}
