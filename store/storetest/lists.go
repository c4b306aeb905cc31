package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

// listTime is the time of the first record of the lists.
var listTime = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// listed returns the records that most cases list, a second apart. In short:
//
//	a acme running order  red
//	b acme running refund blue
//	c acme done    order  red   L
//	d      running order
//	e      failed  refund red
//	f beta done    order        L
//	g beta running refund red   S
//	h beta         order  ""
func listed() []store.Record {
	record := func(i int, tenant, id, status, name string, tags map[string]string) store.Record {
		return store.Record{
			Key:    store.RecordKey{Kind: theKind, Tenant: tenant, ID: id},
			Status: status, Name: name, Tags: tags, Time: listTime.Add(time.Duration(i) * time.Second),
		}
	}
	return []store.Record{
		record(0, "acme", "a", "running", "order", map[string]string{"color": "red"}),
		record(1, "acme", "b", "running", "refund", map[string]string{"color": "blue"}),
		record(2, "acme", "c", "done", "order", map[string]string{"color": "red", "size": "L"}),
		record(3, "", "d", "running", "order", nil),
		record(4, "", "e", "failed", "refund", map[string]string{"color": "red"}),
		record(5, "beta", "f", "done", "order", map[string]string{"size": "L"}),
		record(6, "beta", "g", "running", "refund", map[string]string{"color": "red", "size": "S"}),
		record(7, "beta", "h", "", "order", map[string]string{"color": ""}),
	}
}

// putListed puts the records of [listed] in an order that is not that of the list,
// and some that no query finds because they are of another kind.
func (w *world) putListed() {
	w.t.Helper()
	records := listed()
	slices.Reverse(records)
	for _, r := range records {
		w.putRecord(r)
		for _, kind := range []string{theKind + "2", "inst", "other"} {
			r.Key.Kind = kind
			w.putRecord(r)
		}
	}
}

// second returns the time of the record with that index.
func second(i int) time.Time { return listTime.Add(time.Duration(i) * time.Second) }

var (
	acme, beta, nobody, noTenant = "acme", "beta", "nobody", ""
)

// listTable has a row for each way to filter and for combinations of them. The IDs
// are in the order of the list.
var listTable = []struct {
	name  string
	query store.Query
	want  string
}{
	{"everything", store.Query{}, "abcdefgh"},
	{"a tenant", store.Query{Tenant: &acme}, "abc"},
	{"the empty tenant", store.Query{Tenant: &noTenant}, "de"},
	{"a tenant without records", store.Query{Tenant: &nobody}, ""},
	{"a status", store.Query{Statuses: []string{"running"}}, "abdg"},
	{"one of several statuses", store.Query{Statuses: []string{"failed", "done"}}, "cef"},
	{"the empty status", store.Query{Statuses: []string{""}}, "h"},
	{"a status that is named twice", store.Query{Statuses: []string{"done", "done"}}, "cf"},
	{"a status that no record has", store.Query{Statuses: []string{"run"}}, ""},
	{"a name", store.Query{Names: []string{"refund"}}, "beg"},
	{"one of several names", store.Query{Names: []string{"refund", "order"}}, "abcdefgh"},
	{"a name that is named twice", store.Query{Names: []string{"refund", "refund"}}, "beg"},
	{"a name that no record has", store.Query{Names: []string{""}}, ""},
	{"a tag", store.Query{Tags: map[string]string{"color": "red"}}, "aceg"},
	{"several tags", store.Query{Tags: map[string]string{"color": "red", "size": "L"}}, "c"},
	{"a tag with an empty value", store.Query{Tags: map[string]string{"color": ""}}, "h"},
	{"a tag that no record has", store.Query{Tags: map[string]string{"shape": ""}}, ""},
	{"a prefix", store.Query{Prefix: "c"}, "c"},
	{"a prefix that no ID has", store.Query{Prefix: "aa"}, ""},
	{"a prefix that no ID has, after an ID", store.Query{Prefix: "c\x00"}, ""},
	{"a prefix of the largest byte", store.Query{Prefix: "\xff"}, ""},
	{"a tenant and a prefix", store.Query{Tenant: &acme, Prefix: "b"}, "b"},
	{"a tenant and a prefix of another's", store.Query{Tenant: &acme, Prefix: "d"}, ""},
	{"a tag and a prefix", store.Query{Tags: map[string]string{"color": "red"}, Prefix: "e"}, "e"},
	{"from a time, which is included", store.Query{From: second(5)}, "fgh"},
	{"from just after a time", store.Query{From: second(5).Add(1)}, "gh"},
	{"to a time, which is not included", store.Query{To: second(2)}, "ab"},
	{"to just after a time", store.Query{To: second(2).Add(1)}, "abc"},
	{"between two times", store.Query{From: second(2), To: second(5)}, "cde"},
	{"between a time and itself", store.Query{From: second(2), To: second(2)}, ""},
	{"between two times in the wrong order", store.Query{From: second(5), To: second(2)}, ""},
	{"from before 1970 to after 9999", store.Query{From: time.Unix(-1, 0), To: time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC)}, "abcdefgh"},
	{"a tenant and a status", store.Query{Tenant: &acme, Statuses: []string{"running"}}, "ab"},
	{"a tenant and one of several statuses", store.Query{Tenant: &acme, Statuses: []string{"running", "failed", "done"}}, "abc"},
	{"a tenant and a status that is named twice", store.Query{Tenant: &acme, Statuses: []string{"running", "done", "running"}}, "abc"},
	{"a tenant and a name", store.Query{Tenant: &beta, Names: []string{"order"}}, "fh"},
	{"the empty tenant and the empty status", store.Query{Tenant: &noTenant, Statuses: []string{""}}, ""},
	{"a status and a name", store.Query{Statuses: []string{"running"}, Names: []string{"order"}}, "ad"},
	{"a tenant and a time", store.Query{Tenant: &acme, From: second(1)}, "bc"},
	{"a status and a time", store.Query{Statuses: []string{"running", "failed"}, From: second(1), To: second(6)}, "bde"},
	{"a name and tags", store.Query{Names: []string{"order"}, Tags: map[string]string{"color": "red"}}, "ac"},
	{"all of them", store.Query{
		Tenant: &acme, Statuses: []string{"running", "done"}, Names: []string{"order", "refund"},
		From: second(0), To: second(2), Tags: map[string]string{"color": "blue"},
	}, "b"},
}

