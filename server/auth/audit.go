package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/wire"
	"github.com/abidehq/abide/store"
)

// Entry is an action of an identity, or an attempt of one.
type Entry struct {
	// At is when. [Guard.Note] sets it.
	At time.Time

	RequestID string

	// Subject, Name and Kind are those of the [Identity] that did it. If Subject and Kind
	// are empty, Note takes them from the context.
	Subject string
	Name    string
	Kind    Kind

	// Remote is the address that it came from.
	Remote string

	// Operation is what was done: start-instance, revoke-token and so on.
	Operation string

	Tenant string
	Target string // what it was done to
	Detail string // what was asked for, without payloads, as JSON

	Status int    // the HTTP status of the answer; 0 if it is not known yet
	Error  string // why it failed
}

// Note keeps an entry of the audit log, and returns when it is durable. Entries of many
// callers share a commit. If it returns an error, the entry may be missing, and what it
// speaks of should not be said to be done.
func (g *Guard) Note(ctx context.Context, e Entry) error {
	if e.Kind == "" && e.Subject == "" {
		who, _ := Of(ctx)
		e.Subject, e.Name, e.Kind = who.Subject, who.Name, who.Kind
	}
	e.cut()
	e.At = toMillis(g.now(ctx))
	err := g.audit.write(ctx, e)
	g.logEntry(ctx, &e, err)
	return err
}

// logEntry has a line in the log for each entry, also for one that could not be kept.
func (g *Guard) logEntry(ctx context.Context, e *Entry, err error) {
	attrs := []slog.Attr{
		slog.String("operation", e.Operation), slog.String("by", e.Subject), slog.String("name", e.Name), slog.String("kind", string(e.Kind)),
		slog.String("remote", e.Remote), slog.String("request_id", e.RequestID), slog.String("tenant", e.Tenant),
		slog.String("target", e.Target), slog.Int("status", e.Status),
	}
	if e.Detail != "" {
		attrs = append(attrs, slog.String("detail", e.Detail))
	}
	if e.Error != "" {
		attrs = append(attrs, slog.String("failure", e.Error))
	}
	if err == nil {
		g.log.LogAttrs(ctx, slog.LevelInfo, "audit", attrs...)
		return
	}
	g.log.LogAttrs(ctx, slog.LevelError, "audit: cannot be kept", append(attrs, slog.Any("error", err))...)
}

// cut limits what a caller has in hand.
func (e *Entry) cut() {
	for _, field := range []*string{&e.RequestID, &e.Subject, &e.Name, &e.Remote, &e.Operation, &e.Tenant, &e.Target, &e.Detail, &e.Error} {
		if len(*field) > MaxAuditField {
			*field = (*field)[:MaxAuditField]
		}
		*field = strings.ToValidUTF8(*field, "")
	}
}

// encode returns an entry as it is kept. One without a detail has the format that releases
// before details know.
func (e *Entry) encode() []byte {
	format := byte(entryFormat)
	if e.Detail != "" {
		format = entryDetailed
	}
	out := append(make([]byte, 0, 128), format)
	out = wire.AppendTime(out, e.At)
	for _, field := range []string{e.RequestID, e.Subject, e.Name, string(e.Kind), e.Remote, e.Operation, e.Tenant, e.Target} {
		out = wire.AppendString(out, field)
	}
	out = wire.AppendNumber(out, uint64(max(e.Status, 0)))
	out = wire.AppendString(out, e.Error)
	if e.Detail != "" {
		out = wire.AppendString(out, e.Detail)
	}
	return out
}

func parseEntry(data []byte) (Entry, error) {
	r := wire.Reader{Data: data}
	detailed := len(data) > 0 && data[0] == entryDetailed
	if detailed {
		r.Format(entryDetailed)
	} else {
		r.Format(entryFormat)
	}
	e := Entry{At: r.Time()}
	e.RequestID, e.Subject, e.Name, e.Kind = r.String(), r.String(), r.String(), Kind(r.String())
	e.Remote, e.Operation, e.Tenant, e.Target = r.String(), r.String(), r.String(), r.String()
	e.Status, e.Error = int(r.Int32()), r.String()
	if detailed {
		e.Detail = r.String()
	}
	return e, r.End()
}

// auditor writes the audit log of this process: one log of the store after another, each
// with a record by which it is found. A log is ended when it is long enough or covers
// enough time, so that a reader need not look at much, and old ones can be removed whole.
type auditor struct {
	guard   *Guard
	process string

	mu      sync.Mutex
	waiting []*waiting
	writing bool // a goroutine is writing the waiting entries

	// Owned by the goroutine that writes.
	log  auditLog
	last time.Time // no entry is older than the one before it
}

