package store

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Validate reports whether tx keeps the rules of [Tx] and the limits. The error
// names what is wrong and what is allowed, and matches [ErrInvalid].
func (tx *Tx) Validate() error {
	_, _, err := tx.Size()
	return err
}

// Size returns how much tx does, as [MaxTxOps] and [MaxTxBytes] count it, if it is valid.
func (tx *Tx) Size() (ops, bytes int, err error) {
	c := txChecker{}
	for _, check := range []func(*Tx) error{
		c.finishes, c.keys, c.appends, c.messages, c.records,
	} {
		if err := check(tx); err != nil {
			return 0, 0, err
		}
	}
	if c.ops > MaxTxOps {
		return 0, 0, tooLarge("commit", "number of operations", c.ops, MaxTxOps)
	}
	if c.bytes > MaxTxBytes {
		return 0, 0, tooLarge("commit", "size in bytes", c.bytes, MaxTxBytes)
	}
	return c.ops, c.bytes, nil
}

// txChecker counts what a Tx holds while it checks it.
type txChecker struct {
	ops, bytes int
}

func (c *txChecker) count(bytes int) {
	c.ops++
	c.bytes += bytes
}

func (c *txChecker) finishes(tx *Tx) error {
	for i := range tx.Finish {
		f := &tx.Finish[i]
		if err := checkKey("commit", f.Lease.Key); err != nil {
			return err
		}
		if err := checkName("commit", "token of a lease", string(f.Lease.Token)); err != nil {
			return err
		}
		c.count(keySize(f.Lease.Key) + len(f.Lease.Token))
		for _, id := range f.Keep {
			c.count(len(id))
		}
	}
	if key, dup := twice(tx.Finish, func(f *Finish) Key { return f.Lease.Key }); dup {
		return invalid("commit", "the lease of %v is finished twice", key)
	}
	return nil
}

func (c *txChecker) keys(tx *Tx) error {
	for _, key := range tx.DeleteKeys {
		if err := checkKey("commit", key); err != nil {
			return err
		}
		c.count(keySize(key))
	}
	for _, t := range tx.Trim {
		if err := checkKey("commit", t.Key); err != nil {
			return err
		}
		if t.Before < 0 {
			return invalid("commit", "trim of %v before index %d: must not be negative", t.Key, t.Before)
		}
		c.count(keySize(t.Key))
	}
	return nil
}

func (c *txChecker) appends(tx *Tx) error {
	for i := range tx.Append {
		a := &tx.Append[i]
		if err := checkKey("commit", a.Key); err != nil {
			return err
		}
		if a.At < 0 {
			return invalid("commit", "append to %v at %d: must not be negative", a.Key, a.At)
		}
		if len(a.Entries) == 0 {
			return invalid("commit", "append to %v has no entries", a.Key)
		}
		if err := checkName("commit", "route", a.Route); err != nil {
			return err
		}
		for _, e := range a.Entries {
			if len(e) > MaxBody {
				return tooLarge("commit", fmt.Sprintf("size of an entry for %v", a.Key), len(e), MaxBody)
			}
			c.count(len(e))
		}
		c.bytes += keySize(a.Key) + len(a.Route)
	}
	if key, dup := twice(tx.Append, func(a *Append) Key { return a.Key }); dup {
		return invalid("commit", "the log of %v is appended to twice", key)
	}
	return nil
}

