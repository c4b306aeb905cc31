package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/store"
)

// rule is a rule of a call's arguments, with a call that breaks it.
type rule struct {
	name string
	call func(ctx context.Context, s store.Store) error

	// tooLarge says that the error is of a limit and names it.
	tooLarge bool

	// says are words of the error: what is wrong, and what is allowed.
	says []string
}

var validationCases = []propertyCase{
	{name: "a commit that breaks a rule is refused", run: refuses(keyRules, messageRules, recordRules, txRules)},
	{name: "a claim that breaks a rule is refused", run: refuses(claimRules)},
	{name: "a renewal or release that breaks a rule is refused", run: refuses(leaseRules)},
	{name: "a reading that breaks a rule is refused", run: refuses(readRules, countRules)},

	{name: "what is allowed at the edge of a rule is accepted", run: func(w *world) {
		longest := strings.Repeat("x", store.MaxName)
		k := store.Key{Queue: strings.Repeat("q", store.MaxQueue), Tenant: longest, Name: longest}
		w.putMessages(store.Message{
			Key: k, ID: longest, Route: longest, TTL: store.MaxTTL, Attempt: -7,
			VisibleAt: time.Date(1815, 12, 10, 0, 0, 0, 0, time.UTC),
		})
		req := store.ClaimRequest{
			Queue: k.Queue, Routes: []string{longest}, Max: store.MaxClaim,
			MaxMessages: store.MaxMessages, Lease: store.MaxLease, MaxAttempts: 1,
		}
		claims, err := w.Store.Claim(w.ctx, req)
		if err != nil || len(claims) != 1 {
			w.t.Fatalf("claim: %d claims, error %v; want one", len(claims), err)
		}
		w.equal("lost leases", len(w.renew(store.MaxLease, claims[0].Lease())), 0)
		w.release(store.Release{Lease: claims[0].Lease(), After: store.MaxDelay})
		pending, err := w.Store.Pending(w.ctx, k, store.MaxPage)
		if err != nil || len(pending) != 1 {
			w.t.Fatalf("pending: %d messages, error %v; want one", len(pending), err)
		}
		w.sameTime("VisibleAt", pending[0].VisibleAt, w.in(store.MaxDelay))

		tags := map[string]string{longest: longest}
		for i := range store.MaxTags - 1 {
			tags[fmt.Sprint(i)] = "v"
		}
		r := store.Record{
			Key:    store.RecordKey{Kind: strings.Repeat("k", store.MaxQueue), Tenant: longest, ID: longest},
			Status: longest, Name: longest, Tags: tags, Time: time.UnixMilli(0),
		}
		w.putRecord(r)
		r.Version = 1
		w.sameRecord(w.get(r.Key), r)
		w.equal("number of records", len(w.list(store.Query{Kind: r.Key.Kind, Limit: store.MaxPage}).Records), 1)
	}},
}

// refuses returns the case that all rules are kept: a call that breaks one gets an
// error that says so, and changes nothing.
func refuses(tables ...func() []rule) func(w *world) {
	return func(w *world) {
		k := key("order-1")
		w.put(k, "m")
		w.append(k, 0, "entry")
		w.commit(putTx(recordKey("r"), 0, "running"))
		for _, rules := range tables {
			for _, r := range rules() {
				w.refuses(r)
			}
		}
	}
}

// refuses checks that the call of a rule gets its error and changes nothing.
func (w *world) refuses(r rule) {
	w.t.Helper()
	before := w.snapshot()
	err := r.call(w.ctx, w.Store)
	if err == nil {
		w.t.Fatalf("%s: accepted", r.name)
	}
	w.isErr(r.name, err, store.ErrInvalid)
	if r.tooLarge {
		w.isErr(r.name, err, store.ErrTooLarge)
		w.says(err, "at most")
	}
	w.says(err, append(r.says, "store: ")...)
	w.equal("the store after "+r.name, w.snapshot(), before)
}

