package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/abidehq/abide/store"
)

var countCases = []propertyCase{
	{name: "a count is the number of records that match every filter", run: func(w *world) {
		w.putListed()
		for _, row := range listTable {
			w.isCounted(row.name, row.query, store.MaxCount, len(row.want))
		}
		w.isCounted("another kind", store.Query{Kind: "other"}, store.MaxCount, len(listed()))
		w.isCounted("a kind without records", store.Query{Kind: "no such kind"}, store.MaxCount, 0)
	}},

	{name: "a count stops at its limit", run: func(w *world) {
		w.putListed()
		for _, row := range listTable {
			for limit := 1; limit <= len(row.want)+1; limit++ {
				w.isCounted(row.name, row.query, limit, min(limit, len(row.want)))
			}
		}
	}},

	{name: "a count does not end with a page", run: func(w *world) {
		const n = store.MaxPage + 50
		w.putMany(n)
		w.isCounted("everything", store.Query{}, store.MaxCount, n)
		w.isCounted("what has the empty name", store.Query{Names: []string{""}}, store.MaxCount, n)
		w.isCounted("all but the first and the last", store.Query{From: second(1), To: second(n - 1)}, store.MaxCount, n-2)
		w.isCounted("up to one less", store.Query{}, n-1, n-1)
		w.isCounted("up to just as many", store.Query{}, n, n)
	}},

	{name: "records of all tenants are counted together and those of each alone", run: func(w *world) {
		const tenants = 30
		tx := &store.Tx{}
		for i := range tenants {
			for j := range i {
				k := store.RecordKey{Kind: theKind, Tenant: fmt.Sprint(i), ID: fmt.Sprint(j)}
				tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: k, Status: "armed", Time: second(j)}})
			}
		}
		w.commit(tx)
		for i := range tenants {
			tenant := fmt.Sprint(i)
			w.isCounted("tenant "+tenant, store.Query{Tenant: &tenant}, store.MaxCount, i)
		}
		all := tenants * (tenants - 1) / 2
		w.isCounted("all tenants", store.Query{}, store.MaxCount, all)
		w.isCounted("a status of all tenants", store.Query{Statuses: []string{"armed"}}, store.MaxCount, all)
		w.isCounted("the first of all tenants", store.Query{To: second(1)}, store.MaxCount, tenants-1)
		w.isCounted("all tenants up to a limit", store.Query{}, all-1, all-1)
	}},

	{name: "tenants and statuses that begin like others are counted apart", run: func(w *world) {
		names := []string{"", "a", "ab", "a\x00", "\x01", "\xff", strings.Repeat("a", 127), strings.Repeat("a", 128), strings.Repeat("a", store.MaxName)}
		tx := &store.Tx{}
		for _, tenant := range names {
			for _, status := range names {
				k := store.RecordKey{Kind: theKind, Tenant: tenant, ID: "of status " + status[:min(len(status), 9)] + fmt.Sprint(len(status))}
				tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: k, Status: status}})
			}
		}
		w.commit(tx)
		for _, name := range names {
			w.isCounted(fmt.Sprintf("tenant %.9q", name), store.Query{Tenant: &name}, store.MaxCount, len(names))
			w.isCounted(fmt.Sprintf("status %.9q", name), store.Query{Statuses: []string{name}}, store.MaxCount, len(names))
			w.isCounted(fmt.Sprintf("both %.9q", name), store.Query{Tenant: &name, Statuses: []string{name}}, store.MaxCount, 1)
		}
		w.isCounted("everything", store.Query{}, store.MaxCount, len(names)*len(names))
	}},

	{name: "a count follows a record whose fields change", run: func(w *world) {
		r := fullRecord("a")
		w.putRecord(r)
		before := []store.Query{{Statuses: []string{r.Status}}, {Names: []string{r.Name}}, {To: r.Time.Add(1)}, {Tags: r.Tags}}
		for _, q := range before {
			w.isCounted("what it is", q, store.MaxCount, 1)
		}
		r.Status, r.Name, r.Time, r.Tags = "done", "refund", second(1_000_000), map[string]string{"color": "blue"}
		w.putRecord(r)
		for _, q := range before {
			w.isCounted("what it was", q, store.MaxCount, 0)
		}
		for _, q := range []store.Query{{Statuses: []string{r.Status}}, {Names: []string{r.Name}}, {From: r.Time}, {Tags: r.Tags}, {}} {
			w.isCounted("what it has become", q, store.MaxCount, 1)
		}
	}},

	{name: "what was deleted is not counted until it is put again", run: func(w *world) {
		w.putListed()
		gone := []string{"a", "c"}
		for _, id := range gone {
			w.commit(dropTx(recordKey(id), store.AnyVersion))
		}
		w.isCounted("everything", store.Query{}, store.MaxCount, 6)
		w.isCounted("a tenant", store.Query{Tenant: &acme}, store.MaxCount, 1)
		w.isCounted("a status", store.Query{Statuses: []string{"running"}}, store.MaxCount, 3)
		w.isCounted("a tag", store.Query{Tags: map[string]string{"color": "red"}}, store.MaxCount, 2)
		w.isCounted("up to as many as there were", store.Query{}, 8, 6)
		for _, id := range gone {
			w.commit(putTx(recordKey(id), 0, "running"))
		}
		w.isCounted("a status, again", store.Query{Statuses: []string{"running"}}, store.MaxCount, 5)
	}},

	{name: "a commit that is refused is not counted", run: func(w *world) {
		w.commit(putTx(recordKey("a"), 0, "running"))
		tx := putTx(recordKey("b"), 0, "running")
		tx.PutRecords = append(tx.PutRecords, putTx(recordKey("a"), 7, "done").PutRecords...)
		w.commitErr(tx, store.ErrConflict)
		w.isCounted("a status", store.Query{Statuses: []string{"running"}}, store.MaxCount, 1)
		w.isCounted("everything", store.Query{}, store.MaxCount, 1)
	}},

	{name: "a commit is counted as a whole or not at all", run: func(w *world) {
		// Each commit has all three records change sides, the second against the others.
		swap := func(i int) *store.Tx {
			tx := &store.Tx{}
			for j, id := range []string{"a", "b", "c"} {
				status := []string{"running", "done"}[(i+j%2)%2]
				tx.PutRecords = append(tx.PutRecords, putTx(recordKey(id), store.AnyVersion, status).PutRecords...)
			}
			return tx
		}
		w.commit(swap(0))
		const counters, each = 3, 150
		var left, swaps atomic.Int64
		left.Store(counters)
		errs := together(counters+1, func(i int) error {
			if i == counters {
				defer swaps.Store(each) // also when it fails
				for left.Load() > 0 {
					if err := w.Store.Commit(w.ctx, swap(int(swaps.Add(1)))); err != nil {
						return err
					}
				}
				return nil
			}
			defer left.Add(-1)
			for n := 0; n < each || swaps.Load() < each; n++ {
				if err := w.counts(3, store.Query{Tenant: &acme, Statuses: []string{"running", "done"}}); err != nil {
					return err
				}
				if err := w.counts(3, store.Query{Statuses: []string{"running", "done"}}); err != nil {
					return err
				}
			}
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			w.t.Fatal(err)
		}
	}},

	{name: "a count ends when its context does", run: func(w *world) {
		w.putListed()
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		_, err := w.Store.Count(ctx, store.Query{Kind: theKind}, 1)
		w.isErr("count", err, context.Canceled)
		w.isCounted("everything", store.Query{}, store.MaxCount, len(listed()))
	}},

	{name: "a store that is opened again counts what it counted", needsReopen: true, run: func(w *world) {
		w.putListed()
		w.commit(dropTx(recordKey("a"), store.AnyVersion))
		w.Reopen()
		w.isCounted("everything", store.Query{}, store.MaxCount, 7)
		w.isCounted("a tenant and a status", store.Query{Tenant: &acme, Statuses: []string{"running"}}, store.MaxCount, 1)
	}},
}

