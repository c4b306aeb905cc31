package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

// A statement that finds what contradicts something else, one problem in each row.
var contradictions = []string{
	`SELECT format('message %s of key %s: the key is not there', encode(m.id, 'escape'), m.key)
FROM {schema}.messages m LEFT JOIN {schema}.keys k ON k.id = m.key WHERE k.id IS NULL`,

	`SELECT format('entries from %s on of key %s: the key is not there', e.at, e.key)
FROM {schema}.entries e LEFT JOIN {schema}.keys k ON k.id = e.key WHERE k.id IS NULL`,

	`SELECT format('key %s/%s/%s has %s messages and counts %s', encode(k.queue, 'escape'), encode(k.tenant, 'escape'), encode(k.name, 'escape'),
	coalesce(m.n, 0), k.count)
FROM {schema}.keys k LEFT JOIN (SELECT key, count(*) AS n FROM {schema}.all_messages GROUP BY key) m ON m.key = k.id
WHERE coalesce(m.n, 0) <> k.count`,

	`SELECT format('message %s of key %s is there twice', encode(m.id, 'escape'), m.key)
FROM {schema}.all_messages m GROUP BY m.key, m.id HAVING count(*) > 1`,

	`SELECT format('key %s/%s/%s has neither messages nor a log', encode(k.queue, 'escape'), encode(k.tenant, 'escape'), encode(k.name, 'escape'))
FROM {schema}.keys k WHERE k.count = 0 AND k.log_length = 0`,

	`SELECT format('key %s/%s/%s says that its first message is due at %s, and it is due at %s', encode(k.queue, 'escape'), encode(k.tenant, 'escape'),
	encode(k.name, 'escape'), k.first, coalesce(m.first, {never}))
FROM {schema}.keys k LEFT JOIN LATERAL (
	SELECT min(CASE WHEN k.route <> '' THEN m.visible ELSE m.put + CASE m.ttl WHEN 0 THEN {ttl} ELSE m.ttl END END) AS first
	FROM {schema}.all_messages m WHERE m.key = k.id) m ON true
WHERE coalesce(m.first, {never}) <> k.first`,

	`SELECT format('key %s/%s/%s can be claimed at %s, and its index says %s', encode(k.queue, 'escape'), encode(k.tenant, 'escape'),
	encode(k.name, 'escape'), k.first, k.at)
FROM {schema}.keys k WHERE CASE WHEN k.token IS NULL THEN nullif(k.first, {never}) IS DISTINCT FROM k.at ELSE k.at IS NULL END`,

	`SELECT format('message %s of key %s has number %s, and the next one is to be %s', encode(m.id, 'escape'), m.key, m.seq, k.seq)
FROM {schema}.all_messages m JOIN {schema}.keys k ON k.id = m.key WHERE m.seq >= k.seq`,

	`SELECT format('the lease of key %s/%s/%s is of message number %s, which is not there', encode(k.queue, 'escape'), encode(k.tenant, 'escape'),
	encode(k.name, 'escape'), d.seq)
FROM {schema}.keys k CROSS JOIN LATERAL unnest(k.delivered) AS d (seq) LEFT JOIN {schema}.all_messages m ON m.key = k.id AND m.seq = d.seq
WHERE k.token IS NOT NULL AND m.key IS NULL`,

	`SELECT format('key %s/%s/%s has no route and a lease', encode(k.queue, 'escape'), encode(k.tenant, 'escape'), encode(k.name, 'escape'))
FROM {schema}.keys k WHERE k.route = '' AND k.token IS NOT NULL`,

	`SELECT format('key %s/%s/%s was delivered messages without a lease', encode(k.queue, 'escape'), encode(k.tenant, 'escape'), encode(k.name, 'escape'))
FROM {schema}.keys k WHERE k.token IS NULL AND cardinality(k.delivered) > 0`,

	// Each row of entries begins where the one before it ends.
	`SELECT format('the log of key %s/%s/%s has entries %s to %s, and should have %s to %s, without a gap', encode(k.queue, 'escape'),
	encode(k.tenant, 'escape'), encode(k.name, 'escape'), e.first, e.next, k.log_first, k.log_length)
FROM {schema}.keys k LEFT JOIN (
	SELECT key, min(at) AS first, max(at + n) AS next, bool_or(gap) AS gap
	FROM (SELECT key, at, n, at <> lag(at + n, 1, at) OVER (PARTITION BY key ORDER BY at) AS gap FROM {schema}.entries) e
	GROUP BY key) e ON e.key = k.id
WHERE CASE WHEN e.key IS NULL THEN k.log_first < k.log_length
	ELSE e.gap OR e.next <> k.log_length OR e.first > k.log_first END`,

	`SELECT format('record %s/%s/%s has version %s', encode(r.kind, 'escape'), encode(r.tenant, 'escape'), encode(r.id, 'escape'), r.version)
FROM {schema}.records r WHERE r.version < 1`,

	`SELECT format('queue %s, route %s: %s messages are pending, and the tally says %s', encode(coalesce(p.queue, t.queue), 'escape'),
	encode(coalesce(p.route, t.route), 'escape'), coalesce(p.n, 0), coalesce(t.n, 0))
FROM (SELECT queue, route, sum(count) AS n FROM {schema}.keys GROUP BY queue, route HAVING sum(count) <> 0) p
FULL JOIN (SELECT queue, route, sum(n) AS n FROM {schema}.tally GROUP BY queue, route HAVING sum(n) <> 0) t
	ON t.queue = p.queue AND t.route = p.route
WHERE coalesce(p.n, 0) <> coalesce(t.n, 0)`,
}

