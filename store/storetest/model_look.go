package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/store"
)

// glance is what a look asks for.
type glance struct {
	all     bool            // it looks at everything
	queries []store.Query   // of List and Count
	limit   int             // of Pending
	from    int             // of ReadLog
	awaited store.RecordKey // of Await
	fresh   bool            // only the latest version will do
}

func (c *comparison) drawGlance(t *rapid.T) glance {
	return glance{
		all:     seldom(t),
		queries: []store.Query{c.drawQuery(t), c.drawQuery(t)},
		limit:   pick(t, []int{0, 2}),
		from:    rapid.IntRange(0, 4).Draw(t, "from"),
		awaited: pick(t, modelRecords),
		fresh:   rapid.Bool().Draw(t, "fresh"),
	}
}

// look compares what can be observed. It looks at all keys and records only now and
// then, and at those that the step was about each time.
func (c *comparison) look(*rapid.T) {
	g := &c.glance
	for _, k := range modelKeys {
		if g.all || c.keys[k] {
			c.sameKey(k)
		}
	}
	for _, k := range modelRecords {
		if g.all || c.records[k] {
			c.sameLines(fmt.Sprintf("record %v", k), c.renderGet(c.backend.Store, k), c.renderGet(c.model, k))
		}
	}
	if g.awaited.Kind != "" {
		after := c.noWait(g.awaited, g.fresh)
		c.sameLines(fmt.Sprintf("await %v after %d", g.awaited, after),
			c.renderAwait(c.backend.Store, after), c.renderAwait(c.model, after))
	}
	for _, q := range g.queries {
		c.sameList(q)
		c.sameCount(q)
	}
	c.sameLines("stats", c.renderStats(c.backend.Store), c.renderStats(c.model))
	c.sameLines("leases", c.renderStoreLeases(c.backend.Store), c.renderStoreLeases(c.model))
	c.sameLeases()
	c.rememberQuarantined()
}

// lookAtAll compares everything that can be observed.
func (c *comparison) lookAtAll() {
	c.glance = glance{all: true}
	for _, kind := range append([]string{store.KindQuarantine}, modelKinds...) {
		c.glance.queries = append(c.glance.queries, store.Query{Kind: kind, Limit: 10})
	}
	c.look(c.t)
}

func (c *comparison) sameKey(k store.Key) {
	c.t.Helper()
	c.sameLines(fmt.Sprintf("what is pending for %v, limit %d", k, c.glance.limit),
		c.renderPending(c.backend.Store, k), c.renderPending(c.model, k))
	c.sameLines(fmt.Sprintf("the log of %v from %d", k, c.glance.from),
		c.renderLog(c.backend.Store, k), c.renderLog(c.model, k))
}

// noWait returns a version at which Await does not wait: the record has passed it, or
// is not there.
func (c *comparison) noWait(k store.RecordKey, fresh bool) (after int64) {
	version := c.version(k)
	switch {
	case version == 0:
		return 1
	case fresh:
		return version - 1
	}
	return 0
}

func (c *comparison) drawQuery(t *rapid.T) store.Query {
	q := store.Query{
		Kind:       pick(t, append([]string{store.KindQuarantine}, modelKinds...)),
		Statuses:   pick(t, [][]string{nil, {"running"}, {"done", ""}, {"done", "running", "done"}, {store.ReasonAttempts}}),
		Names:      pick(t, [][]string{nil, nil, {"order"}, {"mail", ""}, modelQueues[:1]}),
		Tags:       pick(t, []map[string]string{nil, nil, {"color": "red"}, {"": ""}}),
		Prefix:     pick(t, []string{"", "", "", modelRecordIDs[0], modelRecordIDs[1], "z"}),
		Descending: rapid.Bool().Draw(t, "descending"),
		Limit:      rapid.IntRange(1, 4).Draw(t, "limit"),
	}
	if tenant := pick(t, modelTenants); rapid.Bool().Draw(t, "tenant") {
		q.Tenant = &tenant
	}
	if from := c.drawBound(t); !often(t) {
		q.From = from
	}
	if to := c.drawBound(t); !often(t) {
		q.To = to
	}
	return q
}

// drawBound draws the very time of a record, if there is one, or any.
func (c *comparison) drawBound(t *rapid.T) time.Time {
	at := c.drawTime(t)
	if of := pickAny(t, c.times, at); often(t) {
		return of
	}
	return at
}

