package storetest

import (
	"slices"
	"strings"

	"github.com/abidehq/abide/store"
)

// hostileNames are names that a store might confuse with each other, with a
// separator of its own, or with the end of a range. They are sorted.
var hostileNames = slices.Sorted(slices.Values([]string{
	"a", "a\x00", "a\x00\x00", "a\x00b", "a\x01", "a\xff", "ab", "A", "aa",
	"\x00", "\x00\x00", "\x00\x01", "\x00\xff", "\x01", "\xff", "\xff\x00", "\xff\xff",
	"/", "a/b", "a//b", "../a", ":", "a:b", "#", "a#b", "|", ",", ".", "-", "_", "*", "?", "%", "%s", "%00", "$1", "{a}",
	" ", "a ", " a", "\t", "\n", "a\nb", "\r\n", `"`, `'`, "`", `\`, `\x00`, "a'b", "'; DROP TABLE messages; --",
	"é", "e\u0301", "ß", "İ", "i", "日本語", "🙂", "\u202e", "\ufeff", "\u2028", "\ufffd",
	"\xc3\x28", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80", "a\x80", "\xc0\x80",
	"null", "nil", "true", "0", "1", "01", "1e3",
	strings.Repeat("x", store.MaxName), strings.Repeat("x", store.MaxName-1), strings.Repeat("x", store.MaxName-1) + "y",
	strings.Repeat("\x00", store.MaxName), strings.Repeat("\xff", store.MaxName), strings.Repeat("é", store.MaxName/2),
}))

var nameCases = []propertyCase{
	{name: "the name of a key may hold any bytes", run: func(w *world) {
		w.separateKeys(func(name string) store.Key { return keyIn(theQueue, theTenant, name) })
	}},

	{name: "a tenant may hold any bytes, or none", run: func(w *world) {
		w.separateKeys(func(name string) store.Key { return keyIn(theQueue, name, "order-1") }, "")
	}},

	{name: "names and tenants do not run into each other", run: func(w *world) {
		pairs := []store.Key{
			keyIn(theQueue, "a", "bc"), keyIn(theQueue, "ab", "c"), keyIn(theQueue, "", "abc"), keyIn(theQueue, "a\x00b", "c"),
			keyIn(theQueue, "a", "\x00b\x00c"), keyIn(theQueue, "a\x00", "b\x00c"), keyIn(theQueue, "a", "b/c"), keyIn(theQueue, "a/b", "c"),
			keyIn(theQueue, "\xff", "\xff"), keyIn(theQueue, "\xff\xff", "\x00"), keyIn(theQueue, "", "\xff\xff"), keyIn(theQueue, "", "\x00"),
		}
		for _, k := range pairs {
			w.put(k, "m")
			w.append(k, 0, k.String())
		}
		claims := w.claimAll()
		w.equal("number of claims", len(claims), len(pairs))
		for _, k := range pairs {
			w.isPending(k, "m")
			w.isLog(k, 0, k.String())
		}
	}},

	{name: "queues whose names begin alike are separate", run: func(w *world) {
		queues := []string{"a", "ab", "a/b", "A", "é", strings.Repeat("q", store.MaxQueue), strings.Repeat("q", store.MaxQueue-1)}
		for _, queue := range queues {
			w.put(keyIn(queue, "t", "k"), "m of "+queue)
			w.append(keyIn(queue, "t", "k"), 0, queue)
		}
		for _, queue := range queues {
			w.claimKey(keyIn(queue, "t", "k"), []string{"m of " + queue}, from(queue))
			w.isLog(keyIn(queue, "t", "k"), 0, queue)
		}
		w.equal("number of rows", len(w.stats().Routes), len(queues))
	}},

	{name: "the ID of a message may hold any bytes", run: func(w *world) {
		k := key("order-1")
		w.put(k, hostileNames...)
		w.isPending(k, hostileNames...)
		c := w.claimKey(k, hostileNames)
		for _, m := range c.Messages {
			w.sameBytes("body", m.Body, bodyOf(m.ID))
		}
		kept := hostileNames[:5]
		w.commit(&store.Tx{Finish: []store.Finish{finishing(c, kept...)}})
		w.isPending(k, kept...)
		w.remove(k, kept[0])
		w.isPending(k, kept[1:]...)
	}},

	{name: "a route may hold any bytes, and matches only itself", run: func(w *world) {
		for _, route := range hostileNames {
			w.putMessages(msg(key(route), "m", via(route)))
		}
		rows := w.stats().Routes
		w.equal("number of rows", len(rows), len(hostileNames))
		for i, row := range rows {
			w.equal("route of the row", row.Route == hostileNames[i], true)
		}
		for _, route := range hostileNames {
			w.equal("the route that was claimed is the one that was asked for", w.claimOne(serving(route)).Route == route, true)
		}
	}},

	{name: "the ID and the tenant of a record may hold any bytes", run: func(w *world) {
		for i, of := range []func(name string) store.RecordKey{
			func(name string) store.RecordKey { return store.RecordKey{Kind: "by ID", Tenant: "t", ID: name} },
			func(name string) store.RecordKey { return store.RecordKey{Kind: "by tenant", Tenant: name, ID: "r"} },
		} {
			for _, name := range hostileNames {
				w.commit(putTx(of(name), 0, name))
			}
			for _, name := range hostileNames {
				r := w.isVersion(of(name), 1)
				w.equal("the record is the one that was asked for", r.Key == of(name) && r.Status == name, true)
				if i == 1 {
					page := w.list(store.Query{Kind: "by tenant", Tenant: &name})
					w.equal("the tenant has its own record", len(page.Records) == 1 && page.Records[0].Status == name, true)
				}
			}
			w.equal("number of records", len(w.walk(store.Query{Kind: of("x").Kind, Limit: 7})), len(hostileNames))
			w.equal("number of records, descending", len(w.walk(store.Query{Kind: of("x").Kind, Limit: 7, Descending: true})), len(hostileNames))
			w.commit(dropTx(of(hostileNames[0]), 1))
			w.equal("number of records after a deletion", len(w.walk(store.Query{Kind: of("x").Kind})), len(hostileNames)-1)
		}
	}},

	{name: "kinds that begin alike are separate", run: func(w *world) {
		kinds := []string{"a", "ab", "a/b", "A", "é", strings.Repeat("k", store.MaxQueue), strings.Repeat("k", store.MaxQueue-1)}
		for _, kind := range kinds {
			w.commit(putTx(store.RecordKey{Kind: kind, ID: "r"}, 0, "status"))
		}
		for _, kind := range kinds {
			page := w.list(store.Query{Kind: kind})
			w.equal("number of records", len(page.Records), 1)
			w.equal("kind", page.Records[0].Key.Kind, kind)
			w.equal("number of records with a status", len(w.list(store.Query{Kind: kind, Statuses: []string{"status"}}).Records), 1)
		}
	}},

	{name: "the status, name and tags of a record may hold any bytes, and match only themselves", run: func(w *world) {
		for _, name := range hostileNames {
			w.putRecord(store.Record{
				Key: recordKey(name), Status: name, Name: name, Tags: map[string]string{name: "v", "t": name},
			})
		}
		for _, name := range hostileNames {
			for what, q := range map[string]store.Query{
				"status": {Statuses: []string{name}}, "name": {Names: []string{name}},
				"name of a tag": {Tags: map[string]string{name: "v"}}, "value of a tag": {Tags: map[string]string{"t": name}},
			} {
				page := w.list(q)
				if len(page.Records) != 1 || page.Records[0].Key.ID != name {
					w.t.Fatalf("%d records have the %s %.40q, want its own", len(page.Records), what, name)
				}
				r := page.Records[0]
				w.equal("the fields are as they were put", r.Status == name && r.Name == name && r.Tags[name] == "v" && r.Tags["t"] == name, true)
			}
		}
	}},

	{name: "hostile names go to quarantine and back", run: func(w *world) {
		for _, name := range hostileNames {
			w.putMessages(msg(keyIn(theQueue, name, name), name, via(name)))
		}
		for _, limit := range []int{0, 1} {
			for _, c := range w.claimAll(serving(hostileNames...), maxAttempts(limit)) {
				w.release(store.Release{Lease: c.Lease()})
			}
		}
		records := w.quarantined()
		w.equal("number of messages in quarantine", len(records), len(hostileNames))
		for _, r := range records {
			w.redrive(r)
		}
		for _, name := range hostileNames {
			c := w.claimOne(serving(name))
			w.equal("the claim is of the key that was quarantined", c.Key == keyIn(theQueue, name, name) && c.Messages[0].ID == name, true)
		}
	}},

	{name: "hostile names outlive the process", needsReopen: true, run: func(w *world) {
		for _, name := range hostileNames {
			w.putMessages(msg(keyIn(theQueue, name, name), name))
			w.putRecord(store.Record{Key: store.RecordKey{Kind: theKind, Tenant: name, ID: name}, Status: name})
		}
		w.Reopen()
		w.equal("number of claims", len(w.claimAll()), len(hostileNames))
		for _, name := range hostileNames {
			w.isPending(keyIn(theQueue, name, name), name)
			w.isVersion(store.RecordKey{Kind: theKind, Tenant: name, ID: name}, 1)
		}
	}},
}

// separateKeys checks that keys which differ only in a hostile name are separate in
// every way.
func (w *world) separateKeys(of func(name string) store.Key, more ...string) {
	w.t.Helper()
	names := append(slices.Clone(hostileNames), more...)
	for i, name := range names {
		w.putMessages(msg(of(name), "m", withBody([]byte(name))), msg(of(name), "n"))
		w.append(of(name), 0, name)
		if i%2 == 0 {
			w.remove(of(name), "n")
		}
	}
	claims := w.claimAll()
	w.equal("number of claims", len(claims), len(names))
	byKey := map[store.Key]store.Claim{}
	for _, c := range claims {
		byKey[c.Key] = c
	}
	for i, name := range names {
		k := of(name)
		want := []string{"m", "n"}[:1+i%2]
		w.isClaim(byKey[k], k, want...)
		w.sameBytes("body", byKey[k].Messages[0].Body, []byte(name))
		w.isPending(k, want...)
		w.isLog(k, 0, name)
	}
	w.finish(claims[0])
	w.commit(&store.Tx{DeleteKeys: []store.Key{claims[1].Key}})
	for _, c := range claims[2:] {
		w.isLive(c)
		w.isPending(c.Key, idsOf(c.Messages)...)
	}
}
