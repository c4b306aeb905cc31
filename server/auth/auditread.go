package auth

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// AuditQuery says which entries of the audit log to return. An entry must match all that
// is set.
type AuditQuery struct {
	// From and To bound the time: From <= At < To. Zero means unbounded.
	From, To time.Time

	Subject   string
	Tenant    string
	Operation string

	// Limit is how many entries at most, [DefaultPage] if it is 0, and Cursor the Next of the
	// page before, or empty.
	Limit  int
	Cursor string
}

// AuditPage is a part of the audit log.
type AuditPage struct {
	Entries []Entry

	// Next is the cursor of the next page, and empty if there is none. A page can have fewer
	// entries than were asked for, or none, and still have a next one: of what does not
	// match, so much is looked at and no more.
	Next string
}

// Audit returns entries of the audit log, the latest first. Who asks, as the context says,
// must have the role admin; of who has some tenants only, it returns what was done to these.
func (g *Guard) Audit(ctx context.Context, q AuditQuery) (AuditPage, error) {
	const verb = "read the audit log"
	who, err := admin(ctx, verb)
	if err != nil {
		return AuditPage{}, err
	}
	if q.Limit == 0 {
		q.Limit = DefaultPage
	}
	if q.Limit < 0 || q.Limit > MaxPage {
		return AuditPage{}, invalid(verb, "a page of %d entries; 1 to %d is allowed", q.Limit, MaxPage)
	}
	after, err := parsePlace(q.Cursor)
	if err != nil {
		return AuditPage{}, err
	}
	r := &auditReader{ctx: ctx, guard: g, from: toMillis(q.From), to: q.To, after: after}
	page := AuditPage{}
	for {
		e, at, ok, err := r.next()
		switch {
		case err != nil:
			return AuditPage{}, wrap(verb, err)
		case !ok:
			return page, nil
		}
		if q.matches(&e) && who.Allows(e.Tenant) {
			page.Entries = append(page.Entries, e)
		}
		if len(page.Entries) == q.Limit || r.cost >= auditScan {
			page.Next = at.String()
			return page, nil
		}
	}
}

func (q *AuditQuery) matches(e *Entry) bool {
	return (q.Subject == "" || q.Subject == e.Subject) && (q.Tenant == "" || q.Tenant == e.Tenant) &&
		(q.Operation == "" || q.Operation == e.Operation)
}

// place is where an entry is. Entries are ordered by it: by their time, and where that is
// the same by their log and where in it they are.
type place struct {
	at    time.Time
	log   string
	index int
}

func (p place) compare(other place) int {
	return cmp.Or(p.at.Compare(other.at), strings.Compare(p.log, other.log), cmp.Compare(p.index, other.index))
}

// String returns the place as a cursor.
func (p place) String() string {
	out := wire.AppendTime([]byte{1}, p.at)
	out = wire.AppendNumber(out, uint64(p.index))
	return base64.RawURLEncoding.EncodeToString(append(out, p.log...))
}

// parsePlace is the inverse of String. The place of an empty cursor is after all others.
func parsePlace(cursor string) (place, error) {
	if cursor == "" {
		return place{}, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	r := wire.Reader{Data: data}
	r.Format(1)
	p := place{at: r.Time(), index: int(r.Int32())}
	p.log = string(r.Data)
	if err = errors.Join(err, r.Err); err != nil || p.at.IsZero() || p.log == "" {
		return place{}, invalid("read the audit log", "the cursor is not one of this list")
	}
	return p, nil
}

// auditReader goes through the logs of all processes at once, from the latest entry back.
// Logs are listed by their last entry, so one is opened only when an entry of it can be the
// next: as many are open as there were processes at that time.
type auditReader struct {
	ctx   context.Context //nolint:containedctx // a reader lives for one call
	guard *Guard
	from  time.Time
	to    time.Time
	after place // what comes next is before it; the zero place is after all

	listed []auditLog // not yet opened
	cursor string
	begun  bool
	open   []openLog
	cost   int // what was looked at
}

// openLog is a log of which entries are left, the last of them next.
type openLog struct {
	name    string
	entries []Entry
}

func (o *openLog) top() place {
	last := len(o.entries) - 1
	return place{at: o.entries[last].At, log: o.name, index: last}
}

// next returns the entry before the last one, and its place.
func (r *auditReader) next() (Entry, place, bool, error) {
	for {
		best := -1
		for i := range r.open {
			if best < 0 || r.open[i].top().compare(r.open[best].top()) > 0 {
				best = i
			}
		}
		log, ok, err := r.peek()
		if err != nil {
			return Entry{}, place{}, false, err
		}
		// A log that ends at the same time may have the entry that comes first.
		if ok && (best < 0 || !log.last.Before(r.open[best].top().at)) {
			r.listed = r.listed[1:]
			if err := r.load(log); err != nil {
				return Entry{}, place{}, false, err
			}
			continue
		}
		if best < 0 {
			return Entry{}, place{}, false, nil
		}
		o := &r.open[best]
		at := o.top()
		e := o.entries[at.index]
		if o.entries = o.entries[:at.index]; len(o.entries) == 0 {
			r.open = slices.Delete(r.open, best, best+1)
		}
		r.cost++
		if e.At.Before(r.from) {
			return Entry{}, place{}, false, nil
		}
		return e, at, true, nil
	}
}

// peek returns the log that was written to last, of those that are not open.
func (r *auditReader) peek() (auditLog, bool, error) {
	for len(r.listed) == 0 {
		if r.begun && r.cursor == "" {
			return auditLog{}, false, nil
		}
		q := store.Query{Kind: kindAudit, From: r.from, Descending: true, Limit: MaxPage, Cursor: r.cursor}
		// A log that begins before the end may end after it, by as much as it covers.
		if end := r.end(); !end.IsZero() {
			q.To = end.Add(auditLogSpan + time.Millisecond)
		}
		page, err := r.guard.store.List(r.ctx, q)
		if err != nil {
			return auditLog{}, false, err
		}
		r.begun, r.cursor = true, page.Next
		for _, rec := range page.Records {
			log, err := parseAuditLog(rec)
			if err != nil {
				return auditLog{}, false, err
			}
			if r.inRange(log.first) {
				r.listed = append(r.listed, log)
			}
		}
	}
	return r.listed[0], true, nil
}

// end returns a time after which no entry is wanted, or zero.
func (r *auditReader) end() time.Time {
	if r.after.at.IsZero() || !r.to.IsZero() && r.to.Before(r.after.at) {
		return r.to
	}
	return r.after.at
}

// inRange reports whether an entry of that time can be wanted.
func (r *auditReader) inRange(at time.Time) bool {
	return (r.to.IsZero() || at.Before(r.to)) && (r.after.at.IsZero() || !at.After(r.after.at))
}

// load opens a log, as far as it is wanted.
func (r *auditReader) load(log auditLog) error {
	r.cost += auditOpen
	o := openLog{name: log.name}
	for data, err := range store.Entries(r.ctx, r.guard.store, auditKey(log.name), 0) {
		if err != nil {
			return err
		}
		e, err := parseEntry(data)
		if err != nil {
			return fmt.Errorf("entry %d of log %s: %w: %w", len(o.entries), log.name, err, store.ErrCorrupt)
		}
		at := place{at: e.At, log: log.name, index: len(o.entries)}
		if !r.inRange(e.At) || r.after.log != "" && at.compare(r.after) >= 0 {
			break // times in a log only grow
		}
		o.entries = append(o.entries, e)
	}
	if len(o.entries) > 0 {
		r.open = append(r.open, o)
	}
	return nil
}