func (c *txChecker) messages(tx *Tx) error {
	for i := range tx.Put {
		m := &tx.Put[i]
		if err := checkRef(m.Key, m.ID); err != nil {
			return err
		}
		if err := checkName("commit", "route", m.Route); err != nil {
			return err
		}
		if err := checkVisibleAt(m.VisibleAt); err != nil {
			return err
		}
		if m.TTL < 0 || m.TTL > MaxTTL {
			return invalid("commit", "TTL of message %v is %v, 0 to %v is allowed", m.Ref(), m.TTL, MaxTTL)
		}
		if m.IfRouted && m.Route != "" {
			return invalid("commit", "message %v has IfRouted and the route %q: only one is allowed", m.Ref(), m.Route)
		}
		if m.IfRouted && m.TTL != 0 {
			return invalid("commit", "message %v has IfRouted and a TTL of %v: only one is allowed", m.Ref(), m.TTL)
		}
		if len(m.Body) > MaxBody {
			return tooLarge("commit", fmt.Sprintf("body of message %v", m.Ref()), len(m.Body), MaxBody)
		}
		c.count(keySize(m.Key) + len(m.ID) + len(m.Route) + len(m.Body))
	}
	for i := range tx.Retime {
		r := &tx.Retime[i]
		if err := checkRef(r.Ref.Key, r.Ref.ID); err != nil {
			return err
		}
		if err := checkVisibleAt(r.VisibleAt); err != nil {
			return err
		}
		c.count(keySize(r.Ref.Key) + len(r.Ref.ID))
	}
	for _, ref := range tx.Delete {
		if err := checkRef(ref.Key, ref.ID); err != nil {
			return err
		}
		c.count(keySize(ref.Key) + len(ref.ID))
	}
	return nil
}

func (c *txChecker) records(tx *Tx) error {
	for i := range tx.PutRecords {
		p := &tx.PutRecords[i]
		if err := checkRecord(&p.Record); err != nil {
			return err
		}
		if p.Expect < AnyVersion {
			return invalid("commit", "record %v is expected at version %d: must be 0 or more, or AnyVersion", p.Record.Key, p.Expect)
		}
		if p.New && p.Expect != 0 {
			return invalid("commit", "record %v is new and expected at version %d: must be 0", p.Record.Key, p.Expect)
		}
		c.count(recordSize(&p.Record))
	}
	for i := range tx.DeleteRecords {
		d := &tx.DeleteRecords[i]
		if err := checkRecordKey("commit", d.Key); err != nil {
			return err
		}
		if d.Expect != AnyVersion && d.Expect < 1 {
			return invalid("commit", "record %v is deleted at version %d: must be 1 or more, or AnyVersion", d.Key, d.Expect)
		}
		c.count(len(d.Key.Kind) + len(d.Key.Tenant) + len(d.Key.ID))
	}
	if len(tx.PutRecords)+len(tx.DeleteRecords) < 2 {
		return nil
	}
	keys := make([]RecordKey, 0, len(tx.PutRecords)+len(tx.DeleteRecords))
	for i := range tx.PutRecords {
		keys = append(keys, tx.PutRecords[i].Record.Key)
	}
	for i := range tx.DeleteRecords {
		keys = append(keys, tx.DeleteRecords[i].Key)
	}
	if key, dup := twice(keys, func(k *RecordKey) RecordKey { return *k }); dup {
		return invalid("commit", "record %v is put or deleted twice", key)
	}
	return nil
}

// Validate reports whether req keeps the rules and limits of [ClaimRequest].
func (req *ClaimRequest) Validate() error {
	if err := checkShort("claim", "queue", req.Queue); err != nil {
		return err
	}
	if len(req.Routes) == 0 {
		return invalid("claim", "no routes: name at least one")
	}
	if len(req.Routes) > MaxRoutes {
		return tooLarge("claim", "number of routes", len(req.Routes), MaxRoutes)
	}
	for _, route := range req.Routes {
		if route == "" {
			return invalid("claim", "a route is empty")
		}
		if err := checkName("claim", "route", route); err != nil {
			return err
		}
	}
	if err := req.checkTenants(); err != nil {
		return err
	}
	if req.Max < 1 || req.Max > MaxClaim {
		return invalid("claim", "Max is %d, 1 to %d is allowed", req.Max, MaxClaim)
	}
	if req.MaxMessages < 0 || req.MaxMessages > MaxMessages {
		return invalid("claim", "MaxMessages is %d, 0 to %d is allowed", req.MaxMessages, MaxMessages)
	}
	if req.Wait < 0 {
		return invalid("claim", "Wait is %v: must not be negative", req.Wait)
	}
	if req.MaxAttempts < 0 {
		return invalid("claim", "MaxAttempts is %d: must not be negative", req.MaxAttempts)
	}
	if err := checkOwner(req.Owner); err != nil {
		return err
	}
	return checkLease("claim", req.Lease)
}

