package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/store"
)

// search is the workload that lists records as people search for instances.
type search struct {
	records  int
	duration time.Duration
	searches int64
}

var _ bench.Loader = (*search)(nil)

// SearchSpec describes the workload.
func SearchSpec() bench.Spec {
	return bench.Spec{
		Name:  "search",
		Short: "Measure searches among many instances",
		Long: `Measure searches among many instances.

The store is loaded with records like those of instances, started over 30 days: with
random IDs, one of 1,000 customers, 5 regions and 4 plans as tags, and every other one
with a parent that has 100 children. Searches are made one at a time, with random values:
by what the ID begins with, by a tag, by two, by parent, by time, by status, and by all of
them. The latency of a search is that of as many pages as it takes to have 50 records, or
all that there are. What is found is checked.`,
		Example: `  abide bench search --store pebble://data
  abide bench search --store postgres://localhost/abide --records 1000000 --json`,
		NeedsStore: true,
		New: func(f *pflag.FlagSet, c *bench.Config) bench.Workload {
			w := &search{}
			f.IntVar(&w.records, "records", 1_000_000, "records to search among")
			f.DurationVar(&w.duration, "duration", 30*time.Second, "how long to measure")
			f.Int64Var(&w.searches, "searches", 0, "end after so many searches")
			c.WarmupFlag(f)
			return w
		},
	}
}

// Name implements [bench.Workload].
func (w *search) Name() string { return "search" }

// Validate implements [bench.Workload].
func (w *search) Validate(*bench.Config) error {
	return cmp.Or(
		bench.Within("records", w.records, 1, 100_000_000),
		bench.NotNegative("duration", w.duration),
		bench.NotNegative("searches", w.searches),
	)
}

// Open implements [bench.Workload].
func (w *search) Open(context.Context, *bench.Run) (func() error, error) {
	return func() error { return nil }, nil
}

// What is loaded.
const (
	searchKind  = bench.Prefix + "search"
	searchOver  = 30 * 24 * time.Hour
	searchPage  = 50
	tagCustomer = "customer"
	tagRegion   = "region"
	tagPlan     = "plan"
	tagParent   = "parent"
)

var searchFrom = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// record returns record i, which is always the same one for a number of records.
func (w *search) record(i int) store.Record {
	n := bench.Scramble(uint64(i))
	tags := map[string]string{
		tagCustomer: strconv.FormatUint(n%1000, 10), tagRegion: strconv.FormatUint(n/1000%5, 10), tagPlan: strconv.FormatUint(n/5000%4, 10),
	}
	if i%2 == 0 {
		tags[tagParent] = strconv.Itoa(i / 200)
	}
	status := "completed"
	switch n / 20_000 % 50 {
	case 0:
		status = "failed"
	case 1, 2, 3, 4:
		status = "running"
	}
	return store.Record{
		Key: store.RecordKey{Kind: searchKind, Tenant: tenant, ID: w.id(i)}, Status: status, Name: "order",
		Time: searchFrom.Add(searchOver / time.Duration(w.records) * time.Duration(i)), Tags: tags, Body: bench.Bytes(n, recordBytes),
	}
}

func (w *search) id(i int) string {
	return fmt.Sprintf("order-%016x", bench.Scramble(uint64(i)^0x5ea7c4))
}

// Load implements [bench.Loader].
func (w *search) Load(ctx context.Context, r *bench.Run) error {
	_, err := r.Store.Get(ctx, w.record(w.records-1).Key)
	if !errors.Is(err, store.ErrNotFound) {
		return err // it was loaded before
	}
	return r.Batches(ctx, bench.Loading{Doing: "loading", Unit: "records", To: w.records}, func(ctx context.Context, from, to int) error {
		tx := &store.Tx{}
		for i := from; i < to; i++ {
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Expect: store.AnyVersion, Record: w.record(i)})
		}
		return r.Store.Commit(ctx, tx)
	})
}

// Verify implements [bench.Loader].
func (w *search) Verify(ctx context.Context, r *bench.Run) error {
	_, err := r.Store.Get(ctx, w.record(w.records-1).Key)
	return err
}

// searchQuery is a kind of search: the query for a record that it must find, if it comes to that.
type searchQuery struct {
	name  string
	query func(w *search, r *store.Record) store.Query
}

func tagsOf(r *store.Record, names ...string) map[string]string {
	tags := map[string]string{}
	for _, name := range names {
		tags[name] = r.Tags[name]
	}
	return tags
}

