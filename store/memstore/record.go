package memstore

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"github.com/abidehq/abide/internal/waitlist"
	"github.com/abidehq/abide/store"
)

// records is the records of a store. A record is never changed: a put replaces it.
type records struct {
	byKey map[store.RecordKey]*store.Record

	// A list with a tenant goes through byTenant, and one of all tenants through
	// byStatus. The records of a status are together in both, ordered by time.
	byTenant *btree.BTreeG[*store.Record] // kind, tenant, status, time, ID
	byStatus *btree.BTreeG[*store.Record] // kind, status, time, tenant, ID

	awaited waitlist.Records[store.RecordKey, *waitlist.Reader[struct{}]] // Await calls
}

func newRecords() records {
	index := func(compare func(a, b *store.Record) int) *btree.BTreeG[*store.Record] {
		return btree.NewBTreeGOptions(func(a, b *store.Record) bool { return compare(a, b) < 0 }, btree.Options{NoLocks: true})
	}
	return records{
		byKey:    map[store.RecordKey]*store.Record{},
		byTenant: index(compareByTenant),
		byStatus: index(compareByStatus),
		awaited:  waitlist.Records[store.RecordKey, *waitlist.Reader[struct{}]]{},
	}
}

func compareByTenant(a, b *store.Record) int {
	if c := strings.Compare(a.Key.Kind, b.Key.Kind); c != 0 {
		return c
	}
	if c := strings.Compare(a.Key.Tenant, b.Key.Tenant); c != 0 {
		return c
	}
	return compareByStatus(a, b)
}

func compareByStatus(a, b *store.Record) int {
	if c := strings.Compare(a.Key.Kind, b.Key.Kind); c != 0 {
		return c
	}
	if c := strings.Compare(a.Status, b.Status); c != 0 {
		return c
	}
	if c := a.Time.Compare(b.Time); c != 0 {
		return c
	}
	if c := strings.Compare(a.Key.Tenant, b.Key.Tenant); c != 0 {
		return c
	}
	return strings.Compare(a.Key.ID, b.Key.ID)
}

// version returns the version of a record, or 0.
func (rs *records) version(key store.RecordKey) int64 {
	if r := rs.byKey[key]; r != nil {
		return r.Version
	}
	return 0
}

func (s *Store) putRecord(r store.Record) {
	r = copyRecord(&r)
	r.Version = s.records.version(r.Key) + 1
	r.Time = store.FromMillis(store.RecordMillis(r.Time))
	s.setRecord(r.Key, &r)
}

// setRecord replaces a record; nil deletes it.
func (s *Store) setRecord(key store.RecordKey, r *store.Record) {
	rs := &s.records
	if old := rs.byKey[key]; old != nil {
		delete(rs.byKey, key)
		rs.byTenant.Delete(old)
		rs.byStatus.Delete(old)
	}
	if r != nil {
		rs.byKey[key] = r
		rs.byTenant.Set(r)
		rs.byStatus.Set(r)
	}
	for _, r := range rs.awaited.Of(key) {
		r.Tell(struct{}{})
	}
}

// stream is the records of one kind and status, of one tenant or of all, in the order
// of their time.
type stream struct {
	index  *btree.BTreeG[*store.Record]
	kind   string
	tenant *string // nil for all
	status string
}

// beyond is later than the time of any record.
var beyond = time.UnixMilli(math.MaxInt64 / 2).UTC()

// streams returns the streams that hold the records which q asks for.
func (rs *records) streams(q *store.Query) (streams []stream) {
	st := stream{index: rs.byStatus, kind: q.Kind}
	if q.Tenant != nil {
		st.index, st.tenant = rs.byTenant, q.Tenant
	}
	statuses := slices.Compact(slices.Sorted(slices.Values(q.Statuses)))
	if len(statuses) == 0 {
		statuses = st.statuses()
	}
	for _, st.status = range statuses {
		streams = append(streams, st)
	}
	return streams
}

// statuses returns every status that records of the kind, and of the tenant, have.
func (st stream) statuses() (statuses []string) {
	for from, more := st.at(time.Time{}), true; more; {
		more = false
		st.index.Ascend(from, func(r *store.Record) bool {
			st.status = r.Status
			if more = st.holds(r); more {
				statuses = append(statuses, r.Status)
				from = st.at(beyond)
			}
			return false
		})
	}
	return statuses
}

// at returns a record with the stream's fields and that time, to compare others with.
func (st stream) at(t time.Time) *store.Record {
	r := &store.Record{Key: store.RecordKey{Kind: st.kind}, Status: st.status, Time: t}
	if st.tenant != nil {
		r.Key.Tenant = *st.tenant
	}
	return r
}

// holds reports whether a record belongs to the stream.
func (st stream) holds(r *store.Record) bool {
	return r.Key.Kind == st.kind && r.Status == st.status && (st.tenant == nil || r.Key.Tenant == *st.tenant)
}

// rank returns how many records of the index come before r or, with orAt, are not
// behind it.
func (st stream) rank(r *store.Record, orAt bool) int {
	return rank(st.index, func(o *store.Record) bool {
		return st.index.Less(o, r) || (orAt && !st.index.Less(r, o))
	})
}

// bounds returns where in the index those records of the stream begin and end whose
// time q asks for.
func (st stream) bounds(q *store.Query) (from, to int) {
	end := beyond
	if !q.To.IsZero() {
		end = q.To
	}
	from = st.rank(st.at(q.From), false)
	return from, max(from, st.rank(st.at(end), false))
}

// walk calls f for the records of the stream whose time q asks for, in the order of q,
// behind the position after if that is not nil, until f returns false.
func (st stream) walk(q *store.Query, after *position, f func(r *store.Record) bool) {
	from, to := st.bounds(q)
	if after != nil {
		at := st.at(store.FromMillis(after.ms))
		at.Key.Tenant, at.Key.ID = after.tenant, after.id
		if q.Descending {
			to = min(to, st.rank(at, false))
		} else {
			from = max(from, st.rank(at, true))
		}
	}
	for i := range to - from {
		at := from + i
		if q.Descending {
			at = to - 1 - i
		}
		if r, _ := st.index.GetAt(at); !f(r) {
			return
		}
	}
}

// count returns the number of records of the stream whose time q asks for.
func (st stream) count(q *store.Query) int {
	from, to := st.bounds(q)
	return to - from
}
