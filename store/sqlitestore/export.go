package sqlitestore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// exportPosition is where an export continues: with the head of a key, its entries or its messages,
// or with records.
type exportPosition struct {
	part byte  // one of those below
	num  int64 // of the key or the record
	at   int64 // the place of the entry or the number of the message
}

const (
	partKey     = 'k'
	partEntry   = 'e'
	partMessage = 'm'
	partRecord  = 'r'
)

func (p exportPosition) String() string {
	return string(p.part) + strconv.FormatInt(p.num, 10) + "." + strconv.FormatInt(p.at, 10)
}

func parseExportPosition(cursor string) (p exportPosition, err error) {
	if cursor == "" {
		return exportPosition{part: partKey}, nil
	}
	num, at, ok := strings.Cut(cursor[1:], ".")
	p.part = cursor[0]
	if ok {
		if p.num, err = strconv.ParseInt(num, 10, 64); err == nil {
			p.at, err = strconv.ParseInt(at, 10, 64)
		}
	}
	if !ok || err != nil || !strings.ContainsRune("kemr", rune(p.part)) || p.String() != cursor {
		return p, fmt.Errorf("store: export: cursor %q is not from this store: %w", cursor, store.ErrInvalid)
	}
	return p, nil
}

// parceler fills a parcel.
type parceler struct {
	*conn
	store.Parcel
	size int
}

// itemBytes is what an item counts besides its names and its body, so that parcels of
// empty messages end too.
const itemBytes = 64

// fits reports whether another item fits; the first one always does. If it does not, the
// next parcel begins with it.
func (p *parceler) fits(size int, at exportPosition) bool {
	if size += itemBytes; p.size > 0 && p.size+size > store.ParcelBytes {
		p.Next = at.String()
		return false
	}
	p.size += size
	return true
}

// Export returns a part of all that there is: the keys in the order of their numbers, each
// with its entries and its messages, then the records.
func (s *Store) Export(ctx context.Context, cursor string) (store.Parcel, error) {
	at, err := parseExportPosition(cursor)
	if err != nil {
		return store.Parcel{}, err
	}
	var parcel store.Parcel
	err = s.scan(ctx, "export", func(c *conn) error {
		p := &parceler{conn: c}
		err := p.fill(at)
		parcel = p.Parcel
		return err
	})
	return parcel, err
}

func (p *parceler) fill(at exportPosition) error {
	for at.part != partRecord {
		var num int64
		var row *rows.KeyRow
		found, err := p.one(`SELECT `+keyColumns+` FROM keys WHERE num >= ? ORDER BY num LIMIT 1`, func(s *sqlite.Stmt) { num, row = scanKey(s) }, at.num)
		if err != nil {
			return err
		}
		if !found {
			at = exportPosition{part: partRecord}
			break
		}
		if num != at.num {
			at = exportPosition{part: partKey, num: num}
		}
		if err := p.addKey(num, row, at); err != nil || p.Next != "" {
			return err
		}
		at = exportPosition{part: partKey, num: num + 1}
	}
	return p.addRecords(at.num)
}

// addKey adds a key, or what is left of it.
func (p *parceler) addKey(num int64, row *rows.KeyRow, at exportPosition) error {
	names := len(row.Key.Queue) + len(row.Key.Tenant) + len(row.Key.Name)
	if at.part == partKey {
		if !p.fits(names+len(row.Route), at) {
			return nil
		}
		p.Keys = append(p.Keys, store.KeyHead{
			Key: row.Key, Route: row.Route, LogTag: row.LogTag, LogFirst: row.LogFirst, LogLength: row.LogLength,
		})
		at = exportPosition{part: partEntry, num: num}
	}
	if at.part == partEntry {
		if err := p.addEntries(num, row, at.at); err != nil || p.Next != "" {
			return err
		}
		at = exportPosition{part: partMessage, num: num}
	}
	identify(row, rows.IDOf(row.Key))
	delivered := seqSet(row)
	err := p.each(`SELECT `+messageColumns+`, body FROM messages WHERE key = ? AND seq >= ?
UNION ALL SELECT m_seq, m_id, m_visible, m_put, m_ttl, m_attempt, m_body FROM keys WHERE num = ? AND m_seq >= ?
ORDER BY seq`, func(s *sqlite.Stmt) error {
		m := scanMessage(s, row.ID)
		if !p.fits(names+len(m.ID)+s.ColumnLen(6), exportPosition{partMessage, num, m.Seq}) {
			return errEnd
		}
		m.Body = blob(s, 6)
		p.Messages = append(p.Messages, message(&m, row, delivered))
		return nil
	}, num, at.at, num, at.at)
	return ignoreEnd(err)
}

func (p *parceler) addEntries(num int64, row *rows.KeyRow, from int64) error {
	err := p.each(`SELECT place, body FROM entries WHERE key = ? AND place >= ? ORDER BY place`, func(s *sqlite.Stmt) error {
		i := s.ColumnInt64(0)
		if !p.fits(s.ColumnLen(1), exportPosition{partEntry, num, i}) {
			return errEnd
		}
		if n := len(p.Entries); n == 0 || p.Entries[n-1].Key != row.Key {
			p.Entries = append(p.Entries, store.Append{Key: row.Key, At: int(i)})
		}
		last := &p.Entries[len(p.Entries)-1]
		last.Entries = append(last.Entries, blob(s, 1))
		return nil
	}, num, from)
	return ignoreEnd(err)
}

func (p *parceler) addRecords(from int64) error {
	err := p.each(`SELECT num, length(body), `+recordColumns+` FROM records WHERE num >= ? ORDER BY num`, func(s *sqlite.Stmt) error {
		names := s.ColumnLen(2) + s.ColumnLen(3) + s.ColumnLen(4)
		if !p.fits(names+s.ColumnInt(1), exportPosition{partRecord, s.ColumnInt64(0), 0}) {
			return errEnd
		}
		r, err := scanRecord(s, 2)
		p.Records = append(p.Records, r)
		return err
	}, from)
	return ignoreEnd(err)
}
