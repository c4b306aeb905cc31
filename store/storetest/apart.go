package storetest

import (
	"maps"
	"slices"

	"github.com/abidehq/abide/store"
)

// A store may keep tenants in different places, and refuse commits over several of them: see
// [Backend.Apart].
var apartCases = []propertyCase{
	{name: "a commit over tenants that are kept apart is too large, and changes nothing", needsApart: true, run: func(w *world) {
		a, b := w.twoApart()
		tx := &store.Tx{
			Put:        []store.Message{msg(keyIn(theQueue, a, "order-1"), "m")},
			PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: theKind, Tenant: b, ID: "r"}}}},
		}
		w.commitErr(tx, store.ErrTooLarge)
		w.isPending(keyIn(theQueue, a, "order-1"))
		w.hasNoRecord(store.RecordKey{Kind: theKind, Tenant: b, ID: "r"})
	}},

	{name: "items of tenants that are kept apart are committed by Split", needsApart: true, run: func(w *world) {
		a, b := w.twoApart()
		var items []store.Message
		for _, tenant := range []string{a, b, b, a, b} {
			items = append(items, msg(keyIn(theQueue, tenant, string(rune('0'+len(items)))), "m"))
		}
		store.Split(items, func(items []store.Message) error { return w.Store.Commit(w.ctx, &store.Tx{Put: items}) })
		for i := range items {
			w.isPending(items[i].Key, "m")
		}
	}},
}

// twoApart returns two tenants that are kept apart.
func (w *world) twoApart() (a, b string) {
	w.t.Helper()
	for c := 'a'; c <= 'z'; c++ {
		if b = string(c); w.Apart(a, b) {
			return a, b
		}
	}
	w.t.Fatal("all tenants are kept in one place")
	return "", ""
}

// spans reports whether a store that keeps tenants apart refuses tx because of that.
func (b *Backend) spans(tx *store.Tx) bool {
	if b.Apart == nil {
		return false
	}
	tenants := tenantsOf(tx)
	return slices.ContainsFunc(tenants, func(t string) bool { return b.Apart(tenants[0], t) })
}

// tenantsOf returns the tenants of tx, each once.
func tenantsOf(tx *store.Tx) []string {
	seen := map[string]bool{}
	eachTenant(tx, func(tenant string, _ func(*store.Tx)) { seen[tenant] = true })
	return slices.Sorted(maps.Keys(seen))
}

// parts returns what tx does as several, each of tenants that are kept together.
func (b *Backend) parts(tx *store.Tx) (parts []*store.Tx) {
	var firsts []string // a tenant of each part
	eachTenant(tx, func(tenant string, add func(*store.Tx)) {
		i := slices.IndexFunc(firsts, func(first string) bool { return !b.Apart(first, tenant) })
		if i < 0 {
			i = len(firsts)
			firsts, parts = append(firsts, tenant), append(parts, &store.Tx{})
		}
		add(parts[i])
	})
	return parts
}

// eachTenant calls f with the tenant of each thing that tx does, and with what adds the same
// thing to another Tx.
func eachTenant(tx *store.Tx, f func(tenant string, add func(*store.Tx))) {
	for _, v := range tx.Finish {
		f(v.Lease.Key.Tenant, func(tx *store.Tx) { tx.Finish = append(tx.Finish, v) })
	}
	for _, v := range tx.DeleteKeys {
		f(v.Tenant, func(tx *store.Tx) { tx.DeleteKeys = append(tx.DeleteKeys, v) })
	}
	for _, v := range tx.Trim {
		f(v.Key.Tenant, func(tx *store.Tx) { tx.Trim = append(tx.Trim, v) })
	}
	for _, v := range tx.Append {
		f(v.Key.Tenant, func(tx *store.Tx) { tx.Append = append(tx.Append, v) })
	}
	for _, v := range tx.Put {
		f(v.Key.Tenant, func(tx *store.Tx) { tx.Put = append(tx.Put, v) })
	}
	for _, v := range tx.Retime {
		f(v.Ref.Key.Tenant, func(tx *store.Tx) { tx.Retime = append(tx.Retime, v) })
	}
	for _, v := range tx.Delete {
		f(v.Key.Tenant, func(tx *store.Tx) { tx.Delete = append(tx.Delete, v) })
	}
	for _, v := range tx.PutRecords {
		f(v.Record.Key.Tenant, func(tx *store.Tx) { tx.PutRecords = append(tx.PutRecords, v) })
	}
	for _, v := range tx.DeleteRecords {
		f(v.Key.Tenant, func(tx *store.Tx) { tx.DeleteRecords = append(tx.DeleteRecords, v) })
	}
}
