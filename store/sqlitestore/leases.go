package sqlitestore

import (
	"cmp"
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/abidehq/abide/store"
)

// Leases returns live leases.
func (s *Store) Leases(ctx context.Context, q store.LeaseQuery) (leases []store.LeaseInfo, err error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	const columns = `SELECT queue, tenant, name, route, token, until FROM keys `
	err = s.read(ctx, "leases", func(c *conn) error {
		leases = nil
		scan := func(st *sqlite.Stmt) error {
			leases = append(leases, store.LeaseInfo{
				Key:   store.Key{Queue: st.ColumnText(0), Tenant: st.ColumnText(1), Name: st.ColumnText(2)},
				Route: st.ColumnText(3), Owner: store.TokenOwner(store.Token(st.ColumnText(4))), Until: store.FromMillis(st.ColumnInt64(5)),
			})
			return nil
		}
		if q.Key.Name != "" {
			return c.each(columns+`WHERE queue = ? AND tenant = ? AND name = ? AND token IS NOT NULL AND until > ?`,
				scan, q.Key.Queue, q.Key.Tenant, q.Key.Name, s.now())
		}
		return c.each(columns+`INDEXED BY keys_leased WHERE token IS NOT NULL AND until > ?1 AND (?2 = '' OR queue = ?2) ORDER BY until LIMIT ?3`,
			scan, s.now(), q.Queue, cmp.Or(q.Limit, store.DefaultPage))
	})
	return leases, err
}
