package sqlitestore

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// find returns the row of a key, or nil, and its number.
func (c *conn) find(key store.Key) (num int64, row *rows.KeyRow, err error) {
	_, err = c.one(`SELECT `+keyColumns+` FROM keys WHERE queue = ? AND tenant = ? AND name = ?`,
		func(s *sqlite.Stmt) { num, row = scanKey(s) }, key.Queue, key.Tenant, key.Name)
	if row != nil {
		identify(row, rows.IDOf(key))
	}
	return num, row, err
}

// ReadLog returns entries of a log.
func (s *Store) ReadLog(ctx context.Context, key store.Key, from int) (page store.LogPage, err error) {
	if err := store.ValidateReadLog(key, from); err != nil {
		return store.LogPage{}, err
	}
	err = s.read(ctx, "read log", func(c *conn) error {
		page = store.LogPage{First: from}
		num, row, err := c.find(key)
		if err != nil || row == nil {
			return err
		}
		page.First, page.Length = max(from, row.LogFirst), row.LogLength
		page.Entries, err = c.entries(num, page.First, store.LogPageBytes)
		return err
	})
	return page, err
}

// entries returns entries of a log, as many as fit, and at least one if there is one.
func (c *conn) entries(num int64, from, limit int) (list [][]byte, err error) {
	size := 0
	err = c.each(`SELECT body FROM entries WHERE key = ? AND place >= ? ORDER BY place`, func(s *sqlite.Stmt) error {
		if size += s.ColumnLen(0); size > limit && len(list) > 0 {
			return errEnd
		}
		list = append(list, blob(s, 0))
		return nil
	}, num, from)
	return list, ignoreEnd(err)
}

// Pending returns the messages of a key.
func (s *Store) Pending(ctx context.Context, key store.Key, limit int) (messages []store.Message, err error) {
	if err := store.ValidatePending(key, limit); err != nil {
		return nil, err
	}
	if limit == 0 {
		limit = store.MaxPage
	}
	err = s.read(ctx, "pending", func(c *conn) error {
		messages = nil
		num, row, err := c.find(key)
		if err != nil || row == nil {
			return err
		}
		found, err := c.ordered(num, row, rows.Never, limit, false)
		if err != nil {
			return err
		}
		delivered := seqSet(row)
		size := 0
		for i := range found[:min(limit, len(found))] {
			m := &found[i]
			if size += m.size; size > store.PageBytes && len(messages) > 0 {
				break
			}
			if err := c.readBody(num, &m.MessageRow); err != nil {
				return err
			}
			messages = append(messages, message(&m.MessageRow, row, delivered))
		}
		return nil
	})
	return messages, err
}

// readBody reads the body of a message that was read without it.
func (c *conn) readBody(num int64, m *rows.MessageRow) error {
	if m.Body != nil {
		return nil
	}
	_, err := c.one(`SELECT body FROM messages WHERE key = ? AND seq = ?`, func(s *sqlite.Stmt) { m.Body = blob(s, 0) }, num, m.Seq)
	return err
}

// seqSet returns the numbers of the messages that were delivered with the lease that a
// key has.
func seqSet(row *rows.KeyRow) map[int64]bool {
	set := make(map[int64]bool, len(row.Delivered))
	for _, seq := range row.Delivered {
		set[seq] = true
	}
	return set
}

// message returns a message as the contract has it. The attempt of the lease that its key
// has is not in its row.
func message(m *rows.MessageRow, row *rows.KeyRow, delivered map[int64]bool) store.Message {
	out := m.Message(row.Key, row.Route)
	if delivered[m.Seq] {
		out.Attempt++
	}
	return out
}