// waiting is an entry that is not written yet.
type waiting struct {
	entry Entry
	done  chan error // has room for one
}

// auditLog is a log of the store.
type auditLog struct {
	name    string // empty: none was begun
	first   time.Time
	last    time.Time
	count   int
	bytes   int
	version int64 // of its record
}

func newAuditor(g *Guard) *auditor {
	return &auditor{guard: g, process: base.NewUUID(g.clock.Now())}
}

// write returns when the entry is durable. It goes by whose turn it is: the first one writes
// for all that come meanwhile.
func (a *auditor) write(ctx context.Context, e Entry) error {
	w := &waiting{entry: e, done: make(chan error, 1)}
	a.mu.Lock()
	if len(a.waiting) >= MaxAuditWaiting {
		a.mu.Unlock()
		return fmt.Errorf("auth: note: %d entries wait already: %w", MaxAuditWaiting, ErrFull)
	}
	a.waiting = append(a.waiting, w)
	if !a.writing {
		a.writing = true
		// Not with the context of one caller: the others' entries go with it.
		go a.writeAll(context.WithoutCancel(ctx))
	}
	a.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("auth: note: %w", context.Cause(ctx))
	}
}

// writeAll writes groups until nothing waits.
func (a *auditor) writeAll(ctx context.Context) {
	for {
		group := a.take()
		if len(group) == 0 {
			return
		}
		err := a.commit(ctx, group)
		for _, w := range group {
			w.done <- err
		}
	}
}

// take returns entries for one commit: not too many, and no more time between them than a
// log covers. If there are none, nobody writes any longer.
func (a *auditor) take() []*waiting {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < min(len(a.waiting), auditGroup) && a.waiting[n].entry.At.Sub(a.waiting[0].entry.At) < auditLogSpan {
		n++
	}
	group := a.waiting[:n]
	if a.waiting = a.waiting[n:]; n == 0 {
		a.writing, a.waiting = false, nil
	}
	return group
}

// commit appends a group of entries. After an error nobody knows how long the log is, so
// the next group begins another one.
func (a *auditor) commit(ctx context.Context, group []*waiting) error {
	log := a.log
	var entries [][]byte
	bytes := 0
	for _, w := range group {
		if w.entry.At.Before(a.last) {
			w.entry.At = a.last
		}
		a.last = w.entry.At
		data := w.entry.encode()
		entries = append(entries, data)
		bytes += len(data)
	}
	first := group[0].entry.At
	if log.name == "" || log.count+len(entries) > auditLogCount || log.bytes+bytes > auditLogBytes || a.last.Sub(log.first) >= auditLogSpan {
		log = auditLog{name: first.Format("2006-01-02") + "/" + a.process + "/" + newID(), first: first}
	}
	tx := &store.Tx{Append: []store.Append{{Key: auditKey(log.name), At: log.count, Entries: entries}}}
	log.last, log.count, log.bytes = a.last, log.count+len(entries), log.bytes+bytes
	tx.PutRecords = []store.PutRecord{{Record: log.record(), Expect: log.version}}
	log.version++
	if err := a.guard.store.Commit(ctx, tx); err != nil {
		a.log = auditLog{}
		if errors.Is(err, store.ErrConflict) { // it was removed: the clock went on by more than the retention
			return fmt.Errorf("auth: note: the log of this process is gone; try again: %w", err)
		}
		return wrap("note", err)
	}
	a.log = log
	return nil
}

func auditKey(name string) store.Key { return store.Key{Queue: queueAudit, Name: name} }

// record says what is in a log. Its time is that of the last entry: a reader goes backward,
// and what is removed must be old as a whole.
func (l *auditLog) record() store.Record {
	out := append(make([]byte, 0, 32), auditFormat)
	out = wire.AppendTime(out, l.first)
	out = wire.AppendNumber(out, uint64(l.count))
	return store.Record{Key: store.RecordKey{Kind: kindAudit, ID: l.name}, Time: l.last, Body: out}
}

func parseAuditLog(rec store.Record) (auditLog, error) {
	l := auditLog{name: rec.Key.ID, last: rec.Time.UTC(), version: rec.Version}
	r := wire.Reader{Data: rec.Body}
	r.Format(auditFormat)
	l.first = r.Time()
	l.count = int(r.Int32())
	return l, corrupt(rec.Key, r.End())
}
