package pebblestore

import (
	"bytes"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

// scan is what a query goes through: the index, and where it does not say enough the
// records, at one moment.
type scan struct {
	q        *store.Query
	view     view
	it       *pebble.Iterator // over the index
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
	sc.it, err = sc.view.NewIter(&pebble.IterOptions{LowerBound: []byte{tagIndex}, UpperBound: []byte{tagIndex + 1}})
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

// roots returns the index prefixes, in their order, under which all is that the query
// is about: those of its strands if they can be told, or else a single one.
func (sc *scan) roots() (roots [][]byte, strands bool) {
	prefix := appendString([]byte{tagIndex}, sc.q.Kind)
	if sc.q.Tenant == nil {
		return [][]byte{prefix}, false
	}
	prefix = appendString(prefix, *sc.q.Tenant)
	if len(sc.q.Statuses) == 0 {
		return [][]byte{prefix}, false
	}
	for _, status := range sc.q.Statuses {
		roots = append(roots, appendString(slices.Clone(prefix), status))
	}
	slices.SortFunc(roots, bytes.Compare)
	return slices.CompactFunc(roots, bytes.Equal), true
}

// wants reports whether the query is about the strand with an index prefix that is
// under one of the roots.
func (sc *scan) wants(strandPrefix []byte) bool {
	return len(sc.q.Statuses) == 0 || slices.Contains(sc.q.Statuses, lastString(strandPrefix))
}

// lastString returns the last of the three strings of an index prefix.
func lastString(prefix []byte) string {
	r := reader{b: prefix[1:]}
	r.bytes()
	r.bytes()
	return r.string()
}

// readsRecords reports whether the index does not say all that the query asks.
func (sc *scan) readsRecords() bool { return len(sc.q.Names) > 0 || len(sc.q.Tags) > 0 }

// matches reports whether a record matches what the index does not know.
func matches(q *store.Query, r *store.Record) bool {
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