// snapshot returns all that a call which is refused might have changed.
func (w *world) snapshot() string {
	w.t.Helper()
	k := key("order-1")
	stats := w.stats()
	stats.Bytes = 0 // it is about, and changes when a server tidies up
	return fmt.Sprint(w.pending(k), w.logTexts(k), stats, w.list(store.Query{}).Records, w.quarantined())
}

// tooLong is a name that is one byte too long.
var tooLong = strings.Repeat("x", store.MaxName+1)

// longQueue is the name of a queue, or a kind, that is one byte too long.
var longQueue = strings.Repeat("q", store.MaxQueue+1)

// commits returns a call that commits tx together with what is valid, and must not
// take effect either.
func commits(tx store.Tx) func(ctx context.Context, s store.Store) error {
	tx.Put = append([]store.Message{msg(key("order-1"), "valid")}, tx.Put...)
	tx.PutRecords = append([]store.PutRecord{{Record: store.Record{Key: recordKey("valid")}}}, tx.PutRecords...)
	return func(ctx context.Context, s store.Store) error { return s.Commit(ctx, &tx) }
}

// badKeys are the ways in which a key can break a rule.
var badKeys = []struct {
	name     string
	key      store.Key
	tooLarge bool
	says     string
}{
	{"a key without a queue", store.Key{Tenant: "t", Name: "k"}, false, "queue"},
	{"a key without a name", store.Key{Queue: "q", Tenant: "t"}, false, "name"},
	{"a key whose queue is too long", store.Key{Queue: longQueue, Name: "k"}, true, "128"},
	{"a key whose tenant is too long", store.Key{Queue: "q", Tenant: tooLong, Name: "k"}, true, "1024"},
	{"a key whose name is too long", store.Key{Queue: "q", Name: tooLong}, true, "1024"},
}

// keyRules break the rules of keys in every part of a Tx.
func keyRules() (rules []rule) {
	for _, bad := range badKeys {
		one := store.MessageRef{Key: bad.key, ID: "m"}
		for part, tx := range map[string]store.Tx{
			"Finish":     {Finish: []store.Finish{{Lease: store.Lease{Key: bad.key, Token: "x"}}}},
			"DeleteKeys": {DeleteKeys: []store.Key{key("order-1"), bad.key}},
			"Trim":       {Trim: []store.Trim{{Key: bad.key}}},
			"Append":     {Append: []store.Append{{Key: bad.key, Entries: entries("x")}}},
			"Put":        {Put: []store.Message{{Key: bad.key, ID: "m"}}},
			"Retime":     {Retime: []store.Retime{{Ref: one}}},
			"Delete":     {Delete: []store.MessageRef{ref(key("order-1"), "m"), one}},
		} {
			rules = append(rules, rule{bad.name + " in " + part, commits(tx), bad.tooLarge, []string{"commit", bad.says}})
		}
	}
	return rules
}

