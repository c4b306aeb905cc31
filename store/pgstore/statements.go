package pgstore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// databaseTime is the clock of the server in milliseconds. It is that of the statement and not of the
// transaction: a time that was read before a wait for a lock would be in the past.
const databaseTime = `floor(extract(epoch FROM clock_timestamp()) * 1000)::int8`

// translator replaces the placeholders of templates: {schema} by the quoted schema; {now} by the
// time of the store (base.Question.Time), for which the first parameter of the statement is the
// time that it must not be before; {reserved} by whether the lease of k is a reservation; {never} by rows.Never; {ttl} by the default time to live.
func translator(quoted string, clockGiven bool) *strings.Replacer {
	now := fmt.Sprintf(`(SELECT CASE WHEN $1::int8 - c.ms > %d THEN c.ms ELSE greatest($1::int8, c.ms) END FROM (SELECT %s AS ms) c)`,
		store.MaxClockLead.Milliseconds(), databaseTime)
	if clockGiven { // by a test
		now = `$1::int8`
	}
	return strings.NewReplacer(
		"{schema}", quoted,
		"{now}", now,
		"{database time}", databaseTime,
		"{reserved}", `starts_with(k.token, E'\n')`,
		"{never}", strconv.FormatInt(rows.Never, 10),
		"{ttl}", strconv.FormatInt(store.DefaultTTL.Milliseconds(), 10),
	)
}

// templates are all statements with a fixed text, by name: the tests look at the plan of each.
var templates = map[string]string{
	"loadKeys":       loadKeys,
	"lockKeys":       lockKeys,
	"loadRecords":    loadRecords,
	"lockRecords":    lockRecords,
	"loadMessages":   loadMessages,
	"readClock":      readClock,
	"insertKeys":     insertKeys,
	"updateKeys":     updateKeys,
	"refreshKeys":    refreshKeys,
	"deleteKeys":     deleteKeys,
	"wipeMessages":   wipeMessages,
	"wipeEntries":    wipeEntries,
	"raiseMessages":  raiseMessages,
	"removeMessages": removeMessages,
	"countMessages":  countMessages,
	"moveMessages":   moveMessages,
	"putMessages":    putMessages,
	"trimEntries":    trimEntries,
	"appendEntries":  appendEntries,
	"insertRecords":  insertRecords,
	"updateRecords":  updateRecords,
	"deleteRecords":  deleteRecords,
	"upsertRecords":  upsertRecords,
	"addTally":       addTally,
	"foldTally":      foldTally,
	"pickKeys":       pickKeys,
	"pickLimited":    pickLimited,
	"waitForKey":     waitForKey,
	"nextDue":        nextDue,
	"findExpired":    findExpired,
	"readRecord":     readRecord,
	"readEntries":    readEntries,
	"readPending":    readPending,
	"readStats":      readStats,
	"readLeases":     readLeases,
	"readLease":      readLease,
	"exportKeys":     exportKeys,
	"exportEntries":  exportEntries,
	"exportMessages": exportMessages,
	"exportRecords":  exportRecords,
	"enterProcess":   enterProcess,
	"seeProcess":     seeProcess,
	"leaveProcess":   leaveProcess,
	"excludeOthers":  excludeOthers,
	"includeOthers":  includeOthers,
	"readPeers":      readPeers,
	"noteListening":  noteListening,
}

// statements are the templates as a store sends them. They are translated once.
type statements struct {
	texts     map[string]string // by template
	sent      map[string]string // by statement: what is sent instead, if it is something else
	plain     map[string]string // by what is sent instead: the statement
	translate *strings.Replacer // of statements that are put together
}

func newStatements(quoted string, clockGiven bool) *statements {
	s := &statements{
		texts: make(map[string]string, len(templates)), sent: map[string]string{}, plain: map[string]string{}, translate: translator(quoted, clockGiven),
	}
	for _, template := range templates {
		s.texts[template] = s.translate.Replace(template)
	}
	return s
}

// sql returns the text of a template. One that is not in templates has no tested plan, and is a
// bug of this package.
func (s *statements) sql(template string) string {
	text, ok := s.texts[template]
	if !ok {
		panic("pgstore: not a template: " + template)
	}
	return s.sending(text)
}

// replace has something else sent instead of a statement: a call of the function that it is.
func (s *statements) replace(sql, sent string) { s.sent[sql], s.plain[sent] = sent, sql }

