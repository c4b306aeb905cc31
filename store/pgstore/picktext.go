package pgstore

// pickKeys leases keys that are ready and returns them with their messages. pickLimited does so for
// keys of some tenants.
//
// It works on one snapshot. A key that another transaction changed after the snapshot was taken, and
// unlocked since, could be locked, but its messages would be read as they were: so each change of a
// key or of its messages raises its rev, and a locked key must have the rev of the snapshot.
//
// The parameters: $1 the floor of the time, $2 the partitions, $3 the partition of keys without a
// route, $4 whose turn it was last, $5 how many keys, $6 how many candidates, $7 how many
// tenants are asked at most, or, of pickLimited, the tenants, $8 how many messages of a key, $9 how many attempts, $10 the
// lease, $11 the tokens, $12 the bytes of a key, $13 those of all, $14 how many messages
// of a key go to quarantine at most, $15 whether there are many partitions, $16 our process, $17
// after how many milliseconds one that was not seen is gone, $18 keys that may be reserved for it,
// $19 the token of those that are.
//
// While another process has excluded the others, no partition is looked at.
const (
	pickKeys    = pickBegin + pickSource + pickLease + pickCounted + pickMore + pickNext + pickHead + pickWalked + pickResult
	pickLimited = pickBegin + pickLimitedSource + pickLease + pickLimitedCounted + pickMore + pickLimitedNext + pickHead + `NULL::int8` + pickResult
)

// pickBegin are the partitions to look at.
const pickBegin = `WITH RECURSIVE t AS MATERIALIZED (SELECT {now} AS now, EXISTS (SELECT FROM {schema}.processes p
	WHERE p.exclusive AND p.id <> $16::text AND p.seen > clock_timestamp() - $17::int8 * interval '1 millisecond') AS excluded),

-- The lanes, each with when its first key can be claimed: of those that wait, and of those
-- that are leased. Of very many lanes, only those in which something is pending.
wanted AS MATERIALIZED (
	SELECT l.lane FROM t CROSS JOIN unnest($2::int8[]) AS l (lane) WHERE NOT $15::boolean AND NOT t.excluded
	UNION ALL
	(SELECT l.lane FROM t CROSS JOIN unnest($2::int8[]) AS l (lane) WHERE $15::boolean AND NOT t.excluded
	INTERSECT
	SELECT p.lane FROM {schema}.tally p WHERE $15::boolean GROUP BY p.lane HAVING sum(p.n) > 0)
),
`

