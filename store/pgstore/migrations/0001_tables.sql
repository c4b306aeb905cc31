-- What Abide keeps: queues, logs and records. Names may hold any bytes, so they are
-- bytea; the views of the next file show them as text. Times are milliseconds since 1970.

-- A row for each key: all that it has besides its messages and its entries.
--
-- Rows are updated all the time (leased, finished, put to), so pages keep room for the
-- next version of a row, and vacuum comes early and does not rest: it is cheap if it has
-- little to do, and what it leaves behind is in the way of every claim. It does not
-- shorten the file at its end, which would need a lock that nobody else can have.
CREATE TABLE {schema}.keys (
    id         uuid   PRIMARY KEY,  -- a digest of queue, tenant and name
    rev        int8   NOT NULL,     -- grows with each change of the key or of its messages
    lane       int8   NOT NULL,     -- a digest of queue and route: what is claimed together
    turn       int8   NOT NULL,     -- a digest of the tenant: tenants take turns in its order
    at         int8,                -- when it can be claimed: the end of the lease, or first
    first      int8   NOT NULL,     -- when its first message is visible, or expires if it has no route
    seq        int8   NOT NULL,     -- the number of the next message
    count      int8   NOT NULL,     -- pending messages
    log_first  int8   NOT NULL,
    log_length int8   NOT NULL,
    log_tag    int8   NOT NULL,
    token      text,                -- of the lease, which may have ended; null if there is none
    delivered  int8[],              -- the numbers of the messages that were delivered with it
    queue      bytea  NOT NULL,
    tenant     bytea  NOT NULL,
    name       bytea  NOT NULL,
    route      bytea  NOT NULL,

    -- A message that has no row of its own: the one that was put while there was none, if it
    -- is small. Most keys never have another one beside it. Null if there is none.
    m_seq      int8,
    m_visible  int8,
    m_put      int8,
    m_ttl      int8,
    m_attempt  int4,
    m_id       bytea,
    m_body     bytea
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);

ALTER TABLE {schema}.keys ALTER COLUMN m_body SET STORAGE EXTERNAL;

-- A row that waits is in the first two, one that is leased in the third, and one that has
-- nothing to wait for (the log of an instance that has ended) in none of them. So a claim
-- never steps over what is leased or asleep.
CREATE INDEX keys_free ON {schema}.keys (lane, at) WHERE token IS NULL AND at IS NOT NULL;
CREATE INDEX keys_turn ON {schema}.keys (lane, turn, at) WHERE token IS NULL AND at IS NOT NULL;
CREATE INDEX keys_leased ON {schema}.keys (lane, at) WHERE token IS NOT NULL AND at IS NOT NULL;

-- Pending messages, other than those in the rows of keys. Most live for a moment, so their
-- bodies are not compressed.
CREATE TABLE {schema}.messages (
    key     uuid  NOT NULL,
    seq     int8  NOT NULL,         -- in the order in which they were put
    visible int8  NOT NULL,
    put     int8  NOT NULL,
    ttl     int8  NOT NULL,         -- 0 is the default of seven days
    attempt int4  NOT NULL,         -- without that of the lease that delivered it last
    id      bytea NOT NULL,
    body    bytea NOT NULL,
    PRIMARY KEY (key, seq)
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);
ALTER TABLE {schema}.messages ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX messages_id ON {schema}.messages (key, id);
CREATE INDEX messages_visible ON {schema}.messages (key, visible, seq);

-- All pending messages.
CREATE VIEW {schema}.all_messages AS
SELECT key, seq, visible, put, ttl, attempt, id, body FROM {schema}.messages
UNION ALL
SELECT id, m_seq, m_visible, m_put, m_ttl, m_attempt, m_id, m_body FROM {schema}.keys WHERE m_id IS NOT NULL;

-- Logs: a row for what was appended at once, each entry behind its length. What is large
-- was compressed by whoever wrote it.
CREATE TABLE {schema}.entries (
    key  uuid  NOT NULL,
    at   int8  NOT NULL,            -- the index of its first entry
    n    int4  NOT NULL,            -- how many there are
    data bytea NOT NULL,
    PRIMARY KEY (key, at)
) WITH (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);
ALTER TABLE {schema}.entries ALTER COLUMN data SET STORAGE EXTERNAL;

-- Records. A record that keeps its status and its time is updated in place: no index has
-- to learn of it, if its page has room.
CREATE TABLE {schema}.records (
    key     uuid   PRIMARY KEY,     -- a digest of kind, tenant and id: no other index serves to find one
    kind    bytea  NOT NULL,
    tenant  bytea  NOT NULL,
    id      bytea  NOT NULL,
    version int8   NOT NULL,
    time    int8   NOT NULL,
    num     int8   GENERATED BY DEFAULT AS IDENTITY (CACHE 100), -- the order of records of one time
    status  bytea  NOT NULL,
    name    bytea  NOT NULL,
    tags    bytea[] NOT NULL,       -- each: two bytes with the length of its name, its name, its value
    body    bytea  NOT NULL
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);
ALTER TABLE {schema}.records ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE INDEX records_status ON {schema}.records (kind, status, time, num);
CREATE INDEX records_tenant ON {schema}.records (kind, tenant, status, time, num);

-- How many messages are pending for a route: the sum of these rows. A commit adds a row
-- instead of changing one, so that no commit waits for another; they are folded now and
-- then.
CREATE TABLE {schema}.tally (
    lane  int8  NOT NULL,
    queue bytea NOT NULL,
    route bytea NOT NULL,
    n     int8  NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0.5,
    autovacuum_vacuum_cost_delay = 0
);

-- Who has the store open. One that was not seen for a minute is gone.
CREATE TABLE {schema}.processes (
    id        text        PRIMARY KEY,
    host      text        NOT NULL,
    pid       int4        NOT NULL,
    opened    timestamptz NOT NULL,
    seen      timestamptz NOT NULL,
    exclusive boolean     NOT NULL  -- nobody else may have the store open
);
