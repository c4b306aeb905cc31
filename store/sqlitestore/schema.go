package sqlitestore

// applicationID marks the file as Abide's: "Abid".
const applicationID = 0x41626964

// formatVersion is that of the tables. A file of format 1 becomes one of this format: of two
// indexes of keys it says otherwise what is in them. A file of a newer one is opened if its
// oldest reader is not newer than this; see [store.CheckFormat]. Whatever changes the format
// so that programs of the one before can go on writes 'oldest reader' into meta.
const formatVersion = 2

// allMessages are all pending messages: those with rows of their own, and those in the rows
// of keys.
const allMessages = `(SELECT key, seq, id, visible, put, ttl, attempt, body FROM messages
  UNION ALL SELECT num, m_seq, m_id, m_visible, m_put, m_ttl, m_attempt, m_body FROM keys WHERE m_id IS NOT NULL)`

// early is the number of a key's message from which on indexes know of it. The ones before
// are few, and all looked at: most keys never have more, and so most messages are written
// to one tree instead of three.
const early = 32

const (
	keysDue  = `CREATE INDEX keys_due ON keys (lane, first, turn, token) WHERE token IS NULL AND first <> 9223372036854775807`
	keysTurn = `CREATE INDEX keys_turn ON keys (lane, turn, first, token) WHERE token IS NULL AND first <> 9223372036854775807`
)

// schema makes the tables. A key has a number, in the order in which keys are made, so
// that what is new stands together at the end of each table; its names are what people,
// and ordered names of instances, find it by.
//
// Of the indexes of keys, each knows only the rows that it is for: a lease takes a row out
// of those that claims walk along, and puts it into the one that knows when it ends. That
// they have the token, which is none, lets the engine do without the row.
var schema = []string{
	`CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value INTEGER NOT NULL
) WITHOUT ROWID`,

	`CREATE TABLE keys (
	num        INTEGER PRIMARY KEY,
	queue      TEXT NOT NULL,
	tenant     TEXT NOT NULL,
	name       TEXT NOT NULL,
	route      TEXT NOT NULL,    -- empty: none yet
	lane       INTEGER NOT NULL, -- a number for queue and route
	turn       INTEGER NOT NULL, -- a number for the tenant
	seq        INTEGER NOT NULL, -- of the next message
	count      INTEGER NOT NULL, -- of pending messages
	first      INTEGER NOT NULL, -- when the first of them is visible, or expires without a route
	log_first  INTEGER NOT NULL, -- the index of the first entry that was not trimmed
	log_length INTEGER NOT NULL,
	log_tag    INTEGER NOT NULL,
	token      TEXT,             -- of the lease, which may have ended
	until      INTEGER,          -- when the lease ends
	delivered  TEXT,             -- the numbers of the messages that were delivered with it
	m_seq      INTEGER,          -- a message that has no row of its own: the one that was put while
	m_id       TEXT,             -- there was none, if it is small; most keys never have another one
	m_visible  INTEGER,
	m_put      INTEGER,
	m_ttl      INTEGER,
	m_attempt  INTEGER,
	m_body     BLOB
)`,
	`CREATE UNIQUE INDEX keys_name ON keys (queue, tenant, name)`,
	keysDue,
	keysTurn,
	`CREATE INDEX keys_leased ON keys (lane, until) WHERE token IS NOT NULL`,

	`CREATE TABLE messages (
	key     INTEGER NOT NULL,
	seq     INTEGER NOT NULL,
	id      TEXT NOT NULL,
	visible INTEGER NOT NULL,
	put     INTEGER NOT NULL,
	ttl     INTEGER NOT NULL,
	attempt INTEGER NOT NULL, -- without that of the lease which the key has
	body    BLOB NOT NULL,
	PRIMARY KEY (key, seq)
) WITHOUT ROWID`,
	`CREATE UNIQUE INDEX messages_id ON messages (key, id) WHERE seq >= 32`,
	`CREATE INDEX messages_visible ON messages (key, visible, seq) WHERE seq >= 32`,

	`CREATE TABLE entries (
	key   INTEGER NOT NULL,
	place INTEGER NOT NULL,
	body  BLOB NOT NULL,
	PRIMARY KEY (key, place)
) WITHOUT ROWID`,

	`CREATE TABLE records (
	num     INTEGER PRIMARY KEY,
	kind    TEXT NOT NULL,
	tenant  TEXT NOT NULL,
	id      TEXT NOT NULL,
	version INTEGER NOT NULL,
	status  TEXT NOT NULL,
	name    TEXT NOT NULL,
	time    INTEGER NOT NULL,
	tags    TEXT,             -- JSON
	body    BLOB NOT NULL
)`,
	`CREATE UNIQUE INDEX records_id ON records (kind, tenant, id)`,
	`CREATE INDEX records_time ON records (kind, time)`,
	`CREATE INDEX records_status ON records (kind, status, tenant, time)`,

	`CREATE TABLE tally (
	queue   TEXT NOT NULL,
	route   TEXT NOT NULL,
	lane    INTEGER NOT NULL,
	pending INTEGER NOT NULL,
	PRIMARY KEY (queue, route)
) WITHOUT ROWID`,
}