var listCases = []propertyCase{
	{name: "a list has the records that match every filter, in the order of their Time", run: func(w *world) {
		w.putListed()
		for _, row := range listTable {
			w.isListed(row.name, row.query, letters(row.want)...)
		}
	}},

	{name: "a descending list has the same records in the opposite order", run: func(w *world) {
		w.putListed()
		for _, row := range listTable {
			row.query.Descending = true
			want := letters(row.want)
			slices.Reverse(want)
			w.isListed(row.name+", descending", row.query, want...)
		}
	}},

	{name: "a walk in small pages has the same records as one large page", run: func(w *world) {
		w.putListed()
		for _, row := range listTable {
			for _, limit := range []int{1, 2, 3, 8, store.MaxPage} {
				row.query.Limit = limit
				w.isListed(fmt.Sprintf("%s, %d at a time", row.name, limit), row.query, letters(row.want)...)
			}
			row.query.Limit, row.query.Descending = 1, true
			want := letters(row.want)
			slices.Reverse(want)
			w.isListed(row.name+", one at a time, descending", row.query, want...)
		}
	}},

	{name: "a page has no more records than its limit, and DefaultPage if there is none", run: func(w *world) {
		w.putMany(store.DefaultPage + 50)
		for limit, most := range map[int]int{1: 1, 7: 7, 0: store.DefaultPage, 120: 120} {
			page := w.list(store.Query{Limit: limit})
			if n := len(page.Records); n == 0 || n > most || page.Next == "" {
				w.t.Fatalf("limit %d: a page of %d records, next %q; want 1 to %d and a next page", limit, n, page.Next, most)
			}
		}
		w.equal("number of records in a walk", len(w.walk(store.Query{})), store.DefaultPage+50)
	}},

	{name: "the last page has no next one", run: func(w *world) {
		w.putMany(5)
		w.equal("next of a page with room to spare", w.list(store.Query{Limit: 6}).Next, "")
		w.equal("next of an empty page", w.list(store.Query{Kind: "no such kind"}).Next, "")
	}},

	{name: "a list follows a record whose fields change", run: func(w *world) {
		r := fullRecord("a")
		w.putRecord(r)
		r.Status, r.Name, r.Time, r.Tags = "done", "refund", r.Time.Add(time.Hour), map[string]string{"color": "blue"}
		w.putRecord(r)
		w.isListed("the new status", store.Query{Statuses: []string{"done"}}, "a")
		w.isListed("the old status", store.Query{Statuses: []string{"running"}})
		w.isListed("the new name", store.Query{Names: []string{"refund"}}, "a")
		w.isListed("the old name", store.Query{Names: []string{"order"}})
		w.isListed("the new time", store.Query{From: r.Time}, "a")
		w.isListed("the old time", store.Query{To: r.Time})
		w.isListed("the new tag", store.Query{Tags: r.Tags}, "a")
		w.isListed("the old tag", store.Query{Tags: map[string]string{"size": "L"}})
	}},

	{name: "a list by tag follows a record whose Time alone changes", run: func(w *world) {
		for i, id := range []string{"a", "b", "c"} {
			r := fullRecord(id)
			r.Time = r.Time.Add(time.Duration(i) * time.Minute)
			w.putRecord(r)
		}
		r := fullRecord("a")
		r.Time = r.Time.Add(time.Hour)
		w.putRecord(r)
		w.isListed("the new time", store.Query{Tags: r.Tags, From: r.Time}, "a")
		w.isListed("the old time", store.Query{Tags: r.Tags, To: r.Time}, "b", "c")
		w.isListed("the order", store.Query{Tags: r.Tags}, "b", "c", "a")
	}},

	{name: "a list does not have what was deleted", run: func(w *world) {
		w.putListed()
		for _, id := range []string{"a", "c"} {
			w.commit(dropTx(recordKey(id), store.AnyVersion))
		}
		w.isListed("everything", store.Query{}, letters("bdefgh")...)
		w.isListed("a status", store.Query{Statuses: []string{"running"}}, letters("bdg")...)
	}},

	{name: "a prefix is bytes, and the ID may have any", run: func(w *world) {
		ids := append([]string{"order-1", "order-10", "order-2", "order", "Order-1", "\xff", "\xff\xff1", "a\x00b", "a\x00", "é", "e\u0301", "%", "_rder-1"}, hostileNames...)
		ids = slices.Compact(slices.Sorted(slices.Values(ids)))
		for i, id := range ids {
			for _, tenant := range []string{"", "t", "order"} {
				w.putRecord(store.Record{Key: store.RecordKey{Kind: theKind, Tenant: tenant, ID: id}, Time: second(i)})
			}
		}
		for _, prefix := range []string{"order-1", "order", "O", "\xff", "\xff\xff", "a\x00", "\xc3", "%", "_", "'", "\x00"} {
			var want []string
			for _, id := range ids {
				if strings.HasPrefix(id, prefix) {
					want = append(want, id)
				}
			}
			tenant := "t"
			for _, limit := range []int{1, 100} {
				q := store.Query{Prefix: prefix, Tenant: &tenant, Limit: limit}
				w.isListed(fmt.Sprintf("prefix %q", prefix), q, append([]string{}, want...)...)
			}
			w.isCounted(fmt.Sprintf("prefix %q, all tenants", prefix), store.Query{Prefix: prefix}, store.MaxCount, 3*len(want))
		}
	}},

	{name: "records with the same Time are listed in an order that does not change", run: func(w *world) {
		for i := range 20 {
			for _, tenant := range []string{"", "t", "u"} {
				k := store.RecordKey{Kind: theKind, Tenant: tenant, ID: fmt.Sprintf("%s%d", tenant, i*7%20)}
				w.putRecord(store.Record{Key: k, Time: listTime})
			}
		}
		first := w.walk(store.Query{})
		w.equal("number of records", len(first), 60)
		for _, limit := range []int{1, 7, 100} {
			w.equal("the list again", w.walk(store.Query{Limit: limit}), first)
		}
		slices.Sort(first)
		for _, limit := range []int{1, 7, 100} {
			down := w.walk(store.Query{Limit: limit, Descending: true})
			w.equal("the descending list again", w.walk(store.Query{Descending: true}), down)
			slices.Sort(down)
			w.equal("the records of the descending list", down, first)
		}
	}},
}