func (c *comparison) describeQuery(q *store.Query) string {
	parts := []string{q.Kind}
	add := func(set bool, format string, args ...any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	if q.Tenant != nil {
		add(true, "tenant %q", *q.Tenant)
	}
	add(len(q.Statuses) > 0, "statuses %q", q.Statuses)
	add(len(q.Names) > 0, "names %q", q.Names)
	add(!q.From.IsZero(), "from %s", c.when(q.From))
	add(!q.To.IsZero(), "to %s", c.when(q.To))
	add(len(q.Tags) > 0, "tags %q", q.Tags)
	add(q.Prefix != "", "prefix %q", q.Prefix)
	add(q.Descending, "descending")
	add(q.Limit > 0, "by %d", q.Limit)
	return "(" + strings.Join(parts, " ") + ")"
}

// sameLeases checks that the same of all leases that ever were are live. It renews
// them for the shortest time there is, which changes nothing.
func (c *comparison) sameLeases() {
	c.t.Helper()
	lost, want := c.renewBoth(store.MinLease, c.claims)
	c.sameLines("what is lost", leaseTexts(lost), leaseTexts(want))
	c.live = slices.DeleteFunc(slices.Clone(c.claims), func(l *pairedLease) bool { return slices.Contains(want, l) })
}

// sameList checks that a walk along the cursors of the backend goes by the time, and
// has the records that the model has. In which order those of the same time come is
// for the backend to say.
func (c *comparison) sameList(q store.Query) {
	c.t.Helper()
	got, err := c.walk(c.backend.Store, q)
	want, wantErr := c.walk(c.model, q)
	what := "list " + c.describeQuery(&q)
	c.sameError(what, err, wantErr)
	inOrder := slices.IsSortedFunc(got, func(a, b store.Record) int {
		if q.Descending {
			return b.Time.Compare(a.Time)
		}
		return a.Time.Compare(b.Time)
	})
	if !inOrder {
		c.t.Fatalf("%s is not in the order of time:\n  %s", what, strings.Join(c.renderRecords(got), "\n  "))
	}
	slices.SortFunc(got, compareRecords)
	slices.SortFunc(want, compareRecords)
	c.sameLines(what, c.renderRecords(got), c.renderRecords(want))
}

// sameCount checks that the backend counts what the model counts, with a limit that
// some counts reach, and with none to speak of.
func (c *comparison) sameCount(q store.Query) {
	c.t.Helper()
	few := q.Limit
	q.Limit, q.Descending = 0, false
	for _, limit := range []int{few, store.MaxCount} {
		got, err := c.backend.Store.Count(c.ctx, q, limit)
		want, wantErr := c.model.Count(c.ctx, q, limit)
		what := fmt.Sprintf("count up to %d %s", limit, c.describeQuery(&q))
		c.sameError(what, err, wantErr)
		if got != want {
			c.t.Fatalf("%s: got %d, want %d", what, got, want)
		}
	}
}

func compareRecords(a, b store.Record) int {
	return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Key.Tenant, b.Key.Tenant), cmp.Compare(a.Key.ID, b.Key.ID))
}

// rememberQuarantined notes what is in quarantine, for a later step to redrive. A
// record that was put by a caller holds no message.
func (c *comparison) rememberQuarantined() {
	records, err := c.walk(c.model, store.Query{Kind: store.KindQuarantine, Limit: store.MaxPage})
	if err != nil {
		c.t.Fatalf("list: %v", err)
	}
	for _, r := range records {
		_, err := store.Quarantined(r)
		known := slices.ContainsFunc(c.past, func(p store.Record) bool { return p.Key == r.Key && p.Version == r.Version })
		if err == nil && !known {
			c.past = append(c.past, r)
		}
	}
}

// manyPages is more than any walk here needs.
const manyPages = 1000

func (c *comparison) walk(s store.Store, q store.Query) (records []store.Record, err error) {
	c.t.Helper()
	for range manyPages {
		page, err := s.List(c.ctx, q)
		if err != nil {
			return nil, err
		}
		if len(page.Records) > q.Limit {
			c.t.Fatalf("list %s: a page has %d records", c.describeQuery(&q), len(page.Records))
		}
		records = append(records, page.Records...)
		if page.Next == "" {
			return records, nil
		}
		q.Cursor = page.Next
	}
	c.t.Fatalf("list %s: there is no end to it", c.describeQuery(&q))
	return nil, nil
}
