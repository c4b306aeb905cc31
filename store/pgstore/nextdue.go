package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

const (
	nextDue = `SELECT {now}, least(
	(SELECT k.at FROM {schema}.keys k WHERE k.lane = l.lane AND k.token IS NULL AND k.at IS NOT NULL ORDER BY k.at LIMIT 1),
	(SELECT k.at FROM {schema}.keys k WHERE k.lane = l.lane AND k.token IS NOT NULL AND k.at IS NOT NULL ORDER BY k.at LIMIT 1))
FROM unnest($2::int8[]) WITH ORDINALITY AS l (lane, n) ORDER BY l.n`

	findExpired = `SELECT k.id, k.queue, k.tenant, k.name, m.id
FROM (SELECT {now} AS now) t CROSS JOIN {schema}.keys k JOIN LATERAL (
	SELECT m.id, m.put, m.ttl FROM {schema}.messages m WHERE m.key = k.id
	UNION ALL
	SELECT k.m_id, k.m_put, k.m_ttl WHERE k.m_id IS NOT NULL) m ON true
WHERE k.lane = $2::int8 AND k.token IS NULL AND k.at <= t.now AND m.put + CASE m.ttl WHEN 0 THEN {ttl} ELSE m.ttl END <= t.now
ORDER BY k.at LIMIT $3::int8`

	recordColumns = `r.kind, r.tenant, r.id, r.version, r.time, r.status, r.name, r.tags, r.body`

	readRecord = `SELECT ` + recordColumns + ` FROM {schema}.records r
WHERE r.key = $1::uuid`
)

// NextDue returns, for each partition, the earliest time at which something can be claimed. Each is two
// descents of an index, one for keys that are leased and one for the others.
func (d *database) NextDue(ctx context.Context, partitions []int64) (now int64, at []int64, err error) {
	q, floor := d.ask()
	err = d.read(ctx, d.text.sql(nextDue), []any{floor, partitions}, func(r pgx.Rows) error {
		at = at[:0]
		var next *int64
		_, err := pgx.ForEachRow(r, []any{&now, &next}, func() error {
			if next == nil {
				at = append(at, rows.Never)
			} else {
				at = append(at, *next)
			}
			return nil
		})
		return err
	})
	if err == nil && len(at) != len(partitions) {
		err = fmt.Errorf("%d answers for %d partitions", len(at), len(partitions))
	}
	if err != nil {
		return 0, nil, failed("look", err)
	}
	return d.answer(q, now), at, nil
}

// Expired returns messages whose time to live has ended while their keys had no route.
func (d *database) Expired(ctx context.Context, queue string, limit int) (refs []rows.Ref, keys []store.Key, err error) {
	_, floor := d.ask()
	err = d.read(ctx, d.text.sql(findExpired), []any{floor, rows.PartitionOf(queue, ""), limit}, func(r pgx.Rows) error {
		refs, keys = nil, nil
		var key [16]byte
		var queue, tenant, name, id []byte
		_, err := pgx.ForEachRow(r, []any{&key, &queue, &tenant, &name, &id}, func() error {
			refs = append(refs, rows.Ref{Key: key, ID: string(id)})
			keys = append(keys, store.Key{Queue: string(queue), Tenant: string(tenant), Name: string(name)})
			return nil
		})
		return err
	})
	return refs, keys, failed("look for what has expired", err)
}

// Record returns a record. What is seen of it is durable: a commit becomes visible to
// others after it was synced.
func (d *database) Record(ctx context.Context, key store.RecordKey) (store.Record, error) {
	var found []store.Record
	err := d.read(ctx, d.text.sql(readRecord), []any{uuid(rows.RecordIDOf(key))}, func(r pgx.Rows) (err error) {
		found, err = scanRecords(r)
		return err
	})
	switch {
	case err != nil:
		return store.Record{}, failed("read a record", err)
	case len(found) == 0:
		return store.Record{}, store.NotFound("get", key)
	}
	return found[0], nil
}

// Versions returns the versions of records, in one query.
func (d *database) Versions(ctx context.Context, keys []store.RecordKey) ([]int64, error) {
	versions := make([]int64, len(keys))
	err := d.read(ctx, d.text.sql(loadRecords), []any{recordIDs(keys)}, func(r pgx.Rows) error {
		clear(versions)
		var n, version int64
		_, err := pgx.ForEachRow(r, []any{&n, &version}, func() error {
			versions[n-1] = version
			return nil
		})
		return err
	})
	if err != nil {
		return nil, failed("read the versions of records", err)
	}
	return versions, nil
}

// scanRecords reads rows of recordColumns.
func scanRecords(r pgx.Rows) (found []store.Record, err error) {
	for r.Next() {
		var rec recordScan
		if err := r.Scan(rec.into()...); err != nil {
			return nil, err
		}
		record, err := rec.record()
		if err != nil {
			return nil, err
		}
		found = append(found, record)
	}
	return found, r.Err()
}

// recordScan is what a row of recordColumns is read into. All may be null.
type recordScan struct {
	kind, tenant, id, status, name, body []byte
	version, time                        *int64
	tags                                 [][]byte
}

func (s *recordScan) into() []any {
	return []any{&s.kind, &s.tenant, &s.id, &s.version, &s.time, &s.status, &s.name, &s.tags, &s.body}
}

func (s *recordScan) record() (store.Record, error) {
	if s.version == nil || s.time == nil {
		return store.Record{}, errors.New("a record without a version")
	}
	tags, err := decodeTags(s.tags)
	return store.Record{
		Key: store.RecordKey{Kind: string(s.kind), Tenant: string(s.tenant), ID: string(s.id)}, Version: *s.version,
		Status: string(s.status), Name: string(s.name), Time: store.FromMillis(*s.time), Tags: tags, Body: s.body,
	}, err
}