// pickSource are the candidates of all tenants.
const pickSource = `lanes AS MATERIALIZED (
	SELECT w.lane,
		(SELECT k.at FROM {schema}.keys k WHERE k.lane = w.lane AND k.token IS NULL AND k.at IS NOT NULL ORDER BY k.at LIMIT 1) AS free,
		(SELECT k.at FROM {schema}.keys k WHERE k.lane = w.lane AND k.token IS NOT NULL AND k.at IS NOT NULL ORDER BY k.at LIMIT 1) AS leased
	FROM wanted w
),
share AS MATERIALIZED ( -- of a lane in the candidates
	SELECT greatest(8, $6::int8 / greatest(count(*), 1)) AS n FROM lanes, t WHERE free <= now OR leased <= now
),

-- The oldest of each lane, and those whose leases have ended.
oldest AS MATERIALIZED (
	SELECT k.id, k.rev, k.lane, k.turn, k.first
	FROM t CROSS JOIN lanes l CROSS JOIN LATERAL (
		SELECT k.id, k.rev, k.lane, k.turn, k.first FROM {schema}.keys k
		WHERE k.lane = l.lane AND k.token IS NULL AND k.at <= t.now
		ORDER BY k.at LIMIT (SELECT n FROM share)) k
	WHERE l.free <= t.now
),
ended AS MATERIALIZED (
	SELECT k.id, k.rev, k.lane, k.turn, k.first
	FROM t CROSS JOIN lanes l CROSS JOIN LATERAL (
		SELECT k.id, k.rev, k.lane, k.turn, k.first FROM {schema}.keys k
		WHERE k.lane = l.lane AND k.token IS NOT NULL AND k.at <= t.now
		ORDER BY k.at LIMIT (SELECT n FROM share)) k
	WHERE l.leased <= t.now
),

-- Those that are reserved for this process.
reserved AS MATERIALIZED (
	SELECT k.id, k.rev, k.lane, k.turn, k.first
	FROM t CROSS JOIN unnest($18::uuid[]) AS w (id) JOIN {schema}.keys k ON k.id = ANY (ARRAY[w.id])
	WHERE k.token = $19::text AND k.lane = ANY ($2::int8[]) AND k.first <= t.now AND NOT t.excluded
),

-- A lane that has more than that: the oldest may all be of one tenant. So tenants are
-- asked in turn, in each step the next one that has anything that waits, with the first of
-- it, until enough of them have something that is ready.
full_lanes AS MATERIALIZED (
	SELECT lane FROM oldest GROUP BY lane HAVING count(*) >= (SELECT n FROM share)
),
walk (lane, turn, at, step, found, again) AS (
	SELECT lane, $4::int8, NULL::int8, 0, 0, false FROM full_lanes
	UNION ALL
	SELECT w.lane, n.turn, n.at, w.step + 1, w.found + CASE WHEN n.at <= t.now THEN 1 ELSE 0 END, n.again
	FROM t CROSS JOIN walk w CROSS JOIN LATERAL (
		(SELECT k.turn, k.at, w.again AS again FROM {schema}.keys k
			WHERE k.lane = w.lane AND k.turn > w.turn AND k.token IS NULL AND k.at IS NOT NULL
			ORDER BY k.turn, k.at LIMIT 1)
		UNION ALL
		(SELECT k.turn, k.at, true FROM {schema}.keys k
			WHERE NOT w.again AND k.lane = w.lane AND k.token IS NULL AND k.at IS NOT NULL
			ORDER BY k.turn, k.at LIMIT 1)
		LIMIT 1) n
	WHERE w.step < greatest(16, $7::int8 / (SELECT count(*) FROM full_lanes)) AND w.found < $5::int8 + 8
		AND NOT (n.again AND n.turn > $4::int8)
),
asked AS MATERIALIZED (
	SELECT w.lane, w.turn FROM walk w, t WHERE w.step > 0 AND w.at <= t.now ORDER BY w.step LIMIT $6::int8
),
others AS MATERIALIZED (
	SELECT * FROM ended
	UNION
	SELECT k.id, k.rev, k.lane, k.turn, k.first
	FROM t CROSS JOIN asked a CROSS JOIN LATERAL (
		SELECT k.id, k.rev, k.lane, k.turn, k.first FROM {schema}.keys k
		WHERE k.lane = a.lane AND k.turn = a.turn AND k.token IS NULL AND k.at <= t.now
		ORDER BY k.at LIMIT (SELECT greatest(1, $6::int8 / greatest(count(*), 1)) FROM asked)) k
),

`

