package memstore_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/storetest"
)

// checked is a store whose indexes are compared with a scan after every call that
// changes something.
type checked struct {
	*memstore.Store
	t testing.TB
}

func newChecked(t testing.TB) *storetest.Backend {
	b := newBackend(t)
	b.Store = &checked{b.Store.(*memstore.Store), t}
	return b
}

func (c *checked) check(call string) {
	for _, problem := range c.CheckIndexes() {
		c.t.Errorf("after %s: %s", call, problem)
	}
}

func (c *checked) Commit(ctx context.Context, tx *store.Tx) error {
	defer c.check("commit")
	return c.Store.Commit(ctx, tx)
}

func (c *checked) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	defer c.check("claim")
	return c.Store.Claim(ctx, req)
}

func (c *checked) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	defer c.check("renew")
	return c.Store.Renew(ctx, d, leases)
}

func (c *checked) Release(ctx context.Context, r store.Release) error {
	defer c.check("release")
	return c.Store.Release(ctx, r)
}

func (c *checked) Import(ctx context.Context, p store.Parcel) error {
	defer c.check("import")
	return c.Store.Import(ctx, p)
}

func (c *checked) Leases(ctx context.Context, q store.LeaseQuery) ([]store.LeaseInfo, error) {
	defer c.check("leases")
	return c.Store.Leases(ctx, q)
}

func (c *checked) Stats(ctx context.Context) (store.Stats, error) {
	defer c.check("stats")
	return c.Store.Stats(ctx)
}

// TestIndexesAgreeWithAScan runs the random operations of the model comparison.
func TestIndexesAgreeWithAScan(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, newChecked)
}

// TestListsAgreeWithAScan compares lists and counts of random records, by random
// queries, with what a scan of all records finds.
func TestListsAgreeWithAScan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		s := memstore.New(memstore.Options{})
		defer s.Close()
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		status := rapid.SampledFrom([]string{"", "on", "off"})
		at := rapid.Custom(func(r *rapid.T) time.Time { return time.UnixMilli(rapid.Int64Range(0, 5).Draw(r, "ms")) })
		var tx store.Tx
		taken := map[store.RecordKey]bool{}
		for i := range rapid.IntRange(0, 60).Draw(r, "records") {
			key := store.RecordKey{Kind: names.Draw(r, "kind"), Tenant: names.Draw(r, "tenant"), ID: fmt.Sprint(i)}
			taken[key] = true
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Expect: store.AnyVersion, Record: store.Record{
				Key: key, Status: status.Draw(r, "status"), Name: names.Draw(r, "name"), Time: at.Draw(r, "time"),
				Tags: map[string]string{"t": names.Draw(r, "tag")},
			}})
		}
		if err := s.Commit(r.Context(), &tx); err != nil {
			r.Fatal(err)
		}
		for range 10 {
			q := store.Query{Kind: names.Draw(r, "kind"), Descending: rapid.Bool().Draw(r, "descending"), Limit: rapid.IntRange(1, 5).Draw(r, "limit")}
			if rapid.Bool().Draw(r, "one tenant") {
				tenant := names.Draw(r, "tenant")
				q.Tenant = &tenant
			}
			q.Statuses = rapid.SliceOfN(status, 0, 2).Draw(r, "statuses")
			if rapid.Bool().Draw(r, "by name") {
				q.Names = []string{names.Draw(r, "name")}
				q.Tags = map[string]string{"t": names.Draw(r, "tag")}
			}
			if rapid.Bool().Draw(r, "by time") {
				q.From = at.Draw(r, "from")
				q.To = q.From.Add(time.Duration(rapid.IntRange(1, 4).Draw(r, "span")) * time.Millisecond)
			}
			compareList(r, s, q)
		}
	})
}

func compareList(r *rapid.T, s *memstore.Store, q store.Query) {
	want := s.ScanRecords(q)
	var got []store.RecordKey
	for page := q; ; {
		p, err := s.List(r.Context(), page)
		if err != nil {
			r.Fatal(err)
		}
		for i := range p.Records {
			got = append(got, p.Records[i].Key)
		}
		if page.Cursor = p.Next; p.Next == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		r.Fatalf("%+v:\ngot  %v\nwant %v", q, got, want)
	}
	for _, limit := range []int{1, 2, store.MaxCount} {
		count := q
		count.Descending, count.Limit = false, 0
		n, err := s.Count(r.Context(), count, limit)
		if err != nil || n != min(len(want), limit) {
			r.Fatalf("%+v: count up to %d is %d (%v), want %d", q, limit, n, err, len(want))
		}
	}
}