// sending returns what is sent instead of a statement, or the statement.
func (s *statements) sending(sql string) string {
	if sent, ok := s.sent[sql]; ok {
		return sent
	}
	return sql
}

// apart marks statements in transactions of users, so that a pooler that shares prepared statements
// by their text does not share those: their plans may be made with other settings.
const apart = "\n-- in a transaction of the caller"

// inTransaction returns what is sent in a transaction of a user's instead of what is sent in one of
// ours.
func (s *statements) inTransaction(sent string) string {
	if sql, ok := s.plain[sent]; ok {
		return sql + apart
	}
	return sent + apart
}

// The server plans a statement for the statistics that it has of a table, and keeps the plan. A
// table that holds a queue is often analyzed while it is empty; for that, the best plan reads
// the whole table, and for each row all parameters. A moment later the table has a million rows.
// So the statements leave the server one plan: to look up one row after another, in the intended
// index, whatever the statistics are. Parameters come as arrays, and are joined with keys and
// records by
//
//	k.id = ANY (ARRAY[w.id])
//
// which says no more than k.id = w.id, but cannot be turned around. Messages have several
// indexes that would do; the order asks for one, and the limit keeps it apart from the rest.

// messageBySeq and messageByID are the row of a message that w names.
const (
	messageBySeq = `(SELECT m.ctid AS row FROM {schema}.messages m
	WHERE m.key = w.key AND m.seq >= w.seq AND m.seq <= w.seq ORDER BY m.seq LIMIT 1) f`

	messageByID = `(SELECT m.* FROM {schema}.messages m
	WHERE m.key = w.key AND m.id >= w.id AND m.id <= w.id ORDER BY m.id LIMIT 1) m`
)

// keyColumnsText are the columns that scanKey reads.
const keyColumnsText = `k.id, k.at, k.first, k.seq, k.count, k.log_first, k.log_length, k.log_tag, k.token, k.delivered,
	k.queue, k.tenant, k.name, k.route, k.m_seq, k.m_visible, k.m_put, k.m_ttl, k.m_attempt, k.m_id, k.m_body, k.holder`

// What an update loads.
const (
	loadKeys = `SELECT ` + keyColumnsText + `, k.rev
FROM {schema}.keys k WHERE k.id = ANY ($1::uuid[])
ORDER BY k.id`

	lockKeys = loadKeys + " FOR UPDATE"

	loadRecords = `SELECT w.n, r.version
FROM unnest($1::uuid[]) WITH ORDINALITY AS w (key, n)
JOIN {schema}.records r ON r.key = ANY (ARRAY[w.key])
ORDER BY w.n`

	lockRecords = loadRecords + " FOR UPDATE OF r"

	loadMessages = `SELECT m.key, m.seq, m.id, m.visible, m.put, m.ttl, m.attempt, CASE WHEN $3::boolean THEN m.body END
FROM unnest($1::uuid[], $2::bytea[]) AS w (key, id)
CROSS JOIN LATERAL ` + messageByID

	// The time, after all locks are held, whether another process has excluded the others, how
	// many others there are, and when the last of them opened the store. One that was not seen for
	// a while is gone.
	readClock = `SELECT {database time}, coalesce(bool_or(p.exclusive), false), count(p.id), coalesce(extract(epoch FROM max(p.opened)) * 1000000, 0)::int8
FROM {schema}.processes p WHERE p.id <> $1::text AND p.seen > clock_timestamp() - $2::int8 * interval '1 millisecond'`
)

// An update does not lock what it loads, unless others came in between just before: a row
// that is locked is written once more. Instead it writes what it has loaded only if it is
// still so: a statement that finds fewer rows than it was given takes a sentence for a
// number, and with that the transaction ends. The sentence is for who reads the server's log.
const (
	conflictText = `another transaction came in between, so Abide does this again`

	guardBegin = `WITH done AS (`
	guardEnd   = ` RETURNING 1) SELECT (CASE WHEN count(*) = cardinality($1::uuid[]) THEN '1' ELSE '` + conflictText + `' END)::int4 FROM done`
)