// letters returns the letters of a word.
func letters(word string) []string {
	list := []string{}
	for _, letter := range word {
		list = append(list, string(letter))
	}
	return list
}

// putMany puts n records, a second apart, in one commit.
func (w *world) putMany(n int) {
	w.t.Helper()
	var records []store.PutRecord
	for i := range n {
		r := store.Record{Key: recordKey(fmt.Sprintf("%04d", i)), Status: "running", Time: second(i)}
		records = append(records, store.PutRecord{Record: r})
	}
	for some := range slices.Chunk(records, 5_000) {
		w.commit(&store.Tx{PutRecords: some})
	}
}

// list returns one page, of the usual kind unless the query says otherwise.
func (w *world) list(q store.Query) store.Page {
	w.t.Helper()
	if q.Kind == "" {
		q.Kind = theKind
	}
	page, err := w.Store.List(w.ctx, q)
	if err != nil {
		w.t.Fatalf("list: %v", err)
	}
	return page
}

// walkWhile lists page by page until there is no next one, and calls between after
// each page. It returns the IDs in their order.
func (w *world) walkWhile(q store.Query, between func(page store.Page)) []string {
	w.t.Helper()
	ids := []string{}
	for pages := 0; ; pages++ {
		page := w.list(q)
		for i := range page.Records {
			ids = append(ids, page.Records[i].Key.ID)
		}
		if page.Next == "" {
			return ids
		}
		if pages > 10_000 {
			w.t.Fatalf("the list %+v does not end", q)
		}
		between(page)
		q.Cursor = page.Next
	}
}

// walk lists page by page and returns the IDs in their order.
func (w *world) walk(q store.Query) []string {
	w.t.Helper()
	return w.walkWhile(q, func(store.Page) {})
}

// isListed checks that a walk has exactly the records with these IDs, in this order.
func (w *world) isListed(what string, q store.Query, ids ...string) {
	w.t.Helper()
	if got := w.walk(q); !slices.Equal(got, ids) {
		w.t.Fatalf("list of %s: got %q, want %q", what, got, ids)
	}
}
