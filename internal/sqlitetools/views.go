// Package sqlitetools adds to files of store/sqlitestore what needs knowledge of both the store's
// tables and the engine's bytes: views that decode instances and histories for people who read
// the file with SQL, and the conversion of databases of an older design.
//
// A program that imports it has the views created, or renewed, in each file that it opens. The
// abide command does; docs/sqlite.md says what other programs get.
package sqlitetools

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/store/sqlitestore"
)

// viewsVersion is raised when the views change: a file with older ones gets those of the program
// that opens it. Nothing here reads them.
const viewsVersion = 1

func init() {
	sqlitestore.Extend(sqlitestore.Extension{Views: views, ViewsVersion: viewsVersion, Foreign: &foreign})
}

// iso returns the SQL of a time in milliseconds as ISO 8601 text.
func iso(ms string) string {
	return `strftime('%Y-%m-%dT%H:%M:%fZ', (` + ms + `) / 1000.0, 'unixepoch')`
}

// byteAt returns the SQL of the byte of a blob at a position, counted from 1. SQLite has no
// function for it: the byte is found by its hexadecimal digits.
func byteAt(blob, position string) string {
	digit := func(n int) string {
		return fmt.Sprintf("(instr('0123456789ABCDEF', substr(hex(substr(%s, %s, 1)), %d, 1)) - 1)", blob, position, n)
	}
	return "(16 * " + digit(1) + " + " + digit(2) + ")"
}

// fields returns the SQL of the fields of an event of a history (history/history.proto):
// a JSON object, with the numbers of the fields as names. A field that is not a number is taken
// for text. An event of another format has no fields.
//
// It is a decoder of the protobuf wire format as a recursive query. Each row is a step:
//
//	place  the position of the next byte
//	state  0: the byte is a tag   1: it is part of a varint   2: a field is complete
//	tag    the number of the field, and in its three lowest bits its type
//	value  of the varint so far: the number itself, or the length of the bytes that follow
//	shift  of the next seven bits of the varint
//
// Fields of 8 bytes (type 1) are skipped, and so are messages within the event (8 to 11).
func fields(blob string) string {
	b := byteAt(blob, "place")
	return `(WITH RECURSIVE walk (place, state, tag, value, shift) AS (
  SELECT 2, 0, 0, 0, 0 WHERE substr(` + blob + `, 1, 1) = x'01'
  UNION ALL
  SELECT
    CASE WHEN state = 2 THEN place + CASE WHEN tag % 8 = 2 THEN value ELSE 0 END
         WHEN state = 0 AND ` + b + ` % 8 = 1 THEN place + 9
         ELSE place + 1 END,
    CASE WHEN state = 2 THEN 0
         WHEN state = 0 THEN CASE ` + b + ` % 8 WHEN 1 THEN 0 ELSE 1 END
         WHEN ` + b + ` >= 128 THEN 1
         ELSE 2 END,
    CASE WHEN state = 0 THEN ` + b + ` ELSE tag END,
    CASE WHEN state = 1 THEN value + ((` + b + ` % 128) << shift) ELSE 0 END,
    CASE WHEN state = 1 THEN shift + 7 ELSE 0 END
  FROM walk WHERE place <= length(` + blob + `) OR state = 2
)
SELECT json_group_object(tag / 8, CASE WHEN tag % 8 = 2 THEN CAST(substr(` + blob + `, place, value) AS TEXT) ELSE value END)
FROM walk WHERE state = 2 AND tag / 8 NOT IN (8, 9, 10, 11))`
}

// kindName returns the SQL of the name of a kind, or its number if this program does not know it.
func kindName(kind string) string {
	var b strings.Builder
	b.WriteString("CASE " + kind)
	for k := history.Kind(1); k.Known(); k++ {
		b.WriteString(" WHEN " + strconv.Itoa(int(k)) + " THEN '" + k.String() + "'")
	}
	b.WriteString(" ELSE " + kind + " END")
	return b.String()
}

// textAt returns the SQL of a string in a blob that follows its length, which is less than 128.
func textAt(blob, position string) string {
	return "CAST(substr(" + blob + ", " + position + " + 1, " + byteAt(blob, position) + ") AS TEXT)"
}

// allMessages are all pending messages: those with rows of their own, and those in the rows of
// keys.
const allMessages = `(SELECT key, seq, id, visible, put, ttl, attempt, body FROM messages
  UNION ALL SELECT num, m_seq, m_id, m_visible, m_put, m_ttl, m_attempt, m_body FROM keys WHERE m_id IS NOT NULL)`

// views are documented in docs/sqlite.md.
var views = []sqlitestore.View{
	{Name: "instances", Query: `SELECT tenant, id, name AS orchestration,
  CASE WHEN substr(body, 1, 1) = x'01' THEN ` + textAt("body", "2") + ` END AS version,
  status, ` + iso("time") + ` AS started, tags, version AS revision
FROM records WHERE kind = 'instance'`},

	{Name: "history", Query: `SELECT tenant, instance, place, ` + kindName("json_extract(fields, '$.2')") + ` AS event,
  json_extract(fields, '$.1') AS event_id, json_extract(fields, '$.3') AS ref, json_extract(fields, '$.4') AS name,
  json_extract(fields, '$.5') AS target, ` + iso("json_extract(fields, '$.6')") + ` AS at, json_extract(fields, '$.7') AS data
FROM (SELECT k.tenant, k.name AS instance, e.place, ` + fields("e.body") + ` AS fields
  FROM keys k JOIN entries e ON e.key = k.num WHERE k.queue = 'turns')`},

	{Name: "pending_messages", Query: `SELECT k.queue, k.tenant, k.name AS key, m.id, k.route, ` + iso("m.visible") + ` AS visible_at, ` + iso("m.put") + ` AS put_at,
  CASE WHEN k.route = '' THEN ` + iso("m.put + CASE m.ttl WHEN 0 THEN 604800000 ELSE m.ttl END") + ` END AS expires_at,
  m.attempt + (k.token IS NOT NULL AND EXISTS (SELECT 1 FROM json_each(k.delivered) d WHERE d.value = m.seq)) AS attempt,
  CASE WHEN k.token IS NOT NULL THEN ` + iso("k.until") + ` END AS leased_until, length(m.body) AS bytes, m.body
FROM ` + allMessages + ` m JOIN keys k ON k.num = m.key`},

	{Name: "quarantine", Query: `SELECT tenant, id, ` + iso("time") + ` AS since, status AS reason, name AS queue,
  json_extract(tags, '$.key') AS key, json_extract(tags, '$.message') AS message, json_extract(tags, '$.route') AS route,
  json_extract(tags, '$.error') AS error, json_extract(CAST(body AS TEXT), '$.attempt') AS attempt,
  ` + iso("json_extract(CAST(body AS TEXT), '$.put_at_ms')") + ` AS put_at
FROM records WHERE kind = 'quarantine'`},
}