func (req *ClaimRequest) checkTenants() error {
	if req.Tenants != nil && len(req.Tenants) == 0 {
		return invalid("claim", "the list of tenants is empty: name at least one, or leave it nil for all")
	}
	if len(req.Tenants) > MaxClaimTenants {
		return tooLarge("claim", "number of tenants", len(req.Tenants), MaxClaimTenants)
	}
	for _, tenant := range req.Tenants {
		if err := checkName("claim", "tenant", tenant); err != nil {
			return err
		}
	}
	return nil
}

// Validate reports whether q keeps the rules and limits of [LeaseQuery].
func (q *LeaseQuery) Validate() error {
	if q.Limit < 0 || q.Limit > MaxPage {
		return invalid("leases", "Limit is %d, 0 to %d is allowed", q.Limit, MaxPage)
	}
	switch {
	case q.Key == Key{}:
	case q.Queue != "":
		return invalid("leases", "both Key and Queue are set: set one of them")
	default:
		return checkKey("leases", q.Key)
	}
	if len(q.Queue) > MaxQueue {
		return tooLarge("leases", "length of the queue", len(q.Queue), MaxQueue)
	}
	return nil
}

// ValidateRenew reports whether the arguments of [Store.Renew] keep its rules.
func ValidateRenew(d time.Duration, leases []Lease) error {
	if err := checkLease("renew", d); err != nil {
		return err
	}
	for _, l := range leases {
		if err := checkKey("renew", l.Key); err != nil {
			return err
		}
	}
	return nil
}

// Validate reports whether r keeps the rules and limits of [Release].
func (r *Release) Validate() error {
	if r.After < 0 || r.After > MaxDelay {
		return invalid("release", "After is %v, 0 to %v is allowed", r.After, MaxDelay)
	}
	return checkKey("release", r.Lease.Key)
}

// Validate reports whether q keeps the rules and limits of [Query], to list by it. It
// does not look at the cursor, which only its backend can read.
func (q *Query) Validate() error {
	if err := checkShort("list", "kind", q.Kind); err != nil {
		return err
	}
	if q.Limit < 0 || q.Limit > MaxPage {
		return invalid("list", "Limit is %d, 0 to %d is allowed", q.Limit, MaxPage)
	}
	return checkName("list", "Prefix", q.Prefix)
}

// ByFields reports whether Kind, Tenant, Statuses, From and To, which an index has, say all: a
// record that matches them matches the query.
func (q *Query) ByFields() bool { return len(q.Names) == 0 && len(q.Tags) == 0 && q.Prefix == "" }

// ValidateCount reports whether the arguments of [Store.Count] keep its rules.
func ValidateCount(q *Query, limit int) error {
	if limit < 1 || limit > MaxCount {
		return invalid("count", "limit is %d, 1 to %d is allowed", limit, MaxCount)
	}
	switch {
	case q.Limit != 0:
		return invalid("count", "Limit of the query is %d: must not be set", q.Limit)
	case q.Cursor != "":
		return invalid("count", "Cursor of the query is %q: must not be set", q.Cursor)
	case q.Descending:
		return invalid("count", "Descending is set in the query: must not be set")
	}
	if err := checkShort("count", "kind", q.Kind); err != nil {
		return err
	}
	return checkName("count", "Prefix", q.Prefix)
}

// ValidatePending reports whether the arguments of [Store.Pending] keep its rules.
func ValidatePending(key Key, limit int) error {
	if limit < 0 || limit > MaxPage {
		return invalid("pending", "limit is %d, 0 to %d is allowed", limit, MaxPage)
	}
	return checkKey("pending", key)
}

// ValidateReadLog reports whether the arguments of [Store.ReadLog] keep its rules.
func ValidateReadLog(key Key, from int) error {
	if from < 0 {
		return invalid("read log", "index %d: must not be negative", from)
	}
	return checkKey("read log", key)
}

// ValidateGet reports whether the argument of [Store.Get] keeps its rules.
func ValidateGet(key RecordKey) error { return checkRecordKey("get", key) }

// ValidateAwait reports whether the arguments of [Store.Await] keep its rules.
func ValidateAwait(key RecordKey, after int64) error {
	if after < 0 {
		return invalid("await", "version %d: must not be negative", after)
	}
	return checkRecordKey("await", key)
}