var searchQueries = []searchQuery{
	{"id", func(_ *search, r *store.Record) store.Query { return store.Query{Prefix: r.Key.ID} }},
	{"prefix", func(_ *search, r *store.Record) store.Query { return store.Query{Prefix: r.Key.ID[:len("order-")+3]} }},
	{"short_prefix", func(_ *search, r *store.Record) store.Query { return store.Query{Prefix: r.Key.ID[:len("order-")+1]} }},
	{"tag", func(_ *search, r *store.Record) store.Query { return store.Query{Tags: tagsOf(r, tagCustomer)} }},
	{"two_tags", func(_ *search, r *store.Record) store.Query {
		return store.Query{Tags: tagsOf(r, tagCustomer, tagRegion)}
	}},
	{"two_common_tags", func(_ *search, r *store.Record) store.Query { return store.Query{Tags: tagsOf(r, tagRegion, tagPlan)} }},
	{"time", func(_ *search, r *store.Record) store.Query {
		return store.Query{From: r.Time.Add(-time.Hour), To: r.Time.Add(time.Hour)}
	}},
	{"parent", func(_ *search, r *store.Record) store.Query {
		return store.Query{Tags: map[string]string{tagParent: cmp.Or(r.Tags[tagParent], "0")}}
	}},
	{"tags_and_time", func(_ *search, r *store.Record) store.Query {
		return store.Query{Tags: tagsOf(r, tagCustomer, tagRegion), From: r.Time.Add(-24 * time.Hour), To: r.Time.Add(24 * time.Hour)}
	}},
	{"all", func(_ *search, r *store.Record) store.Query {
		return store.Query{
			Prefix: r.Key.ID[:len("order-")+1], Tags: tagsOf(r, tagCustomer, tagRegion), Statuses: []string{r.Status},
			From: r.Time.Add(-7 * 24 * time.Hour), To: r.Time.Add(7 * 24 * time.Hour),
		}
	}},
	{"none", func(_ *search, r *store.Record) store.Query {
		return store.Query{Tags: map[string]string{tagCustomer: r.Tags[tagCustomer], tagRegion: "none"}, Prefix: "order-"}
	}},
}

// Measure implements [bench.Workload].
func (w *search) Measure(ctx context.Context, r *bench.Run) error {
	took := make([]bench.Histogram, len(searchQueries))
	var pages [16]int64
	r.Report.Add("records", w.records)
	s, err := r.Loop(ctx, bench.Loop{
		Doing: "searching", Unit: "searches", Workers: 1, N: w.searches, Duration: w.duration, Warmup: true,
		Do: func(ctx context.Context, op *bench.Op) error {
			kind := int(op.I) % len(searchQueries)
			n := bench.Scramble(uint64(op.I))
			like := w.record(int(n % uint64(w.records)))
			q := searchQueries[kind].query(w, &like)
			q.Kind, q.Descending, q.Limit = searchKind, n%2 == 0, searchPage
			began := time.Now()
			found, looks, err := find(ctx, r.Store, q)
			if err != nil {
				return err
			}
			took[kind].Record(time.Since(began))
			pages[kind] += int64(looks)
			return checkFound(searchQueries[kind].name, &q, found)
		},
	})
	if err != nil {
		return err
	}
	r.Report.Add("searches", s.Count)
	r.Report.Add("duration_s", s.Elapsed)
	for i := range searchQueries {
		r.Report.Quantiles(searchQueries[i].name, "ms", &took[i])
		r.Report.Add(searchQueries[i].name+"_pages", float64(pages[i])/float64(max(took[i].Count(), 1)))
	}
	return nil
}

// find lists until there are as many records as the limit, or all, and returns how many pages it took.
func find(ctx context.Context, s store.Store, q store.Query) (found []store.Record, pages int, err error) {
	most := q.Limit
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return nil, 0, fmt.Errorf("bench: search: %w", err)
		}
		found = append(found, page.Records...)
		pages++
		if q.Cursor, q.Limit = page.Next, most-len(found); q.Cursor == "" || q.Limit == 0 {
			return found, pages, nil
		}
	}
}

// checkFound returns an error if a record does not match, or one that matches should have been found.
func checkFound(name string, q *store.Query, found []store.Record) error {
	for i := range found {
		r := &found[i]
		match := strings.HasPrefix(r.Key.ID, q.Prefix) && (q.From.IsZero() || !r.Time.Before(q.From)) && (q.To.IsZero() || r.Time.Before(q.To)) &&
			(len(q.Statuses) == 0 || q.Statuses[0] == r.Status)
		for tag, value := range q.Tags {
			match = match && r.Tags[tag] == value
		}
		if !match {
			return fmt.Errorf("bench: search %s: %v does not match %+v", name, r.Key, *q)
		}
	}
	if (len(found) == 0) != (name == "none") {
		return fmt.Errorf("bench: search %s: found %d records for %+v", name, len(found), *q)
	}
	return nil
}
