package transfer

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/abidehq/abide/internal/pages"
	"github.com/abidehq/abide/store"
)

// Problem is something that does not hold, and should.
type Problem struct {
	// Rule is what should hold.
	Rule string

	// Found is what was found instead, for people.
	Found string
}

// ruleBackend is the rule of what a backend finds wrong with itself.
const ruleBackend = "the tables of the backend agree with each other"

// Check is a look at all that a store holds.
type Check struct {
	// Store is what to look at. No other process may use it: the caller excludes others
	// first, see [store.Portable.Exclude].
	Store store.Portable

	// Report is called for each problem.
	Report func(Problem)

	// Progress is called now and then, if it is not nil, with how many messages and
	// records were looked at, and how many there probably are.
	Progress func(done, of int)
}

// Checked is what a check has looked at.
type Checked struct {
	Sum
	Tenants int

	// Unknown is how many messages and records there are in queues and of kinds that this
	// release does not know, such as those of a program that keeps its own data in the
	// store. Nothing can be said about them.
	Unknown int
}

// Run looks at everything once, and asks the store for what belongs to it. It returns an
// error only if it could not look.
func (c *Check) Run(ctx context.Context) (Checked, error) {
	err := c.Store.Verify(ctx, func(problem string) { c.Report(Problem{ruleBackend, problem}) })
	if err != nil {
		return Checked{}, fmt.Errorf("transfer: verify: %w", err)
	}
	k := &checker{
		ctx: ctx, Check: c, heads: map[uint64]uint64{}, seed: maphash.MakeSeed(), open: map[store.Key]openLog{},
		entered: map[uint64]struct{}{},
	}
	count := newTally()
	of := expected(ctx, c.Store)
	err = each(ctx, c.Store, func(p *store.Parcel) error {
		count.add(p)
		if c.Progress != nil {
			c.Progress(count.total.Things(), max(of, count.total.Things()))
		}
		return k.parcel(p)
	})
	if err != nil {
		return Checked{}, err
	}
	k.endOfLogs()
	k.endOfLimits()
	return Checked{Sum: count.total, Tenants: len(count.tenants), Unknown: k.unknown}, nil
}

// checker is a check under way.
type checker struct {
	ctx context.Context //nolint:containedctx // of the call that the checker is
	*Check

	// heads has the route of each key, both as hashes: there may be many keys, and this is
	// all that is kept of them.
	heads   map[uint64]uint64
	seed    maphash.Seed
	open    map[store.Key]openLog
	unknown int

	// entered has hashes of the messages to gates and of the instances whose start waits at one, and suspects has
	// what is a problem unless one of its hashes is among them: see limits.go.
	entered  map[uint64]struct{}
	suspects []suspect
}

// openLog is a log of which entries are still to come.
type openLog struct{ next, length int }

func (c *checker) problem(rule, found string, args ...any) {
	c.Report(Problem{rule, fmt.Sprintf(found, args...)})
}