// pickLimitedSource are the candidates of some tenants.
const pickLimitedSource = `lanes AS MATERIALIZED (
	SELECT w.lane,
		(SELECT k.at FROM {schema}.keys k WHERE k.lane = w.lane AND k.token IS NOT NULL AND k.at IS NOT NULL ORDER BY k.at LIMIT 1) AS leased
	FROM wanted w
),
pairs AS MATERIALIZED (
	SELECT w.lane, u.turn, (SELECT k.at FROM {schema}.keys k
		WHERE k.lane = w.lane AND k.turn = u.turn AND k.token IS NULL AND k.at IS NOT NULL ORDER BY k.at LIMIT 1) AS free
	FROM wanted w CROSS JOIN unnest($7::int8[]) AS u (turn)
),
share AS MATERIALIZED ( -- of a lane in the leases that have ended
	SELECT greatest(8, $6::int8 / greatest(count(*), 1)) AS n FROM lanes, t WHERE leased <= now
),
part AS MATERIALIZED ( -- of a tenant in the candidates
	SELECT greatest(least($5::int8 + 8, 64), $6::int8 / greatest(count(*), 1)) AS n FROM pairs, t WHERE free <= now
),

-- The oldest of each tenant, and those whose leases have ended.
oldest AS MATERIALIZED (
	SELECT k.id, k.rev, k.lane, k.turn, k.first
	FROM t CROSS JOIN pairs p CROSS JOIN LATERAL (
		SELECT k.id, k.rev, k.lane, k.turn, k.first FROM {schema}.keys k
		WHERE k.lane = p.lane AND k.turn = p.turn AND k.token IS NULL AND k.at <= t.now
		ORDER BY k.at LIMIT (SELECT n FROM part)) k
	WHERE p.free <= t.now
),
full_lanes AS MATERIALIZED (
	SELECT lane FROM oldest GROUP BY lane, turn HAVING count(*) >= (SELECT n FROM part)
),
ended AS MATERIALIZED (
	SELECT k.id, k.rev, k.lane, k.turn, k.first
	FROM t CROSS JOIN lanes l CROSS JOIN LATERAL (
		SELECT k.id, k.rev, k.lane, k.turn, k.first FROM {schema}.keys k
		WHERE k.lane = l.lane AND k.token IS NOT NULL AND k.at <= t.now
		ORDER BY k.at LIMIT (SELECT n FROM share)) k
	WHERE l.leased <= t.now
),

-- Leases of other tenants that have ended are in the way of every claim of these, since the index of
-- leases does not know tenants. So they are ended for good, and their keys are among those that wait.
foreign_locked AS MATERIALIZED (
	SELECT k.id, k.delivered FROM ended e JOIN {schema}.keys k ON k.id = ANY (ARRAY[e.id]) AND k.rev = e.rev
	WHERE NOT e.turn = ANY ($7::int8[]) FOR UPDATE OF k SKIP LOCKED
),
freed AS (
	UPDATE {schema}.keys k SET rev = k.rev + 1, token = NULL, at = nullif(k.first, {never}), delivered = NULL,
		m_attempt = k.m_attempt + CASE WHEN k.m_seq = ANY (k.delivered) THEN 1 ELSE 0 END
	FROM foreign_locked f WHERE k.id = ANY (ARRAY[f.id])
),

-- Those that are reserved for this process.
reserved AS MATERIALIZED (
	SELECT k.id, k.rev, k.lane, k.turn, k.first
	FROM t CROSS JOIN unnest($18::uuid[]) AS w (id) JOIN {schema}.keys k ON k.id = ANY (ARRAY[w.id])
	WHERE k.token = $19::text AND k.lane = ANY ($2::int8[]) AND k.turn = ANY ($7::int8[]) AND k.first <= t.now AND NOT t.excluded
),
others AS (SELECT * FROM ended WHERE turn = ANY ($7::int8[])),

`