// What an update writes of keys. A new row has a revision that the key cannot have had before: a process may
// remember the row of a key that was here once (rowCache), and its revision must not fit.
const (
	insertKeys = `INSERT INTO {schema}.keys (id, rev, lane, turn, at, first, seq, count, log_first, log_length, log_tag, token, delivered,
	route, m_seq, m_visible, m_put, m_ttl, m_attempt, m_id, m_body, queue, tenant, name, holder)
SELECT w.id, $25::int8, w.lane, w.turn, w.at, w.first, w.seq, w.count, w.log_first, w.log_length, w.log_tag, w.token, w.delivered::int8[],
	w.route, w.m_seq, w.m_visible, w.m_put, w.m_ttl, w.m_attempt, w.m_id, w.m_body, w.queue, w.tenant, w.name, w.holder
FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[], $10::int8[],
	$11::text[], $12::text[], $13::bytea[], $14::int8[], $15::int8[], $16::int8[], $17::int8[], $18::int4[], $19::bytea[], $20::bytea[],
	$21::bytea[], $22::bytea[], $23::bytea[], $24::int8[])
	AS w (id, lane, turn, at, first, seq, count, log_first, log_length, log_tag, token, delivered, route,
		m_seq, m_visible, m_put, m_ttl, m_attempt, m_id, m_body, queue, tenant, name, holder)`

	// firstOf is when the first message of the key k is visible, or expires: that of what is
	// known, or of its rows of messages.
	firstOf = `least(k.first, CASE WHEN k.route <> ''
	THEN (SELECT m.visible FROM {schema}.messages m WHERE m.key = k.id ORDER BY m.visible, m.seq LIMIT 1)
	ELSE (SELECT min(m.put + CASE m.ttl WHEN 0 THEN {ttl} ELSE m.ttl END) FROM {schema}.messages m WHERE m.key = k.id) END)`

	updateKeys = guardBegin + `UPDATE {schema}.keys t SET rev = t.rev + 1, lane = n.lane, first = n.first,
	at = CASE WHEN n.token IS NULL THEN nullif(n.first, {never}) ELSE n.at END,
	seq = n.seq, count = n.count, log_first = n.log_first, log_length = n.log_length, log_tag = n.log_tag, token = n.token,
	delivered = n.delivered::int8[], route = n.route, m_seq = n.m_seq, m_visible = n.m_visible, m_put = n.m_put, m_ttl = n.m_ttl,
	m_attempt = n.m_attempt, m_id = n.m_id, m_body = n.m_body, holder = n.holder
FROM (SELECT k.id, k.lane, k.at, CASE WHEN k.refresh THEN ` + firstOf + ` ELSE k.first END AS first, k.seq, k.count, k.log_first,
		k.log_length, k.log_tag, k.token, k.delivered, k.route, k.m_seq, k.m_visible, k.m_put, k.m_ttl, k.m_attempt, k.m_id, k.m_body, k.rev, k.holder
	FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[], $9::int8[],
		$10::text[], $11::text[], $12::bytea[], $13::int8[], $14::int8[], $15::int8[], $16::int8[], $17::int4[], $18::bytea[], $19::bytea[],
		$20::boolean[], $21::int8[], $22::int8[])
		AS k (id, lane, at, first, seq, count, log_first, log_length, log_tag, token, delivered, route,
			m_seq, m_visible, m_put, m_ttl, m_attempt, m_id, m_body, refresh, rev, holder)) n
WHERE t.id = ANY (ARRAY[n.id]) AND t.rev = n.rev` + guardEnd

	refreshKeys = `UPDATE {schema}.keys t SET first = n.first,
	at = CASE WHEN t.token IS NULL THEN nullif(n.first, {never}) ELSE t.at END
FROM (SELECT k.id, ` + firstOf + ` AS first FROM unnest($1::uuid[]) AS w (id) JOIN {schema}.keys k ON k.id = ANY (ARRAY[w.id])) n
WHERE t.id = ANY (ARRAY[n.id])`

	deleteKeys = guardBegin + `DELETE FROM {schema}.keys k
USING unnest($1::uuid[], $2::int8[]) AS w (id, rev) WHERE k.id = ANY (ARRAY[w.id]) AND k.rev = w.rev` + guardEnd
)