// counts returns an error unless so many records of the usual kind match q. It may be
// called by any goroutine.
func (w *world) counts(want int, q store.Query) error {
	q.Kind = theKind
	n, err := w.Store.Count(w.ctx, q, store.MaxCount)
	if err != nil {
		return err
	}
	if n != want {
		return fmt.Errorf("count of %q: got %d, want %d", q.Statuses, n, want) //nolint:err113 // it is only ever printed
	}
	return nil
}

// isCounted checks a count, of the usual kind unless the query says otherwise.
func (w *world) isCounted(what string, q store.Query, limit, want int) {
	w.t.Helper()
	if q.Kind == "" {
		q.Kind = theKind
	}
	n, err := w.Store.Count(w.ctx, q, limit)
	if err != nil {
		w.t.Fatalf("count %s: %v", what, err)
	}
	if n != want {
		w.t.Fatalf("count of %s up to %d: got %d, want %d", what, limit, n, want)
	}
}

// countRules break the rules of counts.
func countRules() (rules []rule) {
	count := func(name string, q store.Query, limit int, tooLarge bool, says ...string) {
		rules = append(rules, rule{"count: " + name, func(ctx context.Context, s store.Store) error {
			_, err := s.Count(ctx, q, limit)
			return err
		}, tooLarge, append(says, "count")})
	}
	count("no kind", store.Query{}, 1, false, "kind")
	count("a kind that is too long", store.Query{Kind: longQueue}, 1, true, "kind", "128")
	count("a negative limit", store.Query{Kind: theKind}, -1, false, "limit is -1", "1 to 100000000")
	count("no limit", store.Query{Kind: theKind}, 0, false, "limit is 0", "1 to 100000000")
	count("a limit that is too large", store.Query{Kind: theKind}, store.MaxCount+1, false, "limit is 100000001", "1 to 100000000")
	count("a query with Limit", store.Query{Kind: theKind, Limit: 5}, 1, false, "Limit", "5", "must not be set")
	count("a query with Cursor", store.Query{Kind: theKind, Cursor: "x"}, 1, false, "Cursor", "must not be set")
	count("a query with Descending", store.Query{Kind: theKind, Descending: true}, 1, false, "Descending", "must not be set")
	return rules
}