// pickLease chooses among the candidates, locks and leases them.
const pickLease = `-- One of each tenant, then the second of each, and so on; of a tenant the oldest first.
candidates AS MATERIALIZED (
	SELECT c.id, c.rev, c.turn, row_number() OVER (PARTITION BY c.turn ORDER BY c.first, c.id) AS round
	FROM (SELECT * FROM oldest UNION SELECT * FROM others UNION SELECT * FROM reserved) c
),
locked AS MATERIALIZED (
	SELECT k.*, c.round FROM candidates c JOIN {schema}.keys k ON k.id = ANY (ARRAY[c.id]) AND k.rev = c.rev
	ORDER BY c.round, c.turn <= $4::int8, c.turn LIMIT $5::int8 FOR UPDATE OF k SKIP LOCKED
),
numbered AS MATERIALIZED (
	SELECT l.*, row_number() OVER (ORDER BY l.round, l.turn <= $4::int8, l.turn) AS n FROM locked l
),

-- What is visible of each, in order, as far as it is delivered. What was delivered with a
-- lease that has ended counts as an attempt.
visible AS MATERIALIZED (
	SELECT l.n, l.round, l.id AS key_id, l.turn, l.first, l.seq AS next_seq, l.count, l.log_first, l.log_length, l.log_tag, l.holder,
		l.token, l.delivered, l.queue, l.tenant, l.name, l.route,
		m.seq, m.id, m.visible, m.put, m.ttl, m.attempt, m.body, m.over, m.nth_row,
		sum(octet_length(m.body)) OVER (ORDER BY l.n) - sum(octet_length(m.body)) OVER (PARTITION BY l.n) AS before
	FROM t CROSS JOIN numbered l LEFT JOIN LATERAL (
		SELECT v.*, row_number() OVER w AS nth_row, count(*) FILTER (WHERE NOT v.over) OVER w AS nth,
			coalesce(sum(octet_length(v.body)) FILTER (WHERE NOT v.over) OVER w, 0) AS bytes,
			count(*) FILTER (WHERE v.over) OVER w AS overs
		FROM (
			SELECT m.seq, m.id, m.visible, m.put, m.ttl, a.attempt, m.body, $9::int8 > 0 AND a.attempt >= $9::int8 AS over
			FROM (
				(SELECT m.seq, m.id, m.visible, m.put, m.ttl, m.attempt, m.body FROM {schema}.messages m
					WHERE l.count > CASE WHEN l.m_id IS NULL THEN 0 ELSE 1 END AND m.key = l.id AND m.visible <= t.now
					ORDER BY m.visible, m.seq LIMIT $8::int8 + $14::int8)
				UNION ALL
				SELECT l.m_seq, l.m_id, l.m_visible, l.m_put, l.m_ttl, l.m_attempt, l.m_body WHERE l.m_visible <= t.now) m
			CROSS JOIN LATERAL (
				SELECT m.attempt + CASE WHEN l.token IS NOT NULL AND m.seq = ANY (l.delivered) THEN 1 ELSE 0 END AS attempt) a
			ORDER BY m.visible, m.seq LIMIT $8::int8 + $14::int8) v
		WINDOW w AS (ORDER BY v.visible, v.seq)) m
	ON (m.nth <= 1 OR m.bytes <= $12::int8) AND CASE WHEN m.over THEN m.nth < $8::int8 AND m.overs <= $14::int8 ELSE m.nth <= $8::int8 END
),

-- All of them, unless that is too much at once.
chosen AS MATERIALIZED (
	SELECT v.n, v.round, v.key_id, v.token, v.delivered, array_agg(v.seq ORDER BY v.visible, v.seq) FILTER (WHERE NOT v.over) AS seqs
	FROM visible v WHERE v.n = 1 OR coalesce(v.before, 0) < $13::int8
	GROUP BY v.n, v.round, v.key_id, v.token, v.delivered
),
leased AS (
	UPDATE {schema}.keys k SET rev = k.rev + 1, token = ($11::text[])[c.n], at = t.now + $10::int8, delivered = c.seqs,
		m_attempt = k.m_attempt + CASE WHEN k.token IS NOT NULL AND k.m_seq = ANY (k.delivered) THEN 1 ELSE 0 END
	FROM t CROSS JOIN chosen c WHERE k.id = ANY (ARRAY[c.key_id])
),
counted AS (
	UPDATE {schema}.messages m SET attempt = m.attempt + 1
`

// pickCounted counts attempts of leases that have ended.
const pickCounted = `	FROM (SELECT c.key_id AS key, s.seq FROM chosen c CROSS JOIN LATERAL unnest(c.delivered) AS s (seq) WHERE c.token IS NOT NULL) w
	CROSS JOIN LATERAL ` + messageBySeq + ` WHERE m.ctid = f.row
`

// pickLimitedCounted counts attempts of leases that have ended, also of other tenants.
const pickLimitedCounted = `	FROM (SELECT c.key_id AS key, s.seq FROM chosen c CROSS JOIN LATERAL unnest(c.delivered) AS s (seq) WHERE c.token IS NOT NULL
		UNION ALL SELECT f.id, s.seq FROM foreign_locked f CROSS JOIN LATERAL unnest(f.delivered) AS s (seq)) w
	CROSS JOIN LATERAL ` + messageBySeq + ` WHERE m.ctid = f.row
`

