package sqlitestore

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// contradiction is a query that finds what contradicts something else. Its rows are names of keys
// or the like, and numbers.
type contradiction struct {
	query string
	text  string // what to say, with the columns of the row
}

var contradictions = []contradiction{
	{
		`SELECT m.key, m.id, '', '' FROM messages m WHERE NOT EXISTS (SELECT 1 FROM keys k WHERE k.num = m.key)`,
		"message %[2]q is of key number %[1]s, which is not there",
	},
	{
		`SELECT e.key, count(*), '', '' FROM entries e WHERE NOT EXISTS (SELECT 1 FROM keys k WHERE k.num = e.key) GROUP BY e.key`,
		"%[2]s entries are of key number %[1]s, which is not there",
	},
	{
		`SELECT queue, tenant, name, '' FROM keys WHERE count = 0 AND log_length = 0`,
		"key %[1]s/%[2]s/%[3]s has neither messages nor a log",
	},
	{
		`SELECT queue, tenant, name, count || ' messages, and has ' || ((SELECT count(*) FROM messages m WHERE m.key = keys.num) + (m_id IS NOT NULL))
FROM keys WHERE count <> (SELECT count(*) FROM messages m WHERE m.key = keys.num) + (m_id IS NOT NULL)`,
		"key %[1]s/%[2]s/%[3]s counts %[4]s",
	},
	{
		`SELECT queue, tenant, name, max(m.seq) FROM ` + allMessages + ` m JOIN keys k ON k.num = m.key WHERE m.seq >= k.seq GROUP BY m.key`,
		"key %[1]s/%[2]s/%[3]s has a message with number %[4]s, which it would give to another one",
	},
	{
		`SELECT queue, tenant, name, m.id FROM ` + allMessages + ` m JOIN keys k ON k.num = m.key GROUP BY m.key, m.id HAVING count(*) > 1`,
		"key %[1]s/%[2]s/%[3]s has message %[4]q twice",
	},
	{
		`SELECT queue, tenant, name, log_first || ' to ' || log_length FROM keys
WHERE log_first < 0 OR log_first > log_length OR (SELECT count(*) FROM entries e WHERE e.key = keys.num) <> log_length - log_first
OR EXISTS (SELECT 1 FROM entries e WHERE e.key = keys.num AND (e.place < log_first OR e.place >= log_length))`,
		"the log of %[1]s/%[2]s/%[3]s does not have exactly the entries from %[4]s",
	},
	{
		`SELECT queue, tenant, name, j.value FROM keys, json_each(CASE WHEN json_valid(delivered) THEN delivered ELSE '[]' END) j
WHERE token IS NOT NULL AND j.value IS NOT m_seq AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.key = keys.num AND m.seq = j.value)`,
		"the lease of %[1]s/%[2]s/%[3]s is of message number %[4]s, which is not there",
	},
	{
		`SELECT queue, tenant, name, coalesce(delivered, 'nothing') FROM keys
WHERE token IS NOT NULL AND (until IS NULL OR delivered IS NULL OR NOT json_valid(delivered) OR route = '')`,
		"the lease of %[1]s/%[2]s/%[3]s has no end, or is of %[4]s, or of a key without a route",
	},
	{
		`SELECT queue, tenant, name, '' FROM keys WHERE token IS NULL AND (until IS NOT NULL OR delivered IS NOT NULL)`,
		"key %[1]s/%[2]s/%[3]s is not leased, and has parts of a lease",
	},
	{
		`SELECT t.queue, t.route, t.pending, coalesce((SELECT sum(count) FROM keys k WHERE k.queue = t.queue AND k.route = t.route), 0) FROM tally t
WHERE t.pending <> coalesce((SELECT sum(count) FROM keys k WHERE k.queue = t.queue AND k.route = t.route), 0)`,
		"queue %[1]s counts %[3]s messages for route %[2]q, and has %[4]s",
	},
	{
		`SELECT queue, route, sum(count), '' FROM keys k WHERE NOT EXISTS (SELECT 1 FROM tally t WHERE t.queue = k.queue AND t.route = k.route)
GROUP BY queue, route HAVING sum(count) > 0`,
		"queue %[1]s has %[3]s messages for route %[2]q, and does not count them",
	},
	{
		`SELECT kind, tenant, id, version FROM records WHERE version < 1 OR kind = '' OR id = ''`,
		"record %[1]s/%[2]s/%[3]s has version %[4]s, or no name",
	},
	{
		`SELECT kind, tenant, id, tags FROM records WHERE tags IS NOT NULL AND NOT json_valid(tags)`,
		"the tags of record %[1]s/%[2]s/%[3]s cannot be read: %[4]s",
	},
}

// Verify looks at all that the store holds.
func (s *Store) Verify(ctx context.Context, report func(problem string)) error {
	return s.scan(ctx, "verify", func(c *conn) error {
		whole := true
		err := c.each("PRAGMA integrity_check", func(st *sqlite.Stmt) error {
			if text := st.ColumnText(0); text != "ok" {
				whole = false
				report("the file is damaged: " + text)
			}
			return nil
		})
		if err != nil || !whole {
			return err // what is built on it cannot be told
		}
		for _, check := range contradictions {
			if err := c.each(check.query, func(st *sqlite.Stmt) error {
				report(fmt.Sprintf(check.text+"%[5]s", st.ColumnText(0), st.ColumnText(1), st.ColumnText(2), st.ColumnText(3), ""))
				return nil
			}); err != nil {
				return err
			}
		}
		if err := c.verifyNumbers(report); err != nil {
			return err
		}
		return c.verifyTags(report)
	})
}

// verifyNumbers looks at what of a key is worked out from the rest: SQL cannot do that.
func (c *conn) verifyNumbers(report func(string)) error {
	return c.each(`SELECT `+keyColumns+`, lane, turn FROM keys`, func(s *sqlite.Stmt) error {
		num, row := scanKey(s)
		identify(row, rows.IDOf(row.Key))
		if partition, turn := s.ColumnInt64(21), s.ColumnInt64(22); partition != row.Partition() || turn != rows.TenantOf(row.Key.Tenant) {
			report(fmt.Sprintf("key %v is in lane %d and turn %d, and belongs in %d and %d", row.Key, partition, turn, row.Partition(), rows.TenantOf(row.Key.Tenant)))
		}
		first, err := c.firstOf(num, row)
		if err != nil {
			return err
		}
		if first != row.First {
			report(fmt.Sprintf("the first message of %v is due at %d, and its row says %d", row.Key, first, row.First))
		}
		return nil
	})
}

// verifyTags reads the tags of all records.
func (c *conn) verifyTags(report func(string)) error {
	return c.each(`SELECT kind, tenant, id, tags FROM records WHERE tags IS NOT NULL AND json_valid(tags)`, func(s *sqlite.Stmt) error {
		if _, err := parseTags(s.ColumnText(3)); err != nil {
			key := store.RecordKey{Kind: s.ColumnText(0), Tenant: s.ColumnText(1), ID: s.ColumnText(2)}
			report(fmt.Sprintf("record %v: %v", key, err))
		}
		return nil
	})
}
