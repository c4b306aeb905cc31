package storetest

import (
	"slices"
	"time"

	"github.com/abidehq/abide/store"
)

var recordCases = slices.Concat(versionCases, fieldCases, listCases, cursorCases, countCases, awaitCases)

var versionCases = []propertyCase{
	{name: "a record that was never put is not found", run: func(w *world) {
		_, err := w.Store.Get(w.ctx, recordKey("order-1"))
		w.isErr("get", err, store.ErrNotFound)
		w.says(err, recordKey("order-1").String())
	}},

	{name: "a record starts at version 1 and grows by one with each put", run: func(w *world) {
		k := recordKey("order-1")
		for version := range int64(5) {
			w.commit(putTx(k, version, "running"))
			w.isVersion(k, version+1)
		}
	}},

	{name: "a record that is put at another version is a conflict and stays as it is", run: func(w *world) {
		k := recordKey("order-1")
		for _, expect := range []int64{1, 2, 1 << 40} {
			w.commitErr(putTx(k, expect, "running"), store.ErrConflict)
		}
		w.hasNoRecord(k)
		w.commit(putTx(k, 0, "running"))
		w.commit(putTx(k, 1, "done"))
		for _, expect := range []int64{0, 1, 3, 1 << 40} {
			w.commitErr(putTx(k, expect, "changed"), store.ErrConflict)
		}
		w.equal("status", w.isVersion(k, 2).Status, "done")
	}},

	{name: "the error of a version that differs names the record and both versions", run: func(w *world) {
		k := recordKey("order-1")
		w.commit(putTx(k, 0, "running"))
		w.commit(putTx(k, 1, "running"))
		for _, tx := range []*store.Tx{putTx(k, 17, "x"), dropTx(k, 17)} {
			err := w.Store.Commit(w.ctx, tx)
			w.isErr("commit", err, store.ErrConflict)
			w.says(err, k.String(), "2", "17")
		}
	}},

	{name: "a record can be put at any version", run: func(w *world) {
		k := recordKey("order-1")
		for version := range int64(3) {
			w.commit(putTx(k, store.AnyVersion, "running"))
			w.isVersion(k, version+1)
		}
	}},

	{name: "a record is deleted at its version and at no other", run: func(w *world) {
		k := recordKey("order-1")
		w.commit(putTx(k, 0, "running"))
		w.commit(putTx(k, 1, "running"))
		for _, expect := range []int64{1, 3} {
			w.commitErr(dropTx(k, expect), store.ErrConflict)
			w.isVersion(k, 2)
		}
		w.commit(dropTx(k, 2))
		w.hasNoRecord(k)
	}},

	{name: "a record can be deleted at any version", run: func(w *world) {
		k := recordKey("order-1")
		w.commit(putTx(k, 0, "running"))
		w.commit(putTx(k, 1, "running"))
		w.commit(dropTx(k, store.AnyVersion))
		w.hasNoRecord(k)
	}},

	{name: "deleting what does not exist does nothing at any version and conflicts at a version", run: func(w *world) {
		k := recordKey("order-1")
		w.commit(dropTx(k, store.AnyVersion))
		w.commitErr(dropTx(k, 1), store.ErrConflict)
		w.hasNoRecord(k)
	}},

	{name: "a record that is deleted and put again starts at version 1", run: func(w *world) {
		k := recordKey("order-1")
		w.commit(putTx(k, 0, "running"))
		w.commit(putTx(k, 1, "running"))
		w.commit(dropTx(k, 2))
		w.commitErr(putTx(k, 2, "running"), store.ErrConflict)
		w.commit(putTx(k, 0, "running"))
		w.isVersion(k, 1)
	}},

	{name: "the version in a record that is put does not matter", run: func(w *world) {
		k := recordKey("order-1")
		tx := putTx(k, 0, "running")
		tx.PutRecords[0].Record.Version = 99
		w.commit(tx)
		w.isVersion(k, 1)
	}},

	{name: "records of other kinds, tenants and IDs are other records", run: func(w *world) {
		keys := []store.RecordKey{
			{Kind: "k", Tenant: "t", ID: "i"}, {Kind: "k2", Tenant: "t", ID: "i"},
			{Kind: "k", Tenant: "t2", ID: "i"}, {Kind: "k", Tenant: "t", ID: "i2"}, {Kind: "k", ID: "i"},
		}
		for _, k := range keys {
			w.commit(putTx(k, 0, "status of "+k.String()))
		}
		for _, k := range keys {
			w.equal("status", w.isVersion(k, 1).Status, "status of "+k.String())
		}
		w.commit(dropTx(keys[0], 1))
		w.hasNoRecord(keys[0])
		for _, k := range keys[1:] {
			w.isVersion(k, 1)
		}
	}},

	{name: "one commit puts and deletes many records", run: func(w *world) {
		w.commit(putTx(recordKey("old-1"), 0, "x"))
		w.commit(putTx(recordKey("old-2"), 0, "x"))
		tx := &store.Tx{DeleteRecords: []store.DeleteRecord{
			{Key: recordKey("old-1"), Expect: 1}, {Key: recordKey("old-2"), Expect: store.AnyVersion},
		}}
		for _, id := range []string{"new-1", "new-2", "new-3"} {
			tx.PutRecords = append(tx.PutRecords, store.PutRecord{Record: store.Record{Key: recordKey(id)}})
		}
		w.commit(tx)
		w.isListed("all", store.Query{}, "new-1", "new-2", "new-3")
	}},

	{name: "records outlive their process", needsReopen: true, run: func(w *world) {
		r := fullRecord("order-1")
		w.putRecord(r)
		w.putRecord(r)
		w.commit(putTx(recordKey("order-2"), 0, "gone"))
		w.commit(dropTx(recordKey("order-2"), 1))
		w.Reopen()
		r.Version = 2
		w.sameRecord(w.get(r.Key), r)
		w.hasNoRecord(recordKey("order-2"))
		w.isListed("by status", store.Query{Statuses: []string{r.Status}}, "order-1")
		w.commitErr(putTx(r.Key, 1, "x"), store.ErrConflict)
		w.commit(putTx(r.Key, 2, "x"))
		w.isVersion(r.Key, 3)
	}},
}

