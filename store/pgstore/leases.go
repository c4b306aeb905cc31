package pgstore

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/internal/rows"
	"github.com/abidehq/abide/store"
)

const (
	// The live leases, by their end. The index of leased keys has no others, so that no row is
	// read that has no lease.
	readLeases = `WITH t AS MATERIALIZED (SELECT {now} AS now)
SELECT t.now, k.queue, k.tenant, k.name, k.route, k.token, k.at
FROM t CROSS JOIN LATERAL (
	SELECT * FROM {schema}.keys k
	WHERE k.token IS NOT NULL AND k.at IS NOT NULL AND k.at > t.now AND NOT {reserved} AND ($2::bytea = '' OR k.queue = $2::bytea)
	ORDER BY k.at LIMIT $3::int8) k
ORDER BY k.at`

	// The lease of one key.
	readLease = `WITH t AS MATERIALIZED (SELECT {now} AS now)
SELECT t.now, k.queue, k.tenant, k.name, k.route, k.token, k.at
FROM t CROSS JOIN LATERAL (SELECT * FROM {schema}.keys k WHERE k.id = $2::uuid LIMIT 1) k
WHERE k.token IS NOT NULL AND k.at > t.now AND NOT {reserved}`
)

// Leases returns live leases.
func (s *Store) Leases(ctx context.Context, q store.LeaseQuery) ([]store.LeaseInfo, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	if err := s.Check(ctx, "leases"); err != nil {
		return nil, err
	}
	asked, floor := s.db.ask()
	sql, args := readLeases, []any{floor, []byte(q.Queue), cmp.Or(q.Limit, store.DefaultPage)}
	if q.Key.Name != "" {
		sql, args = readLease, []any{floor, uuid(rows.IDOf(q.Key))}
	}
	var leases []store.LeaseInfo
	err := s.db.read(ctx, s.db.text.sql(sql), args, func(r pgx.Rows) error {
		leases = nil
		for r.Next() {
			var now, until int64
			var queue, tenant, name, route []byte
			var token string
			if err := r.Scan(&now, &queue, &tenant, &name, &route, &token, &until); err != nil {
				return err
			}
			s.db.answer(asked, now)
			leases = append(leases, store.LeaseInfo{
				Key:   store.Key{Queue: string(queue), Tenant: string(tenant), Name: string(name)},
				Route: string(route), Owner: store.TokenOwner(store.Token(token)), Until: store.FromMillis(until),
			})
		}
		return r.Err()
	})
	return leases, s.failed("leases", err)
}
