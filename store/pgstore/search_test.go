package pgstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// fillTagged puts n records with a second between two of them: order-0000001 and so on, one of 1,000
// customers each, one of 5 regions, and every 50,000th marked.
func fillTagged(t *testing.T, s *Store, n int) {
	t.Helper()
	tag := func(name, value string) string {
		return fmt.Sprintf(`int2send(%d::int2) || convert_to('%s' || (%s)::text, 'UTF8')`, len(name), name, value)
	}
	execute(t, s.db.config.conn.ConnString(), fmt.Sprintf(`
INSERT INTO %[1]s.records (key, kind, tenant, id, version, time, status, name, tags, body)
SELECT md5(i::text)::uuid, 'instance', 'acme', convert_to('order-' || lpad(i::text, 7, '0'), 'UTF8'), 1, 1000::int8 * i,
	CASE i %% 4 WHEN 0 THEN 'running' ELSE 'completed' END::bytea, 'order',
	ARRAY[%[3]s, %[4]s] || CASE WHEN i %% 50000 = 0 THEN ARRAY[%[5]s] ELSE '{}' END, 'body'
FROM generate_series(1, %[2]d) i`, s.db.config.quoted(), n, tag("customer", "i % 1000"), tag("region", "i % 5"), tag("marked", "'yes'")))
}

// TestSearch: a page of few records among many is found at once, in the order of the list, and the
// pages after it follow.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := open(t, unusedURL(t), Options{})
	const records = 100_000
	fillTagged(t, s, records)
	acme, other := "acme", "other"
	id := func(i int) string { return fmt.Sprintf("order-%07d", i) }
	tags := func(customer, region int) map[string]string {
		return map[string]string{"customer": fmt.Sprint(customer), "region": fmt.Sprint(region)}
	}
	for name, c := range map[string]struct {
		q    store.Query
		want func(i int) bool
	}{
		"a prefix":              {store.Query{Prefix: "order-00012"}, func(i int) bool { return i/100 == 12 }},
		"a prefix of one":       {store.Query{Prefix: id(777)}, func(i int) bool { return i == 777 }},
		"a prefix of none":      {store.Query{Prefix: "order-00012x"}, func(int) bool { return false }},
		"a prefix and a status": {store.Query{Prefix: "order-00012", Statuses: []string{"running"}}, func(i int) bool { return i/100 == 12 && i%4 == 0 }},
		"a prefix and a time":   {store.Query{Prefix: "order-00012", From: time.Unix(1250, 0), To: time.Unix(1260, 0)}, func(i int) bool { return i/10 == 125 }},
		"a prefix and a tenant": {store.Query{Prefix: "order-00012", Tenant: &acme}, func(i int) bool { return i/100 == 12 }},
		"a prefix of another's": {store.Query{Prefix: "order-00012", Tenant: &other}, func(int) bool { return false }},
		"a tag":                 {store.Query{Tags: map[string]string{"marked": "yes"}}, func(i int) bool { return i%50_000 == 0 }},
		"two tags":              {store.Query{Tags: tags(7, 2)}, func(i int) bool { return i%1000 == 7 }},
		"two that exclude":      {store.Query{Tags: tags(7, 3)}, func(int) bool { return false }},
		"tags and a prefix":     {store.Query{Tags: tags(7, 2), Prefix: "order-00"}, func(i int) bool { return i%1000 == 7 && i < 100_000 }},
		"tags and a time":       {store.Query{Tags: tags(7, 2), From: time.Unix(50_000, 0)}, func(i int) bool { return i%1000 == 7 && i >= 50_000 }},
	} {
		for _, descending := range []bool{false, true} {
			var want []string
			for i := 1; i <= records; i++ {
				if c.want(i) {
					want = append(want, id(i))
				}
			}
			if descending {
				slices.Reverse(want)
			}
			q := c.q
			q.Kind, q.Descending, q.Limit = "instance", descending, 40
			var got []string
			pages := 0
			for more := true; more; more = q.Cursor != "" {
				page, err := s.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range page.Records {
					got = append(got, r.Key.ID)
				}
				q.Cursor = page.Next
				pages++
			}
			if most := len(want)/40 + 1; !slices.Equal(got, want) || pages > most {
				t.Errorf("%s, descending %v: %d records in %d pages, want %d in %d", name, descending, len(got), pages, len(want), most)
			}
		}
	}
}

// TestSearchesUseIndexes: a search reads of the tables what an index has of it, whatever the server
// knows of them.
func TestSearchesUseIndexes(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known=%v", known), func(t *testing.T) {
			t.Parallel()
			s := open(t, unusedURL(t), Options{})
			fillTagged(t, s, 100)
			knownAsEmpty(t, s)
			fillTagged(t, s, 50_000)
			if known {
				execute(t, s.db.config.conn.ConnString(), "VACUUM ANALYZE "+s.db.config.quoted()+".records")
			}
			q := store.Query{Kind: "instance", Prefix: "order-00012", Tags: map[string]string{"customer": "7", "region": "2"}}
			at, err := parseCursor(&q)
			if err != nil {
				t.Fatal(err)
			}
			last := []any{101, 100, store.PageBytes, true}
			sql, args := s.db.gatherText(&q, at, byPrefix)
			usesIndexes(t, "a search by prefix", explain(t, s, sql, append(args, last...)), 500)
			sql, args = s.db.gatherText(&q, at, byTags)
			plan := explainSet(t, s, "enable_bitmapscan = on", "ANALYZE, BUFFERS, COSTS off, TIMING off", sql, append(args, last...))
			if !strings.Contains(plan, "Bitmap Index Scan on records_tags") {
				t.Errorf("a search by tags does not use the index\n%s", plan)
			}
			usesIndexes(t, "a search by tags", strings.ReplaceAll(plan, "Bitmap Heap Scan on records r", "Heap"), 700)
		})
	}
}
