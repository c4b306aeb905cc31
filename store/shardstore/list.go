package shardstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/abidehq/abide/store"
)

// List returns records that match q: of the tenant's shard, or of all shards, merged by time. A
// list of all tenants fails if a shard is down.
//
// A walk along the cursors that meets a change of the directory goes on by time: the records that
// have the very millisecond that it has reached come again, so that none of those that were moved
// is left out.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	if err := q.Validate(); err != nil {
		return store.Page{}, err
	}
	at, err := parsePosition(&q)
	if err != nil {
		return store.Page{}, err
	}
	if err := s.check(ctx, "list"); err != nil || q.Kind == store.KindShards {
		return store.Page{}, err
	}
	outer := q // cursors are those of the query as the caller knows it
	if q.Tenant != nil {
		return s.listTenant(ctx, &outer, q, at)
	}
	if version := s.Directory().Version; at.version != version {
		at = &position{version: version, last: at.last, any: at.any}
	}
	for range listTries {
		page, ok, err := s.listAll(ctx, &outer, q, at)
		if ok || err != nil {
			return page, err
		}
	}
	// Others change what is listed all the time. Pages of one record need no second look.
	q.Limit = 1
	page, _, err := s.listAll(ctx, &outer, q, at)
	return page, err
}

// listTries is how often a page is made anew because a record changed while it was made.
const listTries = 5

// listTenant returns a page of one tenant's records.
func (s *Store) listTenant(ctx context.Context, outer *store.Query, q store.Query, at *position) (store.Page, error) {
	sh, st, err := s.storeOf(*q.Tenant)
	if err != nil {
		return store.Page{}, err
	}
	page, err := st.List(ctx, at.on(q, at.shards[sh.name]))
	if err != nil || page.Next == "" {
		return page, sh.failed(err)
	}
	if n := len(page.Records); n > 0 {
		at.last, at.any = page.Records[n-1].Time.UnixMilli(), true
	}
	at.shards = map[string]progress{sh.name: {cursor: page.Next}}
	page.Next = at.format(outer, s.shards)
	return page, nil
}

// stream is the records of one shard.
type stream struct {
	shard *shard
	from  progress
	page  store.Page
	taken int // records of the page that were dealt with: returned, or not the shard's
}

// listAll returns a page of the records of all shards. It reports false if it has to be made anew: a
// shard returned something else when it was asked for a part of the same page.
func (s *Store) listAll(ctx context.Context, outer *store.Query, q store.Query, at *position) (page store.Page, ok bool, err error) {
	streams, err := s.fetch(ctx, q, at)
	if err != nil {
		return store.Page{}, false, err
	}
	page.Records = s.merge(&q, streams)
	next := &position{version: at.version, last: at.last, any: at.any, shards: map[string]progress{}}
	if n := len(page.Records); n > 0 {
		next.last, next.any = page.Records[n-1].Time.UnixMilli(), true
	}
	more := false
	for _, st := range streams {
		p, ok, err := st.after(ctx, at.on(q, st.from))
		if err != nil || !ok {
			return store.Page{}, false, err
		}
		next.shards[st.shard.name] = p
		more = more || !p.done
	}
	if more {
		page.Next = next.format(outer, s.shards)
	}
	return page, true, nil
}

// fetch returns the next page of each shard.
func (s *Store) fetch(ctx context.Context, q store.Query, at *position) ([]*stream, error) {
	streams := make([]*stream, len(s.shards))
	err := s.every(ctx, "list", func(ctx context.Context, i int, st store.Store) (err error) {
		from := at.shards[s.shards[i].name]
		streams[i] = &stream{shard: s.shards[i], from: from}
		if from.done {
			return nil
		}
		streams[i].page, err = st.List(ctx, at.on(q, from))
		return err
	})
	return streams, err
}

// merge returns the records of a page, in order, and notes in the streams which they are. The page ends
// where a shard's does, if there is more on that shard: what comes next is not known.
func (s *Store) merge(q *store.Query, streams []*stream) (records []store.Record) {
	limit, size := cmp.Or(q.Limit, store.DefaultPage), 0
	r := s.routing.Load()
	for len(records) < limit {
		var first *stream
		for _, st := range streams {
			st.pass(r)
			if st.taken == len(st.page.Records) {
				if st.page.Next != "" {
					return records
				}
				continue
			}
			if first == nil || st.precedes(first, q.Descending) {
				first = st
			}
		}
		if first == nil {
			return records
		}
		record := first.page.Records[first.taken]
		if size += len(record.Body); size > store.PageBytes && len(records) > 0 {
			return records
		}
		first.taken++
		records = append(records, record)
	}
	return records
}

// pass passes over records that are not the shard's: those of a copy that is not the tenant's any
// more, or not yet.
func (st *stream) pass(r *routing) {
	for st.taken < len(st.page.Records) && r.of(st.page.Records[st.taken].Key.Tenant) != st.shard {
		st.taken++
	}
}

// precedes reports whether the next record of a stream comes before that of another. Records of the
// same time come in the order of their shards.
func (st *stream) precedes(o *stream, descending bool) bool {
	c := st.page.Records[st.taken].Time.Compare(o.page.Records[o.taken].Time)
	if descending {
		return c > 0
	}
	return c < 0
}

// after returns how far the walk has come on a shard. Where only a part of the shard's page was taken,
// the shard is asked for that part, since it alone knows the cursor behind it; ok is false if the part
// is not the same any more.
func (st *stream) after(ctx context.Context, q store.Query) (p progress, ok bool, err error) {
	switch {
	case st.taken == 0 && (len(st.page.Records) > 0 || st.page.Next == ""):
		done := st.from.done || len(st.page.Records) == 0
		return progress{cursor: st.from.cursor, done: done}, true, nil
	case st.taken == len(st.page.Records):
		return progress{cursor: st.page.Next, done: st.page.Next == ""}, true, nil
	}
	q.Limit = st.taken
	part, err := bounded(ctx, st.shard, func(ctx context.Context, inner store.Store) (store.Page, error) { return inner.List(ctx, q) })
	if err != nil {
		return progress{}, false, err
	}
	same := slices.EqualFunc(part.Records, st.page.Records[:st.taken], func(a, b store.Record) bool { return a.Key == b.Key })
	return progress{cursor: part.Next}, same && part.Next != "", nil
}
