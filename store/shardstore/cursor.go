package shardstore

import (
	"encoding/binary"
	"time"

	"github.com/abidehq/abide/internal/cursor"
	"github.com/abidehq/abide/store"
)

// position is how far a walk through a list has come.
type position struct {
	// version is that of the directory. A walk that goes on under another one, with tenants on
	// other shards, goes on by time.
	version int64

	// last is the time of the last record that was returned, in milliseconds; any says that there
	// was one.
	last int64
	any  bool

	// shards has how far the walk has come on each shard on which it has begun.
	shards map[string]progress
}

// progress is how far a walk has come on one shard.
type progress struct {
	cursor string // of the shard's next page; empty for the first
	done   bool   // there is none
}

// A cursor is that of package cursor, with the time of the last record. What tells records of
// the same time apart is:
//
//	1 byte    1 if a record was returned, 0 if there was none before the page ended
//	varint    the version of the directory
//	for each shard on which the walk has begun, in the order of names:
//	varint    the length of its name, and the name
//	1 byte    1 if all of it was returned
//	varint    the length of its own cursor, and the cursor

// format returns the cursor of a position.
func (p *position) format(q *store.Query, shards []*shard) string {
	tie := []byte{0}
	if p.any {
		tie[0] = 1
	}
	tie = binary.AppendUvarint(tie, uint64(p.version)) //nolint:gosec // versions are positive
	for _, sh := range shards {
		at, ok := p.shards[sh.name]
		if !ok {
			continue
		}
		tie = appendText(tie, sh.name)
		done := byte(0)
		if at.done {
			done = 1
		}
		tie = appendText(append(tie, done), at.cursor)
	}
	return cursor.Format(q, cursor.Position{Millis: p.last, Tie: tie})
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// parsePosition returns the position of q's cursor, or that of the beginning.
func parsePosition(q *store.Query) (*position, error) {
	p := &position{shards: map[string]progress{}}
	c, ok, err := cursor.Parse(q, cursor.AnyTie)
	if !ok || err != nil {
		return p, err
	}
	b := reader{c.Tie}
	p.last = c.Millis
	p.any = b.flag()
	p.version = int64(b.number()) //nolint:gosec // written in the same way
	for len(b.rest) > 0 {
		name := b.text()
		p.shards[name] = progress{done: b.flag(), cursor: b.text()}
	}
	if b.rest == nil {
		return nil, cursor.Invalid(q)
	}
	return p, nil
}

// reader reads a tie. After a mistake rest is nil, and it returns zeros.
type reader struct{ rest []byte }

func (r *reader) flag() bool {
	if len(r.rest) == 0 {
		r.rest = nil
		return false
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b == 1
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.rest = nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) text() string {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.rest = nil
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

// on returns the query for a shard on which a walk has come that far. On a shard without a cursor it
// begins with the millisecond that was reached: before that, there is nothing that was not returned.
func (p *position) on(q store.Query, at progress) store.Query {
	q.Cursor = at.cursor
	if at.cursor != "" || !p.any {
		return q
	}
	reached := store.FromMillis(p.last)
	switch {
	case q.Descending && (q.To.IsZero() || reached.Before(q.To)):
		q.To = reached.Add(time.Millisecond)
	case !q.Descending && reached.After(q.From):
		q.From = reached
	}
	return q
}
