package pebblestore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/abidehq/abide/store"
)

// TestSearch: a page of few records among many is found at once, in the order of the list, and the
// pages after it follow. Without the indexes each search would pass over all records, maxScanned of
// them on a page.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := openUnwritten(t)
	const n = 2*maxScanned + 10
	id := func(i int) string { return fmt.Sprintf("order-%d", i) }
	tags := func(i int) map[string]string {
		return map[string]string{"customer": fmt.Sprint(i % 1000), "region": fmt.Sprint(i % 5)}
	}
	for i := 0; i < n; i += 1000 {
		tx := &store.Tx{}
		for j := i; j < min(i+1000, n); j++ {
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{
				Key: store.RecordKey{Kind: "k", Tenant: []string{"", "acme"}[j%2], ID: id(j)}, Time: store.FromMillis(int64(1000 + j)),
				Status: []string{"running", "done", "done"}[j%3], Tags: tags(j),
			}})
		}
		commitTo(t, s, tx)
	}
	acme := "acme"
	prefixed := func(prefix string) func(i int) bool {
		return func(i int) bool { return strings.HasPrefix(id(i), prefix) }
	}
	for name, c := range map[string]struct {
		q    store.Query
		want func(i int) bool
	}{
		"a prefix":               {store.Query{Prefix: "order-123"}, prefixed("order-123")},
		"a prefix and a tenant":  {store.Query{Prefix: "order-123", Tenant: &acme}, func(i int) bool { return prefixed("order-123")(i) && i%2 == 1 }},
		"a prefix of one":        {store.Query{Prefix: id(40_000)}, func(i int) bool { return i == 40_000 }},
		"a prefix of none":       {store.Query{Prefix: "order-123x"}, func(int) bool { return false }},
		"a tag":                  {store.Query{Tags: map[string]string{"customer": "7"}}, func(i int) bool { return i%1000 == 7 }},
		"two tags":               {store.Query{Tags: tags(7)}, func(i int) bool { return i%1000 == 7 }},
		"two that exclude":       {store.Query{Tags: map[string]string{"customer": "7", "region": "3"}}, func(int) bool { return false }},
		"a tag and a status":     {store.Query{Tags: tags(7), Statuses: []string{"running"}}, func(i int) bool { return i%1000 == 7 && i%3 == 0 }},
		"a tag and a time":       {store.Query{Tags: tags(7), From: store.FromMillis(31_000), To: store.FromMillis(51_000)}, func(i int) bool { return i%1000 == 7 && i >= 30_000 && i < 50_000 }},
		"two tags and a prefix":  {store.Query{Tags: tags(7), Prefix: "order-1"}, func(i int) bool { return i%1000 == 7 && prefixed("order-1")(i) }},
		"a common tag, a prefix": {store.Query{Tags: map[string]string{"region": "2"}, Prefix: "order-123"}, func(i int) bool { return i%5 == 2 && prefixed("order-123")(i) }},
	} {
		for _, descending := range []bool{false, true} {
			var want, got []string
			for i := range n {
				if c.want(i) {
					want = append(want, id(i))
				}
			}
			if descending {
				slices.Reverse(want)
			}
			q := c.q
			q.Kind, q.Descending, q.Limit = "k", descending, 20
			pages := 0
			for more := true; more; more = q.Cursor != "" {
				page, err := s.List(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for i := range page.Records {
					got = append(got, page.Records[i].Key.ID)
				}
				q.Cursor = page.Next
				pages++
			}
			if most := len(want)/20 + 1; !slices.Equal(got, want) || pages > most {
				t.Errorf("%s, descending %v: %d records on %d pages, want %d on %d", name, descending, len(got), pages, len(want), most)
			}
		}
	}
}