func checkOwner(owner string) error {
	if len(owner) > MaxOwner {
		return tooLarge("claim", "length of the owner", len(owner), MaxOwner)
	}
	if !utf8.ValidString(owner) || strings.ContainsFunc(owner, unicode.IsControl) {
		return invalid("claim", "owner %q: must be UTF-8 without control characters", owner)
	}
	return nil
}

func checkLease(verb string, d time.Duration) error {
	if d < MinLease || d > MaxLease {
		return invalid(verb, "lease is %v, %v to %v is allowed", d, MinLease, MaxLease)
	}
	return nil
}

func checkKey(verb string, k Key) error {
	if err := checkShort(verb, "queue", k.Queue); err != nil {
		return err
	}
	if err := checkName(verb, "tenant", k.Tenant); err != nil {
		return err
	}
	if k.Name == "" {
		return invalid(verb, "a key of queue %q has no name", k.Queue)
	}
	return checkName(verb, "name of a key", k.Name)
}

func checkRef(k Key, id string) error {
	if err := checkKey("commit", k); err != nil {
		return err
	}
	if id == "" {
		return invalid("commit", "a message for %v has no ID", k)
	}
	return checkName("commit", "ID of a message", id)
}

func checkVisibleAt(t time.Time) error {
	if !t.Before(maxTime) {
		return invalid("commit", "VisibleAt is %v: must be before the year 10000", t)
	}
	return nil
}

func checkRecordKey(verb string, k RecordKey) error {
	if err := checkShort(verb, "kind", k.Kind); err != nil {
		return err
	}
	if err := checkName(verb, "tenant", k.Tenant); err != nil {
		return err
	}
	if k.ID == "" {
		return invalid(verb, "a record of kind %q has no ID", k.Kind)
	}
	return checkName(verb, "ID of a record", k.ID)
}

func checkRecord(r *Record) error {
	if err := checkRecordKey("commit", r.Key); err != nil {
		return err
	}
	if err := checkName("commit", "status of a record", r.Status); err != nil {
		return err
	}
	if err := checkName("commit", "name of a record", r.Name); err != nil {
		return err
	}
	if !r.Time.IsZero() && (r.Time.Unix() < 0 || !r.Time.Before(maxTime)) {
		return invalid("commit", "Time of record %v is %v: 1970 to 9999 is allowed", r.Key, r.Time)
	}
	if len(r.Tags) > MaxTags {
		return tooLarge("commit", fmt.Sprintf("number of tags of record %v", r.Key), len(r.Tags), MaxTags)
	}
	for name, value := range r.Tags {
		if err := checkName("commit", "name of a tag", name); err != nil {
			return err
		}
		if err := checkName("commit", "value of a tag", value); err != nil {
			return err
		}
	}
	if len(r.Body) > MaxRecord {
		return tooLarge("commit", fmt.Sprintf("body of record %v", r.Key), len(r.Body), MaxRecord)
	}
	return nil
}

func checkShort(verb, what, s string) error {
	if s == "" {
		return invalid(verb, "no %s", what)
	}
	if len(s) > MaxQueue {
		return tooLarge(verb, "length of the "+what, len(s), MaxQueue)
	}
	return nil
}

func checkName(verb, what, s string) error {
	if len(s) > MaxName {
		return tooLarge(verb, "length of the "+what, len(s), MaxName)
	}
	return nil
}

// twice returns a key that two of the items have.
func twice[T any, K comparable](items []T, key func(*T) K) (dup K, found bool) {
	if len(items) <= 8 { // by far the most common, and cheaper without a map
		for i := range items {
			for j := range i {
				if k := key(&items[i]); k == key(&items[j]) {
					return k, true
				}
			}
		}
		return dup, false
	}
	seen := make(map[K]struct{}, len(items))
	for i := range items {
		k := key(&items[i])
		if _, ok := seen[k]; ok {
			return k, true
		}
		seen[k] = struct{}{}
	}
	return dup, false
}

func keySize(k Key) int { return len(k.Queue) + len(k.Tenant) + len(k.Name) }

func recordSize(r *Record) int {
	size := len(r.Key.Kind) + len(r.Key.Tenant) + len(r.Key.ID) + len(r.Status) + len(r.Name) + len(r.Body)
	for name, value := range r.Tags {
		size += len(name) + len(value)
	}
	return size
}