// Verify looks at all that there is, in one snapshot.
func (s *Store) Verify(ctx context.Context, report func(problem string)) error {
	if err := s.Check(ctx, "verify"); err != nil {
		return err
	}
	d := s.db
	ctx, cancel := d.within(ctx)
	defer cancel()
	err := pgx.BeginTxFunc(ctx, d.others, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		// It reads whole tables, and joins them as it is best.
		if _, err := tx.Exec(ctx, `SELECT set_config('statement_timeout', '0', true), set_config('enable_seqscan', 'on', true),
	set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'on', true)`); err != nil {
			return err
		}
		for _, sql := range contradictions {
			found, err := tx.Query(ctx, d.text.translate.Replace(sql))
			if err != nil {
				return err
			}
			var problem string
			if _, err := pgx.ForEachRow(found, []any{&problem}, func() error {
				report(problem)
				return nil
			}); err != nil {
				return err
			}
		}
		if err := d.verifyDigests(ctx, tx, report); err != nil {
			return err
		}
		return d.verifyEntries(ctx, tx, report)
	})
	return s.failed("verify", err)
}

// verifyDigests looks at what is computed of names.
func (d *database) verifyDigests(ctx context.Context, tx pgx.Tx, report func(string)) error {
	found, err := tx.Query(ctx, d.text.translate.Replace(`SELECT id, lane, turn, queue, tenant, name, route FROM {schema}.keys`))
	if err != nil {
		return err
	}
	var id [16]byte
	var partition, turn int64
	var queue, tenant, name, route []byte
	_, err = pgx.ForEachRow(found, []any{&id, &partition, &turn, &queue, &tenant, &name, &route}, func() error {
		key := store.Key{Queue: string(queue), Tenant: string(tenant), Name: string(name)}
		if id != rows.IDOf(key) || partition != rows.PartitionOf(key.Queue, string(route)) || turn != rows.TenantOf(key.Tenant) {
			report(fmt.Sprintf("key %v is not kept under its own number, or in its own lane", key))
		}
		return nil
	})
	return err
}

// verifyEntries looks into the rows of entries.
func (d *database) verifyEntries(ctx context.Context, tx pgx.Tx, report func(string)) error {
	found, err := tx.Query(ctx, d.text.translate.Replace(`SELECT key::text, at, n, data FROM {schema}.entries`))
	if err != nil {
		return err
	}
	var key string
	var c chunk
	_, err = pgx.ForEachRow(found, []any{&key, &c.at, &c.n, &c.data}, func() error {
		if _, err := c.entries(); err != nil {
			report(fmt.Sprintf("key %s: %v", key, err))
		}
		return nil
	})
	return err
}