// parcel applies all rules to what a parcel holds.
func (c *checker) parcel(p *store.Parcel) error {
	for i := range p.Keys {
		c.head(&p.Keys[i])
	}
	for i := range p.Entries {
		c.entries(&p.Entries[i])
	}
	for i := range p.Messages {
		c.message(&p.Messages[i])
	}
	for i := range p.Keys {
		for _, r := range headRules {
			if err := c.apply(r.sentence, r.on == p.Keys[i].Key.Queue, func() (string, error) { return r.check(c, &p.Keys[i]) }); err != nil {
				return err
			}
		}
	}
	for i := range p.Messages {
		for _, r := range messageRules {
			if err := c.apply(r.sentence, r.on == p.Messages[i].Key.Queue, func() (string, error) { return r.check(c, &p.Messages[i]) }); err != nil {
				return err
			}
		}
	}
	for i := range p.Records {
		c.recordFormat(&p.Records[i])
		for _, r := range recordRules {
			if err := c.apply(r.sentence, r.on == p.Records[i].Key.Kind, func() (string, error) { return r.check(c, &p.Records[i]) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply applies a rule, if it is about this at all.
func (c *checker) apply(sentence string, about bool, check func() (found string, err error)) error {
	if !about {
		return nil
	}
	found, err := check()
	if err != nil {
		return fmt.Errorf("transfer: look whether %s: %w", sentence, err)
	}
	if found != "" {
		c.problem(sentence, "%s", found)
	}
	return c.ctx.Err()
}

// Rules of the store contract, which hold whatever is kept.
const (
	ruleHead    = "every key comes once"
	ruleLog     = "a log has all entries from the first that was not trimmed to its length"
	ruleMessage = "every message has its key, and the route that its key has"
	ruleFormat  = "every record and every message has a format that this release reads"
)

func (c *checker) head(h *store.KeyHead) {
	at := maphash.Comparable(c.seed, h.Key)
	if _, ok := c.heads[at]; ok {
		c.problem(ruleHead, "key %v comes twice", h.Key)
	}
	c.heads[at] = maphash.String(c.seed, h.Route)
	switch {
	case h.LogFirst < 0 || h.LogFirst > h.LogLength:
		c.problem(ruleLog, "the log of %v has length %d, and %d entries of it are trimmed", h.Key, h.LogLength, h.LogFirst)
	case h.LogFirst < h.LogLength:
		c.open[h.Key] = openLog{h.LogFirst, h.LogLength}
	}
}

func (c *checker) entries(a *store.Append) {
	o, ok := c.open[a.Key]
	if !ok || a.At != o.next || a.At+len(a.Entries) > o.length {
		c.problem(ruleLog, "the log of %v has %d entries from %d on, and should go on at %d and end at %d", a.Key, len(a.Entries), a.At, o.next, o.length)
	}
	o.next = a.At + len(a.Entries)
	if o.next >= o.length {
		delete(c.open, a.Key)
	} else {
		c.open[a.Key] = o
	}
}

// endOfLogs reports the logs of which entries have not come.
func (c *checker) endOfLogs() {
	for key, o := range c.open {
		c.problem(ruleLog, "the log of %v has length %d, and its entries end at %d", key, o.length, o.next)
	}
}

func (c *checker) message(m *store.Message) {
	switch route, ok := c.heads[maphash.Comparable(c.seed, m.Key)]; {
	case !ok:
		c.problem(ruleMessage, "message %v is of a key that is not there", m.Ref())
	case route != maphash.String(c.seed, m.Route):
		c.problem(ruleMessage, "message %v has route %q, and its key another one", m.Ref(), m.Route)
	}
	readable, known := queues[m.Key.Queue]
	if !known {
		c.unknown++
		return
	}
	if wrong := readable(m.Body); wrong != "" {
		c.problem(ruleFormat, "message %v: %s", m.Ref(), wrong)
	}
}

func (c *checker) recordFormat(r *store.Record) {
	readable, known := kinds[r.Key.Kind]
	if !known {
		c.unknown++
		return
	}
	if wrong := readable(r.Body); wrong != "" {
		c.problem(ruleFormat, "record %v: %s", r.Key, wrong)
	}
}

// What rules ask the store.

// record returns a record, or nil if it is not there, or no record can have that name.
func (c *checker) record(kind, tenant, id string) (*store.Record, error) {
	r, err := c.Store.Get(c.ctx, store.RecordKey{Kind: kind, Tenant: tenant, ID: id})
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrInvalid) {
		return nil, nil
	}
	return &r, err
}

// logLength returns the length of a key's log.
func (c *checker) logLength(key store.Key) (int, error) {
	page, err := c.Store.ReadLog(c.ctx, key, 0)
	return page.Length, err
}

// has reports whether a message waits for a key that is wanted, or is in quarantine, where
// an operator has to decide about it.
func (c *checker) has(key store.Key, wanted func(id string) bool) (bool, error) {
	messages, err := c.Store.Pending(c.ctx, key, 0)
	if errors.Is(err, store.ErrInvalid) {
		return false, nil // no key can have that name
	}
	if err != nil {
		return false, err
	}
	for i := range messages {
		if wanted(messages[i].ID) {
			return true, nil
		}
	}
	return c.quarantined(key)
}

// quarantined reports whether a message of a key is in quarantine.
func (c *checker) quarantined(key store.Key) (bool, error) {
	q := store.Query{Kind: store.KindQuarantine, Tenant: &key.Tenant, Names: []string{key.Queue}, Tags: map[string]string{store.TagKey: key.Name}}
	for _, err := range pages.Records(c.ctx, c.Store, q) {
		return err == nil, err // the first one is enough
	}
	return false, nil
}