// pickMore says whether there is more to claim now.
const pickMore = `),

-- What the caller must know besides.
more AS MATERIALIZED (
	SELECT (SELECT count(*) FROM candidates) > (SELECT count(*) FROM chosen)
		OR EXISTS (SELECT FROM full_lanes)
		OR (SELECT count(*) FROM ended) >= (SELECT n FROM share) AS yes
),
head AS MATERIALIZED (
	SELECT t.now, t.excluded,
		CASE WHEN more.yes THEN 0 ELSE `

// pickNext is when there is something to claim next.
const pickNext = `coalesce((
			SELECT min(least(
				CASE WHEN l.free > t.now THEN l.free ELSE (SELECT k.at FROM {schema}.keys k
					WHERE k.lane = l.lane AND k.token IS NULL AND k.at > t.now ORDER BY k.at LIMIT 1) END,
				CASE WHEN l.leased > t.now THEN l.leased ELSE (SELECT k.at FROM {schema}.keys k
					WHERE k.lane = l.lane AND k.token IS NOT NULL AND k.at > t.now ORDER BY k.at LIMIT 1) END))
			FROM lanes l), {never})`

// pickLimitedNext is when there is something to claim next, or the next lease ends.
const pickLimitedNext = `coalesce(least((
			SELECT min(CASE WHEN p.free > t.now THEN p.free ELSE (SELECT k.at FROM {schema}.keys k
				WHERE k.lane = p.lane AND k.turn = p.turn AND k.token IS NULL AND k.at > t.now ORDER BY k.at LIMIT 1) END)
			FROM pairs p), (
			SELECT min(CASE WHEN l.leased > t.now THEN l.leased ELSE (SELECT k.at FROM {schema}.keys k
				WHERE k.lane = l.lane AND k.token IS NOT NULL AND k.at > t.now ORDER BY k.at LIMIT 1) END)
			FROM lanes l)), {never})`

// pickHead is what the caller must know besides.
const pickHead = ` END AS next,
		coalesce((SELECT k.at FROM {schema}.keys k
			WHERE k.lane = $3::int8 AND k.token IS NULL AND k.at IS NOT NULL ORDER BY k.at LIMIT 1), {never}) AS expires,
		CASE WHEN NOT EXISTS (SELECT FROM chosen) THEN (SELECT c.id FROM candidates c ORDER BY c.round, c.turn LIMIT 1) END AS held,
		`

// pickWalked is the tenant after which the next walk begins.
const pickWalked = `CASE WHEN (SELECT count(*) FROM candidates WHERE round = 1) <= (SELECT count(*) FROM chosen WHERE round = 1) THEN (
			SELECT e.turn FROM (SELECT DISTINCT ON (lane) turn, step FROM walk ORDER BY lane, step DESC) e
			WHERE e.step >= greatest(16, $7::int8 / (SELECT count(*) FROM full_lanes))
			ORDER BY e.turn <= $4::int8, e.turn LIMIT 1) END`

// pickResult returns it, with the keys and messages.
const pickResult = ` AS walked
	FROM t, more
)
SELECT h.now, h.excluded, h.next, h.expires, h.held, h.walked,
	v.n, v.turn, v.key_id, v.first, v.next_seq, v.count, v.log_first, v.log_length, v.log_tag, v.holder,
	CASE WHEN coalesce(v.nth_row, 1) = 1 THEN v.queue END, CASE WHEN coalesce(v.nth_row, 1) = 1 THEN v.tenant END,
	CASE WHEN coalesce(v.nth_row, 1) = 1 THEN v.name END, CASE WHEN coalesce(v.nth_row, 1) = 1 THEN v.route END,
	v.seq, v.id, v.visible, v.put, v.ttl, v.attempt, v.body, v.over
FROM head h LEFT JOIN visible v ON v.n = 1 OR coalesce(v.before, 0) < $13::int8
ORDER BY v.n, v.nth_row`

// waitForKey waits until the lock of a key is released.
const waitForKey = `SELECT FROM {schema}.keys WHERE id = $1::uuid FOR UPDATE`