var fieldCases = []propertyCase{
	{name: "a record comes back as it was put", run: func(w *world) {
		r := fullRecord("order-1")
		w.putRecord(r)
		r.Version = 1
		w.sameRecord(w.get(r.Key), r)
		page, err := w.Store.List(w.ctx, store.Query{Kind: theKind})
		if err != nil || len(page.Records) != 1 {
			w.t.Fatalf("list: %d records, %v; want one", len(page.Records), err)
		}
		w.sameRecord(page.Records[0], r)
	}},

	{name: "a put replaces the whole record", run: func(w *world) {
		r := fullRecord("order-1")
		w.putRecord(r)
		bare := store.Record{Key: r.Key, Time: time.Unix(5, 0)}
		w.putRecord(bare)
		bare.Version = 2
		w.sameRecord(w.get(r.Key), bare)
		w.isListed("the old status", store.Query{Statuses: []string{r.Status}})
		w.isListed("the old name", store.Query{Names: []string{r.Name}})
		w.isListed("the old tags", store.Query{Tags: r.Tags})
		w.isListed("the old time", store.Query{From: r.Time})
		w.isListed("all", store.Query{}, "order-1")
	}},

	{name: "the Time of a record is kept in milliseconds, rounded down", run: func(w *world) {
		for _, tc := range []struct{ put, want time.Time }{
			{time.Unix(100, 1_999_999), time.Unix(100, 1_000_000)},
			{time.Unix(100, 2_000_000), time.Unix(100, 2_000_000)},
			{time.Unix(0, 999_999), time.Unix(0, 0)},
			{time.Unix(0, 0), time.Unix(0, 0)},
			{time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC)},
			{time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 5400)), time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC)},
		} {
			w.putRecord(store.Record{Key: recordKey("order-1"), Time: tc.put})
			w.sameTime("time", w.get(recordKey("order-1")).Time, tc.want)
		}
	}},

	{name: "the zero Time of a record is kept as 1970", run: func(w *world) {
		w.putRecord(store.Record{Key: recordKey("order-1")})
		w.sameTime("time", w.get(recordKey("order-1")).Time, time.Unix(0, 0))
		w.isListed("until then", store.Query{To: time.Unix(0, 1_000_000)}, "order-1")
	}},

	{name: "a record may have no tags", run: func(w *world) {
		for _, tags := range []map[string]string{nil, {}} {
			w.putRecord(store.Record{Key: recordKey("order-1"), Tags: tags})
			w.equal("number of tags", len(w.get(recordKey("order-1")).Tags), 0)
		}
	}},

	{name: "the empty name and the empty value of a tag are kept", run: func(w *world) {
		tags := map[string]string{"": "a", "b": ""}
		w.putRecord(store.Record{Key: recordKey("order-1"), Tags: tags})
		w.equal("tags", w.get(recordKey("order-1")).Tags, tags)
	}},

	{name: "a store does not keep the record that it was given", run: func(w *world) {
		r := fullRecord("order-1")
		want := fullRecord("order-1")
		w.putRecord(r)
		r.Body[0]++
		r.Tags["color"] = "changed"
		r.Tags["more"] = "more"
		want.Version = 1
		w.sameRecord(w.get(r.Key), want)
	}},

	{name: "the record that a store returns is the caller's", run: func(w *world) {
		want := fullRecord("order-1")
		w.putRecord(want)
		want.Version = 1
		page, err := w.Store.List(w.ctx, store.Query{Kind: theKind})
		if err != nil || len(page.Records) != 1 {
			w.t.Fatalf("list: %d records, %v; want one", len(page.Records), err)
		}
		awaited, err := w.Store.Await(w.ctx, want.Key, 0)
		if err != nil {
			w.t.Fatalf("await: %v", err)
		}
		for _, r := range []store.Record{w.get(want.Key), page.Records[0], awaited} {
			r.Body[0]++
			r.Tags["color"] = "changed"
			w.sameRecord(w.get(want.Key), want)
		}
	}},
}