func messageRules() (rules []rule) {
	put := func(name string, m store.Message, tooLarge bool, says ...string) {
		m.Key = key("order-1")
		rules = append(rules, rule{name, commits(store.Tx{Put: []store.Message{m}}), tooLarge, append(says, "commit")})
	}
	year10000 := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	put("a message without an ID", store.Message{}, false, "ID", "turns/acme/order-1")
	put("a message whose ID is too long", store.Message{ID: tooLong}, true, "ID", "1025", "1024")
	put("a message with IfRouted and a route", store.Message{ID: "x", IfRouted: true, Route: "r"}, false, "IfRouted", `route "r"`, "only one")
	put("a message with IfRouted and a TTL", store.Message{ID: "x", IfRouted: true, TTL: time.Second}, false, "IfRouted", "TTL", "only one")
	put("a message whose route is too long", store.Message{ID: "x", Route: tooLong}, true, "route", "1025", "1024")
	put("a message with a negative TTL", store.Message{ID: "x", TTL: -1}, false, "TTL", "-1ns", store.MaxTTL.String())
	put("a message with a TTL that is too long", store.Message{ID: "x", TTL: store.MaxTTL + 1}, false, "TTL", store.MaxTTL.String())
	put("a message that is visible after the year 9999", store.Message{ID: "x", VisibleAt: year10000}, false, "VisibleAt", "10000")
	put("a message whose body is too large", store.Message{ID: "x", Body: make([]byte, store.MaxBody+1)}, true, "body", fmt.Sprint(store.MaxBody))
	for name, tx := range map[string]store.Tx{
		"a message to re-time without an ID":    {Retime: []store.Retime{{Ref: ref(key("order-1"), "")}}},
		"a message to delete without an ID":     {Delete: []store.MessageRef{ref(key("order-1"), "")}},
		"a message that is re-timed to 10000":   {Retime: []store.Retime{{Ref: ref(key("order-1"), "m"), VisibleAt: year10000}}},
		"a message to delete by an ID too long": {Delete: []store.MessageRef{ref(key("order-1"), tooLong)}},
	} {
		rules = append(rules, rule{name, commits(tx), strings.Contains(name, "long"), []string{"commit"}})
	}
	return rules
}

func recordRules() (rules []rule) {
	put := func(name string, r store.Record, tooLarge bool, says ...string) {
		if r.Key == (store.RecordKey{}) {
			r.Key = recordKey("r")
		}
		tx := store.Tx{PutRecords: []store.PutRecord{{Record: r, Expect: store.AnyVersion}}}
		rules = append(rules, rule{name, commits(tx), tooLarge, append(says, "commit")})
	}
	tags := map[string]string{}
	for i := range store.MaxTags + 1 {
		tags[fmt.Sprint(i)] = "v"
	}
	put("a record without a kind", store.Record{Key: store.RecordKey{ID: "r"}}, false, "kind")
	put("a record without an ID", store.Record{Key: store.RecordKey{Kind: theKind}}, false, "ID", theKind)
	put("a record whose kind is too long", store.Record{Key: store.RecordKey{Kind: longQueue, ID: "r"}}, true, "kind", "129", "128")
	put("a record whose tenant is too long", store.Record{Key: store.RecordKey{Kind: "k", Tenant: tooLong, ID: "r"}}, true, "tenant", "1024")
	put("a record whose ID is too long", store.Record{Key: store.RecordKey{Kind: "k", ID: tooLong}}, true, "ID", "1024")
	put("a record whose status is too long", store.Record{Status: tooLong}, true, "status", "1024")
	put("a record whose name is too long", store.Record{Name: tooLong}, true, "name", "1024")
	put("a record with too many tags", store.Record{Tags: tags}, true, "tags", "65", "64")
	put("a record with a tag whose name is too long", store.Record{Tags: map[string]string{tooLong: "v"}}, true, "name of a tag", "1024")
	put("a record with a tag whose value is too long", store.Record{Tags: map[string]string{"t": tooLong}}, true, "value of a tag", "1024")
	put("a record whose Time is before 1970", store.Record{Time: time.Unix(-1, 0)}, false, "Time", "1970", "9999")
	put("a record whose Time is after 9999", store.Record{Time: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}, false, "Time", "9999")
	put("a record whose body is too large", store.Record{Body: make([]byte, store.MaxRecord+1)}, true, "body", fmt.Sprint(store.MaxRecord))
	for name, tx := range map[string]*store.Tx{
		"a record put at a negative version":     putTx(recordKey("r"), -2, "x"),
		"a record deleted at a negative version": dropTx(recordKey("r"), -2),
		"a record deleted at version 0":          dropTx(recordKey("r"), 0),
	} {
		rules = append(rules, rule{name, commits(*tx), false, []string{"commit", "version", "AnyVersion", "instance/acme/r"}})
	}
	vouched := putTx(recordKey("r"), 1, "x")
	vouched.PutRecords[0].New = true
	rules = append(rules, rule{"a record that is new and expected at a version", commits(*vouched), false, []string{"commit", "version", "must be 0", "instance/acme/r"}})
	noKind, noID := store.RecordKey{ID: "r"}, store.RecordKey{Kind: "k"}
	rules = append(rules,
		rule{"a record deleted without a kind", commits(*dropTx(noKind, 1)), false, []string{"kind"}},
		rule{"a record deleted without an ID", commits(*dropTx(noID, 1)), false, []string{"ID"}})
	return rules
}

