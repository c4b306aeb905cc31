package sqlitestore

import (
	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// write writes changes, in the order of their fields.
func (u *update) write(c *rows.Changes) error {
	for _, step := range []func(*rows.Changes) error{
		u.wipe, u.changeMessages, u.putMessages, u.changeLogs, u.changeKeys, u.changeRecords, u.changeTally,
	} {
		if err := step(c); err != nil {
			return err
		}
	}
	return nil
}

func (u *update) wipe(c *rows.Changes) error {
	for _, id := range c.Wipe {
		if err := u.exec(`DELETE FROM messages WHERE key = ?`, u.nums[id]); err != nil {
			return err
		}
		if err := u.exec(`DELETE FROM entries WHERE key = ?`, u.nums[id]); err != nil {
			return err
		}
	}
	for _, r := range c.Raise {
		if err := u.exec(`UPDATE messages SET visible = ? WHERE key = ? AND visible < ?`, r.Visible, u.nums[r.Key], r.Visible); err != nil {
			return err
		}
	}
	return nil
}

func (u *update) changeMessages(c *rows.Changes) error {
	if err := u.eachSeq(`DELETE FROM messages WHERE key = ? AND seq = ?`, c.Remove); err != nil {
		return err
	}
	if err := u.eachSeq(countAttempt, c.Count); err != nil {
		return err
	}
	for _, m := range c.Move {
		if err := u.exec(`UPDATE messages SET visible = ? WHERE key = ? AND seq = ?`, m.Visible, u.nums[m.Key], m.Seq); err != nil {
			return err
		}
	}
	return nil
}

const countAttempt = `UPDATE messages SET attempt = attempt + 1 WHERE key = ? AND seq = ?`

func (u *update) eachSeq(query string, list []rows.Seqs) error {
	for _, l := range list {
		for _, seq := range l.Seqs {
			if err := u.exec(query, u.nums[l.Key], seq); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *update) putMessages(c *rows.Changes) error {
	for i := range c.Put {
		m := &c.Put[i]
		num, err := u.num(m.Key)
		if err != nil {
			return err
		}
		if err := u.insertMessage(num, m); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) insertMessage(num int64, m *rows.MessageRow) error {
	return c.exec(`INSERT INTO messages (key, seq, id, visible, put, ttl, attempt, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		num, m.Seq, m.ID, m.Visible, m.Put, m.TTL, m.Attempt, m.Body)
}

func (u *update) changeLogs(c *rows.Changes) error {
	for _, t := range c.Trim {
		if err := u.exec(`DELETE FROM entries WHERE key = ? AND place < ?`, u.nums[t.Key], t.Before); err != nil {
			return err
		}
	}
	for _, a := range c.Append {
		num, err := u.num(a.Key)
		if err != nil {
			return err
		}
		for i, entry := range a.Entries {
			if err := u.insertEntry(num, a.At+i, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *conn) insertEntry(num int64, position int, entry []byte) error {
	return c.exec(`INSERT INTO entries (key, place, body) VALUES (?, ?, ?)`, num, position, entry)
}

func (u *update) changeKeys(c *rows.Changes) error {
	for _, id := range c.Delete { // before others get their names, which nobody does
		if err := u.exec(`DELETE FROM keys WHERE num = ?`, u.nums[id]); err != nil {
			return err
		}
	}
	unknown := make(map[rows.ID]bool, len(c.Refresh))
	for _, id := range c.Refresh {
		unknown[id] = true
	}
	for _, list := range [][]*rows.KeyRow{c.Insert, c.Update} {
		for _, row := range list {
			num, err := u.num(row.ID)
			if err != nil {
				return err
			}
			if unknown[row.ID] {
				if row.First, err = u.firstOf(num, row); err != nil {
					return err
				}
			}
		}
	}
	for _, row := range c.Insert {
		if err := u.insertKey(u.nums[row.ID], row); err != nil {
			return err
		}
	}
	for _, row := range c.Update {
		if err := u.updateKey(u.nums[row.ID], row); err != nil {
			return err
		}
	}
	return nil
}

// firstOf returns when the first message of a key is visible, or expires if the key has
// no route.
func (c *conn) firstOf(num int64, row *rows.KeyRow) (int64, error) {
	first := int64(rows.Never)
	if m := row.Inline; m != nil {
		first = m.Visible
		if row.Route == "" {
			first = m.Expires()
		}
	}
	if row.Rows() == 0 {
		return first, nil
	}
	scan := func(s *sqlite.Stmt) {
		if !s.ColumnIsNull(0) {
			first = min(first, s.ColumnInt64(0))
		}
	}
	if row.Route == "" {
		_, err := c.one(`SELECT min(put + CASE ttl WHEN 0 THEN ? ELSE ttl END) FROM messages WHERE key = ?`, scan, store.DefaultTTL.Milliseconds(), num)
		return first, err
	}
	_, err := c.one(`SELECT min(visible) FROM messages WHERE key = ? AND seq < 32`, scan, num)
	if err == nil && row.Seq > early {
		_, err = c.one(`SELECT min(visible) FROM messages INDEXED BY messages_visible WHERE key = ? AND seq >= 32`, scan, num)
	}
	return first, err
}

// lease returns the columns of a row's lease.
func lease(row *rows.KeyRow) (token, until, delivered any) {
	if row.Token == "" {
		return nil, nil, nil
	}
	return row.Token, row.Until, formatSeqs(row.Delivered)
}

func (c *conn) insertKey(num int64, row *rows.KeyRow) error {
	token, until, delivered := lease(row)
	m := inlined(row)
	return c.exec(`INSERT INTO keys (num, queue, tenant, name, route, lane, turn, seq, count, first, log_first, log_length, log_tag, token, until, delivered,
m_seq, m_id, m_visible, m_put, m_ttl, m_attempt, m_body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		num, row.Key.Queue, row.Key.Tenant, row.Key.Name, row.Route, row.Partition(), rows.TenantOf(row.Key.Tenant), row.Seq, row.Count, row.First,
		row.LogFirst, row.LogLength, int64(row.LogTag), token, until, delivered, //nolint:gosec // its bits are kept as they are
		m[0], m[1], m[2], m[3], m[4], m[5], m[6])
}

// inlined returns the columns of the message that is kept in a row.
func inlined(row *rows.KeyRow) (columns [7]any) {
	if m := row.Inline; m != nil {
		columns = [7]any{m.Seq, m.ID, m.Visible, m.Put, m.TTL, m.Attempt, m.Body}
	}
	return columns
}

func (c *conn) updateKey(num int64, row *rows.KeyRow) error {
	token, until, delivered := lease(row)
	m := inlined(row)
	return c.exec(`UPDATE keys SET route = ?, lane = ?, seq = ?, count = ?, first = ?, log_first = ?, log_length = ?, log_tag = ?,
token = ?, until = ?, delivered = ?, m_seq = ?, m_id = ?, m_visible = ?, m_put = ?, m_ttl = ?, m_attempt = ?, m_body = ? WHERE num = ?`,
		row.Route, row.Partition(), row.Seq, row.Count, row.First, row.LogFirst, row.LogLength, int64(row.LogTag), //nolint:gosec // its bits are kept as they are
		token, until, delivered, m[0], m[1], m[2], m[3], m[4], m[5], m[6], num)
}

func (u *update) changeRecords(c *rows.Changes) error {
	for i := range c.InsertRecords {
		if err := u.insertRecord(&c.InsertRecords[i]); err != nil {
			return err
		}
	}
	for i := range c.UpdateRecords {
		r := &c.UpdateRecords[i]
		if err := u.exec(`UPDATE records SET version = ?, status = ?, name = ?, time = ?, tags = ?, body = ? WHERE kind = ? AND tenant = ? AND id = ?`,
			r.Version, r.Status, r.Name, store.RecordMillis(r.Time), formatTags(r.Tags), r.Body, r.Key.Kind, r.Key.Tenant, r.Key.ID); err != nil {
			return err
		}
	}
	for _, key := range c.DeleteRecords {
		if err := u.exec(`DELETE FROM records WHERE kind = ? AND tenant = ? AND id = ?`, key.Kind, key.Tenant, key.ID); err != nil {
			return err
		}
	}
	for i := range c.UpsertRecords {
		r := c.UpsertRecords[i]
		version, err := u.number(versionOf, r.Key.Kind, r.Key.Tenant, r.Key.ID)
		if err != nil {
			return err
		}
		r.Version = version + 1
		if err := u.putRecord(&r); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) insertRecord(r *store.Record) error {
	return c.exec(`INSERT INTO records (kind, tenant, id, version, status, name, time, tags, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Key.Kind, r.Key.Tenant, r.Key.ID, r.Version, r.Status, r.Name, store.RecordMillis(r.Time), formatTags(r.Tags), r.Body)
}

// putRecord puts a record with the version that it has, whether it is there or not.
func (c *conn) putRecord(r *store.Record) error {
	return c.exec(`INSERT INTO records (kind, tenant, id, version, status, name, time, tags, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, tenant, id) DO UPDATE SET version = excluded.version, status = excluded.status, name = excluded.name,
time = excluded.time, tags = excluded.tags, body = excluded.body`,
		r.Key.Kind, r.Key.Tenant, r.Key.ID, r.Version, r.Status, r.Name, store.RecordMillis(r.Time), formatTags(r.Tags), r.Body)
}

func (u *update) changeTally(c *rows.Changes) error {
	for _, t := range c.Tally {
		if err := u.addTally(t.Queue, t.Route, t.More); err != nil {
			return err
		}
	}
	return nil
}

func (c *conn) addTally(queue, route string, more int) error {
	return c.exec(`INSERT INTO tally (queue, route, lane, pending) VALUES (?, ?, ?, ?)
ON CONFLICT (queue, route) DO UPDATE SET pending = pending + excluded.pending`, queue, route, rows.PartitionOf(queue, route), more)
}