// putTx returns the Tx that puts a record with a status at an expected version.
func putTx(k store.RecordKey, expect int64, status string) *store.Tx {
	return &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: k, Status: status}, Expect: expect}}}
}

// dropTx returns the Tx that deletes a record at an expected version.
func dropTx(k store.RecordKey, expect int64) *store.Tx {
	return &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: k, Expect: expect}}}
}

// isVersion checks the version of a record, and returns the record.
func (w *world) isVersion(k store.RecordKey, version int64) store.Record {
	w.t.Helper()
	r := w.get(k)
	w.equal("version of "+k.String(), r.Version, version)
	return r
}

// fullRecord returns a record that has everything a record can have.
func fullRecord(id string) store.Record {
	return store.Record{
		Key: recordKey(id), Status: "running", Name: "order", Time: time.UnixMilli(1_700_000_000_123),
		Tags: map[string]string{"color": "red", "size": "L"}, Body: []byte("the body"),
	}
}

// sameRecord checks that two records have the same key, version and fields.
func (w *world) sameRecord(got, want store.Record) {
	w.t.Helper()
	what := want.Key.String()
	w.sameTime("time of "+what, got.Time, want.Time)
	w.sameBytes("body of "+what, got.Body, want.Body)
	w.equal("number of tags of "+what, len(got.Tags), len(want.Tags))
	for name, value := range want.Tags {
		w.equal("tag "+name+" of "+what, got.Tags[name], value)
	}
	got.Time, got.Body, got.Tags = want.Time, want.Body, want.Tags
	w.equal(what, got, want)
}