func txRules() []rule {
	return []rule{
		{"a lease that is finished twice", commits(store.Tx{Finish: []store.Finish{
			{Lease: store.Lease{Key: key("order-1"), Token: "x"}}, {Lease: store.Lease{Key: key("order-1"), Token: "x"}},
		}}), false, []string{"finished twice", "turns/acme/order-1"}},
		{"a log that is appended to twice", commits(store.Tx{Append: []store.Append{
			{Key: key("order-1"), At: 1, Entries: entries("x")}, {Key: key("order-1"), At: 2, Entries: entries("y")},
		}}), false, []string{"appended to twice", "turns/acme/order-1"}},
		{"a record that is put twice", commits(store.Tx{PutRecords: []store.PutRecord{
			{Record: store.Record{Key: recordKey("new")}}, {Record: store.Record{Key: recordKey("new")}},
		}}), false, []string{"twice", "instance/acme/new"}},
		{"a record that is put and deleted", commits(store.Tx{
			PutRecords:    putTx(recordKey("r"), 1, "x").PutRecords,
			DeleteRecords: dropTx(recordKey("r"), 1).DeleteRecords,
		}), false, []string{"twice", "instance/acme/r"}},
		{"an append of nothing", commits(store.Tx{Append: []store.Append{{Key: key("order-1"), At: 1}}}), false, []string{"no entries", "turns/acme/order-1"}},
		{"an append at a negative length", commits(store.Tx{Append: []store.Append{{Key: key("order-1"), At: -1, Entries: entries("x")}}}), false, []string{"-1", "negative"}},
		{"a trim before a negative index", commits(*trimTx(key("order-1"), -1)), false, []string{"-1", "negative"}},
		{"an entry that is too large", commits(*appendTx(key("order-1"), 1, strings.Repeat("x", store.MaxBody+1))), true, []string{"entry", fmt.Sprint(store.MaxBody)}},
		{"a Tx with too many operations", commits(store.Tx{DeleteKeys: slices.Repeat([]store.Key{key("order-1")}, store.MaxTxOps)}), true, []string{"operations", "100000"}},
	}
}

// claiming returns a call that claims with a request that was changed.
func claiming(change func(req *store.ClaimRequest)) func(ctx context.Context, s store.Store) error {
	return func(ctx context.Context, s store.Store) error {
		req := request()
		change(&req)
		_, err := s.Claim(ctx, req)
		return err
	}
}

