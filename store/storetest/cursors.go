package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

var cursorCases = []propertyCase{
	{name: "a walk continues when the record that its cursor points at is deleted", run: func(w *world) {
		for _, descending := range []bool{false, true} {
			for _, statuses := range [][]string{nil, {"running"}} {
				w.putAgain(12)
				q := store.Query{Limit: 3, Descending: descending, Statuses: statuses}
				got := w.walkWhile(q, func(page store.Page) {
					if n := len(page.Records); n > 0 {
						w.commit(dropTx(page.Records[n-1].Key, store.AnyVersion))
					}
				})
				w.eachOnce(got, 12)
			}
		}
	}},

	{name: "a walk has every record once when others are put before and behind it", run: func(w *world) {
		for _, descending := range []bool{false, true} {
			w.putAgain(12)
			i := 0
			got := w.walkWhile(store.Query{Limit: 2, Descending: descending}, func(store.Page) {
				if i++; i > 10 {
					return // or an ascending walk would never end
				}
				for _, t := range []time.Time{second(-i), second(i).Add(500 * time.Millisecond), second(100 + i)} {
					k := recordKey(fmt.Sprintf("new-%v-%d", descending, t.UnixMilli()))
					w.putRecord(store.Record{Key: k, Status: "running", Time: t})
				}
			})
			w.eachOnce(slices.DeleteFunc(got, isNew), 12)
		}
	}},

	{name: "a walk has every record once when its status changes and still matches", run: func(w *world) {
		for _, descending := range []bool{false, true} {
			w.putAgain(12)
			q := store.Query{Limit: 2, Descending: descending, Statuses: []string{"running", "done"}}
			status := []string{"done", "running"}
			i := 0
			got := w.walkWhile(q, func(store.Page) {
				// All change back and forth: those that were seen, those that were not, and
				// that which the cursor points at.
				for j := range 12 {
					r := store.Record{Key: recordKey(fmt.Sprintf("%04d", j)), Status: status[(i+j)%2], Time: second(j)}
					w.putRecord(r)
				}
				i++
			})
			w.eachOnce(got, 12)
		}
	}},

	{name: "a walk has every record once when others leave the list", run: func(w *world) {
		for _, descending := range []bool{false, true} {
			w.putAgain(20)
			q := store.Query{Limit: 2, Descending: descending, Statuses: []string{"running"}}
			i := 0
			got := w.walkWhile(q, func(store.Page) {
				// The odd ones leave, from both ends, by deletion or by a change of status.
				for _, j := range []int{2*i + 1, 19 - 2*i} {
					k := recordKey(fmt.Sprintf("%04d", j))
					if i%2 == 0 {
						w.commit(dropTx(k, store.AnyVersion))
					} else {
						w.putRecord(store.Record{Key: k, Status: "done", Time: second(j)})
					}
				}
				i++
			})
			seen := map[string]int{}
			for _, id := range got {
				seen[id]++
			}
			for j := range 20 {
				id := fmt.Sprintf("%04d", j)
				if n := seen[id]; n > 1 || j%2 == 0 && n != 1 {
					w.t.Fatalf("record %s was listed %d times (descending: %v), all: %v", id, n, descending, got)
				}
			}
		}
	}},

	{name: "a walk over records with the same Time has every one once while others come and go", run: func(w *world) {
		for _, descending := range []bool{false, true} {
			var want []string
			for i := range 12 {
				id := fmt.Sprintf("%04d", 10*i)
				w.putRecord(store.Record{Key: recordKey(id), Time: listTime})
				want = append(want, id)
			}
			i := 0
			got := w.walkWhile(store.Query{Limit: 1, Descending: descending}, func(store.Page) {
				if i++; i > 10 {
					return // or an ascending walk would never end
				}
				w.putRecord(store.Record{Key: recordKey(fmt.Sprintf("%04d-new", 10*i+5)), Time: listTime})
				w.commit(dropTx(recordKey(fmt.Sprintf("%04d-new", 10*i-35)), store.AnyVersion))
			})
			got = slices.DeleteFunc(got, isNew)
			slices.Sort(got)
			w.equal("records", got, want)
		}
	}},

	{name: "a cursor of a walk outlives the process", needsReopen: true, run: func(w *world) {
		w.putMany(12)
		got := w.walkWhile(store.Query{Limit: 4}, func(store.Page) { w.Reopen() })
		w.eachOnce(got, 12)
	}},

	{name: "a cursor that is none is invalid", run: func(w *world) {
		w.putMany(3)
		for _, cursor := range []string{"x", "0001", "!", "\x00", "\xff\xfe", "null", "{}", "e30", strings.Repeat("A", 10_000)} {
			_, err := w.Store.List(w.ctx, store.Query{Kind: theKind, Cursor: cursor})
			if err == nil {
				w.t.Fatalf("cursor %.20q is accepted", cursor)
			}
			w.isErr(fmt.Sprintf("cursor %.20q", cursor), err, store.ErrInvalid)
			w.says(err, "cursor")
		}
	}},

	{name: "a cursor of another kind or direction is invalid", run: func(w *world) {
		w.putMany(3)
		w.putRecord(store.Record{Key: store.RecordKey{Kind: "other", ID: "x"}})
		cursor := w.list(store.Query{Limit: 1}).Next
		w.equal("number of records in the second page", len(w.list(store.Query{Limit: 1, Cursor: cursor}).Records), 1)
		for _, q := range []store.Query{
			{Kind: "other", Cursor: cursor},
			{Kind: theKind, Cursor: cursor, Descending: true},
		} {
			_, err := w.Store.List(w.ctx, q)
			w.isErr("list with a cursor of another query", err, store.ErrInvalid)
		}
	}},
}

func isNew(id string) bool { return strings.Contains(id, "new") }

// putAgain puts the n records of [world.putMany], whatever was there.
func (w *world) putAgain(n int) {
	w.t.Helper()
	for _, id := range w.walk(store.Query{}) {
		w.commit(dropTx(recordKey(id), store.AnyVersion))
	}
	w.putMany(n)
}

// eachOnce checks that a walk had the n records of [world.putMany], each once.
func (w *world) eachOnce(got []string, n int) {
	w.t.Helper()
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprintf("%04d", i)
	}
	sorted := slices.Sorted(slices.Values(got))
	if !slices.Equal(sorted, want) {
		w.t.Fatalf("the walk had %v, want each of %d records once", got, n)
	}
}