// What an update writes of messages and entries.
const (
	wipeMessages = `DELETE FROM {schema}.messages WHERE key = ANY ($1::uuid[])`

	wipeEntries = `DELETE FROM {schema}.entries WHERE key = ANY ($1::uuid[])`

	raiseMessages = `UPDATE {schema}.messages m SET visible = w.visible
FROM unnest($1::uuid[], $2::int8[]) AS w (key, visible) WHERE m.key = ANY (ARRAY[w.key]) AND m.visible < w.visible`

	removeMessages = `DELETE FROM {schema}.messages m
USING unnest($1::uuid[], $2::int8[]) AS w (key, seq) CROSS JOIN LATERAL ` + messageBySeq + ` WHERE m.ctid = f.row`

	// A message whose lease ended several times in a group is counted as often.
	countMessages = `UPDATE {schema}.messages m SET attempt = m.attempt + w.n
FROM (SELECT key, seq, count(*)::int4 AS n FROM unnest($1::uuid[], $2::int8[]) AS u (key, seq) GROUP BY key, seq) w
CROSS JOIN LATERAL ` + messageBySeq + ` WHERE m.ctid = f.row`

	// The last move of a message counts.
	moveMessages = `UPDATE {schema}.messages m SET visible = w.visible
FROM (SELECT DISTINCT ON (key, seq) key, seq, visible FROM unnest($1::uuid[], $2::int8[], $3::int8[]) WITH ORDINALITY AS u (key, seq, visible, n)
	ORDER BY key, seq, n DESC) w
CROSS JOIN LATERAL ` + messageBySeq + ` WHERE m.ctid = f.row`

	putMessages = `INSERT INTO {schema}.messages (key, seq, visible, put, ttl, attempt, id, body)
SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int4[], $7::bytea[], $8::bytea[])`

	trimEntries = `DELETE FROM {schema}.entries e
USING unnest($1::uuid[], $2::int8[]) AS w (key, before) WHERE e.key = ANY (ARRAY[w.key]) AND e.at < w.before AND e.at + e.n <= w.before`

	appendEntries = `INSERT INTO {schema}.entries (key, at, n, data)
SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int4[], $4::bytea[])`
)

// What an update writes of records.
const (
	newRecords = `(SELECT u.key, u.kind, u.tenant, u.id, u.version, u.time, u.status, u.name, u.tags::bytea[] AS tags, u.body
	FROM unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::bytea[], $5::int8[], $6::int8[], $7::bytea[], $8::bytea[], $9::text[], $10::bytea[])
		AS u (key, kind, tenant, id, version, time, status, name, tags, body))`

	insertRecords = `INSERT INTO {schema}.records (key, kind, tenant, id, version, time, status, name, tags, body)
SELECT w.key, w.kind, w.tenant, w.id, w.version, w.time, w.status, w.name, w.tags, w.body FROM ` + newRecords + ` w`

	updateRecords = guardBegin + `UPDATE {schema}.records r
SET version = w.version, time = w.time, status = w.status, name = w.name, tags = w.tags, body = w.body
FROM (SELECT u.key, u.version, u.time, u.status, u.name, u.tags::bytea[] AS tags, u.body, u.old
	FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::bytea[], $5::bytea[], $6::text[], $7::bytea[], $8::int8[])
		AS u (key, version, time, status, name, tags, body, old)) w
WHERE r.key = ANY (ARRAY[w.key]) AND r.version = w.old` + guardEnd

	deleteRecords = guardBegin + `DELETE FROM {schema}.records r
USING unnest($1::uuid[], $2::int8[]) AS w (key, version) WHERE r.key = ANY (ARRAY[w.key]) AND r.version = w.version` + guardEnd

	upsertRecords = `INSERT INTO {schema}.records AS r (key, kind, tenant, id, version, time, status, name, tags, body)
SELECT w.key, w.kind, w.tenant, w.id, 1, w.time, w.status, w.name, w.tags, w.body FROM ` + newRecords + ` w
ON CONFLICT (key) DO UPDATE SET version = r.version + 1, time = excluded.time, status = excluded.status,
	name = excluded.name, tags = excluded.tags, body = excluded.body`

	addTally = `INSERT INTO {schema}.tally (lane, queue, route, n)
SELECT * FROM unnest($1::int8[], $2::bytea[], $3::bytea[], $4::int8[])`

	// Rows that a commit is adding are not seen, and rows that another process folds are
	// skipped, so that no transaction waits.
	foldTally = `WITH gone AS (
	DELETE FROM {schema}.tally t WHERE t.ctid = ANY (ARRAY(
		SELECT ctid FROM {schema}.tally LIMIT 20000 FOR UPDATE SKIP LOCKED))
	RETURNING t.lane, t.queue, t.route, t.n)
INSERT INTO {schema}.tally (lane, queue, route, n)
SELECT lane, queue, route, sum(n) FROM gone GROUP BY lane, queue, route HAVING sum(n) <> 0`
)