func claimRules() []rule {
	return []rule{
		{"a claim without a queue", claiming(func(r *store.ClaimRequest) { r.Queue = "" }), false, []string{"claim", "queue"}},
		{"a claim from a queue whose name is too long", claiming(func(r *store.ClaimRequest) { r.Queue = longQueue }), true, []string{"queue", "129", "128"}},
		{"a claim without routes", claiming(func(r *store.ClaimRequest) { r.Routes = nil }), false, []string{"routes", "at least one"}},
		{"a claim with an empty route", claiming(func(r *store.ClaimRequest) { r.Routes = []string{theRoute, ""} }), false, []string{"route", "empty"}},
		{"a claim with a route that is too long", claiming(func(r *store.ClaimRequest) { r.Routes = []string{theRoute, tooLong} }), true, []string{"route", "1024"}},
		{"a claim with too many routes", claiming(func(r *store.ClaimRequest) {
			r.Routes = slices.Repeat([]string{theRoute}, store.MaxRoutes+1)
		}), true, []string{"routes", "10001", "10000"}},
		{"a claim of an empty list of tenants", claiming(func(r *store.ClaimRequest) { r.Tenants = []string{} }), false, []string{"tenants", "empty"}},
		{"a claim of a tenant that is too long", claiming(func(r *store.ClaimRequest) { r.Tenants = []string{"acme", tooLong} }), true, []string{"tenant", "1024"}},
		{"a claim of too many tenants", claiming(func(r *store.ClaimRequest) {
			r.Tenants = slices.Repeat([]string{"acme"}, store.MaxClaimTenants+1)
		}), true, []string{"tenants", "101", "100"}},
		{"a claim of nothing", claiming(upTo(0)), false, []string{"Max is 0", "1 to 10000"}},
		{"a claim of less than nothing", claiming(upTo(-1)), false, []string{"Max is -1", "1 to 10000"}},
		{"a claim of too many keys", claiming(upTo(store.MaxClaim + 1)), false, []string{"Max is 10001", "1 to 10000"}},
		{"a claim of a negative number of messages", claiming(maxMessages(-1)), false, []string{"MaxMessages is -1", "0 to 10000"}},
		{"a claim of too many messages", claiming(maxMessages(store.MaxMessages + 1)), false, []string{"MaxMessages is 10001", "0 to 10000"}},
		{"a claim with a negative wait", claiming(waitFor(-1)), false, []string{"Wait", "negative"}},
		{"a claim with a negative number of attempts", claiming(maxAttempts(-1)), false, []string{"MaxAttempts", "negative"}},
		{"a claim with an owner that is too long", claiming(ownedBy(strings.Repeat("x", store.MaxOwner+1))), true, []string{"owner", "129", "128"}},
		{"a claim with an owner that is not UTF-8", claiming(ownedBy("a\xff")), false, []string{"owner", "UTF-8"}},
		{"a claim with an owner with a line feed", claiming(ownedBy("a\nb")), false, []string{"owner", "control"}},
		{"a claim without a lease", claiming(leaseFor(0)), false, []string{"lease", "1ms", "24h0m0s"}},
		{"a claim with a lease that is too short", claiming(leaseFor(store.MinLease - 1)), false, []string{"lease", "1ms", "24h0m0s"}},
		{"a claim with a lease that is too long", claiming(leaseFor(store.MaxLease + 1)), false, []string{"lease", "1ms", "24h0m0s"}},
	}
}

func leaseRules() (rules []rule) {
	renew := func(d time.Duration, k store.Key) func(ctx context.Context, s store.Store) error {
		return func(ctx context.Context, s store.Store) error {
			_, err := s.Renew(ctx, d, []store.Lease{{Key: key("order-1"), Token: "x"}, {Key: k, Token: "x"}})
			return err
		}
	}
	release := func(after time.Duration, k store.Key) func(ctx context.Context, s store.Store) error {
		return func(ctx context.Context, s store.Store) error {
			return s.Release(ctx, store.Release{Lease: store.Lease{Key: k, Token: "x"}, After: after})
		}
	}
	for _, d := range []time.Duration{-1, 0, store.MinLease - 1, store.MaxLease + 1} {
		rules = append(rules, rule{"a renewal for " + d.String(), renew(d, key("order-1")), false, []string{"renew", "lease", "1ms", "24h0m0s"}})
	}
	for _, d := range []time.Duration{-1, store.MaxDelay + 1} {
		rules = append(rules, rule{"a release after " + d.String(), release(d, key("order-1")), false, []string{"release", "After", store.MaxDelay.String()}})
	}
	for _, bad := range badKeys {
		rules = append(rules,
			rule{"a renewal of " + bad.name, renew(theLease, bad.key), bad.tooLarge, []string{"renew", bad.says}},
			rule{"a release of " + bad.name, release(0, bad.key), bad.tooLarge, []string{"release", bad.says}})
	}
	return rules
}

