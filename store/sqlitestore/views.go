package sqlitestore

import (
	"fmt"
	"strconv"
	"strings"
)

// viewsVersion is raised when the views change: whoever opens an older file makes them
// anew. They are for people, and nothing here reads them.
const viewsVersion = 1

// iso returns SQL for a time in milliseconds as text.
func iso(ms string) string {
	return `strftime('%Y-%m-%dT%H:%M:%fZ', (` + ms + `) / 1000.0, 'unixepoch')`
}

// byteAt returns SQL for the byte of a blob at a place, counted from 1.
func byteAt(blob, position string) string {
	digit := func(n int) string {
		return fmt.Sprintf("(instr('0123456789ABCDEF', substr(hex(substr(%s, %s, 1)), %d, 1)) - 1)", blob, position, n)
	}
	return "(16 * " + digit(1) + " + " + digit(2) + ")"
}

// fields returns SQL for the fields of an event of a history, as internal/history describes
// it: a JSON object, with the numbers of the fields as names. What is not a number is
// taken for text. What has another format has no fields.
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

// eventKinds are the names of the kinds of events, by their numbers.
var eventKinds = map[int]string{
	1: "TurnStarted", 2: "ExecutionStarted", 3: "ActivityScheduled", 4: "ActivityCompleted", 5: "ActivityFailed", 6: "ActivityCancelled",
	7: "TimerCreated", 8: "TimerFired", 9: "TimerCancelled", 10: "TimerMoved", 11: "ChildStarted", 12: "ChildCompleted", 13: "ChildFailed",
	14: "ChildCancelled", 15: "DetachedStarted", 16: "EventReceived", 17: "EventSent", 18: "StepCompleted", 19: "StepFailed", 20: "ChangeMarked",
	21: "StatusSet", 22: "ValueSet", 23: "CancelRequested", 24: "ExecutionCompleted", 25: "ExecutionFailed", 26: "ExecutionCancelled",
	27: "ExecutionTerminated", 28: "ExecutionContinued", 29: "TimerMoveReceived", 30: "TurnYielded", 31: "ExecutionSuspended",
	32: "ExecutionResumed", 33: "ParentEnded", 34: "ExecutionStalled",
}

// kindName returns SQL for the name of a kind.
func kindName(kind string) string {
	var b strings.Builder
	b.WriteString("CASE " + kind)
	for n := 1; n <= len(eventKinds); n++ {
		b.WriteString(" WHEN " + strconv.Itoa(n) + " THEN '" + eventKinds[n] + "'")
	}
	b.WriteString(" ELSE " + kind + " END")
	return b.String()
}

// textAt returns SQL for a string that stands in a blob after its length, which is less
// than 128.
func textAt(blob, position string) string {
	return "CAST(substr(" + blob + ", " + position + " + 1, " + byteAt(blob, position) + ") AS TEXT)"
}

// views are what people read, by their names.
var views = [][2]string{
	{"instances", `SELECT tenant, id, name AS orchestration,
  CASE WHEN substr(body, 1, 1) = x'01' THEN ` + textAt("body", "2") + ` END AS version,
  status, ` + iso("time") + ` AS started, tags, version AS revision
FROM records WHERE kind = 'instance'`},

	{"history", `SELECT tenant, instance, place, ` + kindName("json_extract(fields, '$.2')") + ` AS event,
  json_extract(fields, '$.1') AS event_id, json_extract(fields, '$.3') AS ref, json_extract(fields, '$.4') AS name,
  json_extract(fields, '$.5') AS target, ` + iso("json_extract(fields, '$.6')") + ` AS at, json_extract(fields, '$.7') AS data
FROM (SELECT k.tenant, k.name AS instance, e.place, ` + fields("e.body") + ` AS fields
  FROM keys k JOIN entries e ON e.key = k.num WHERE k.queue = 'turns')`},

	{"pending_messages", `SELECT k.queue, k.tenant, k.name AS key, m.id, k.route, ` + iso("m.visible") + ` AS visible_at, ` + iso("m.put") + ` AS put_at,
  CASE WHEN k.route = '' THEN ` + iso("m.put + CASE m.ttl WHEN 0 THEN 604800000 ELSE m.ttl END") + ` END AS expires_at,
  m.attempt + (k.token IS NOT NULL AND EXISTS (SELECT 1 FROM json_each(k.delivered) d WHERE d.value = m.seq)) AS attempt,
  CASE WHEN k.token IS NOT NULL THEN ` + iso("k.until") + ` END AS leased_until, length(m.body) AS bytes, m.body
FROM ` + allMessages + ` m JOIN keys k ON k.num = m.key`},

	{"quarantine", `SELECT tenant, id, ` + iso("time") + ` AS since, status AS reason, name AS queue,
  json_extract(tags, '$.key') AS key, json_extract(tags, '$.message') AS message, json_extract(tags, '$.route') AS route,
  json_extract(tags, '$.error') AS error, json_extract(CAST(body AS TEXT), '$.attempt') AS attempt,
  ` + iso("json_extract(CAST(body AS TEXT), '$.put_at_ms')") + ` AS put_at
FROM records WHERE kind = 'quarantine'`},
}

// refreshViews makes the views, or makes them anew if those in the file are older.
func (c *conn) refreshViews() error {
	version, err := c.number("PRAGMA user_version")
	if err != nil || version >= viewsVersion {
		return err
	}
	for _, v := range views {
		if err := c.once("DROP VIEW IF EXISTS " + v[0]); err != nil {
			return err
		}
		if err := c.once("CREATE VIEW " + v[0] + " AS " + v[1]); err != nil {
			return err
		}
	}
	return c.once("PRAGMA user_version = " + strconv.Itoa(viewsVersion))
}
