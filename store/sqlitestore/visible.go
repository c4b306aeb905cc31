package sqlitestore

import (
	"cmp"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
)

// sized is a message, and how large its body is, which may not have been read.
type sized struct {
	rows.MessageRow
	size int
}

// few is how many messages a key may have for their bodies to be read together with them:
// of more, only those that are delivered.
const few = 4

// maxOver is how many messages that were delivered too often are looked at, besides those
// that are delivered.
const maxOver = 10_000

// visible returns the visible messages of a key, in the order of delivery.
func (k *picker) visible(num int64, row *rows.KeyRow) ([]sized, error) {
	return k.ordered(num, row, k.now, k.p.MaxMessages+maxOver, row.Count <= few)
}

// ordered returns the messages of a key that are visible by a time, in the order of
// delivery.
func (c *conn) ordered(num int64, row *rows.KeyRow, by int64, limit int, bodies bool) (found []sized, err error) {
	column := "length(body)"
	if bodies {
		column = "body"
	}
	scan := func(s *sqlite.Stmt) error {
		m := sized{MessageRow: scanMessage(s, row.ID)}
		if bodies {
			m.Body = blob(s, 6)
			m.size = len(m.Body)
		} else {
			m.size = s.ColumnInt(6)
		}
		found = append(found, m)
		return nil
	}
	if m := row.Inline; m != nil && m.Visible <= by {
		found = append(found, sized{*m, len(m.Body)})
	}
	if row.Rows() == 0 {
		return found, nil
	}
	err = c.each(`SELECT `+messageColumns+`, `+column+` FROM messages WHERE key = ? AND seq < 32 AND visible <= ?`, scan, num, by)
	if err == nil && row.Seq > early {
		err = c.each(`SELECT `+messageColumns+`, `+column+` FROM messages INDEXED BY messages_visible
WHERE key = ? AND seq >= 32 AND visible <= ? ORDER BY visible, seq LIMIT ?`, scan, num, by, limit)
	}
	slices.SortFunc(found, func(a, b sized) int { return cmp.Or(cmp.Compare(a.Visible, b.Visible), cmp.Compare(a.Seq, b.Seq)) })
	return found, err
}