func readRules() (rules []rule) {
	readLog := func(name string, k store.Key, from int, tooLarge bool, says ...string) {
		rules = append(rules, rule{"reading the log: " + name, func(ctx context.Context, s store.Store) error {
			_, err := s.ReadLog(ctx, k, from)
			return err
		}, tooLarge, append(says, "read log")})
	}
	pending := func(name string, k store.Key, limit int, tooLarge bool, says ...string) {
		rules = append(rules, rule{"pending: " + name, func(ctx context.Context, s store.Store) error {
			_, err := s.Pending(ctx, k, limit)
			return err
		}, tooLarge, append(says, "pending")})
	}
	record := func(name string, k store.RecordKey, tooLarge bool, says ...string) {
		rules = append(rules, rule{"get: " + name, func(ctx context.Context, s store.Store) error {
			_, err := s.Get(ctx, k)
			return err
		}, tooLarge, append(says, "get")}, rule{"await: " + name, func(ctx context.Context, s store.Store) error {
			_, err := s.Await(ctx, k, 0)
			return err
		}, tooLarge, append(says, "await")})
	}
	list := func(name string, q store.Query, tooLarge bool, says ...string) {
		rules = append(rules, rule{"list: " + name, func(ctx context.Context, s store.Store) error {
			_, err := s.List(ctx, q)
			return err
		}, tooLarge, append(says, "list")})
	}
	leases := func(name string, q store.LeaseQuery, tooLarge bool, says ...string) {
		rules = append(rules, rule{"leases: " + name, func(ctx context.Context, s store.Store) error {
			_, err := s.Leases(ctx, q)
			return err
		}, tooLarge, append(says, "leases")})
	}
	leases("a negative limit", store.LeaseQuery{Limit: -1}, false, "Limit is -1", "0 to 10000")
	leases("a limit that is too large", store.LeaseQuery{Limit: store.MaxPage + 1}, false, "Limit is 10001", "0 to 10000")
	leases("a queue that is too long", store.LeaseQuery{Queue: longQueue}, true, "queue", "128")
	leases("a key and a queue", store.LeaseQuery{Key: key("order-1"), Queue: theQueue}, false, "Key", "Queue")
	for _, bad := range badKeys {
		if bad.key != (store.Key{}) {
			leases(bad.name, store.LeaseQuery{Key: bad.key}, bad.tooLarge, bad.says)
		}
		readLog(bad.name, bad.key, 0, bad.tooLarge, bad.says)
		pending(bad.name, bad.key, 0, bad.tooLarge, bad.says)
	}
	readLog("a negative index", key("order-1"), -1, false, "-1", "negative")
	pending("a negative limit", key("order-1"), -1, false, "limit is -1", "0 to 10000")
	pending("a limit that is too large", key("order-1"), store.MaxPage+1, false, "limit is 10001", "0 to 10000")
	record("no kind", store.RecordKey{ID: "r"}, false, "kind")
	record("no ID", store.RecordKey{Kind: "k"}, false, "ID", `"k"`)
	record("a kind that is too long", store.RecordKey{Kind: longQueue, ID: "r"}, true, "kind", "128")
	record("a tenant that is too long", store.RecordKey{Kind: "k", Tenant: tooLong, ID: "r"}, true, "tenant", "1024")
	record("an ID that is too long", store.RecordKey{Kind: "k", ID: tooLong}, true, "ID", "1024")
	list("no kind", store.Query{}, false, "kind")
	list("a kind that is too long", store.Query{Kind: longQueue}, true, "kind", "128")
	list("a prefix that is too long", store.Query{Kind: theKind, Prefix: tooLong}, true, "Prefix", "1024")
	list("a negative limit", store.Query{Kind: theKind, Limit: -1}, false, "Limit is -1", "0 to 10000")
	list("a limit that is too large", store.Query{Kind: theKind, Limit: store.MaxPage + 1}, false, "Limit is 10001", "0 to 10000")
	return rules
}
