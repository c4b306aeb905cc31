package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// readInternals returns a row for each table: what it and its indexes take, and the rows
// that are live and dead as far as the server has counted them.
const readInternals = `SELECT pg_database_size(current_database()), s.relname::text, pg_table_size(s.relid), pg_indexes_size(s.relid), s.n_live_tup, s.n_dead_tup
FROM pg_stat_user_tables s WHERE s.schemaname = $1`

// Internals returns gauges of the database below the store, for measurements: the size of the
// database, and of its tables, their indexes and dead rows, each in sum and by table. The names
// and their meaning may change with any version.
func (s *Store) Internals(ctx context.Context) (map[string]int64, error) {
	if err := s.Check(ctx, "internals"); err != nil {
		return nil, err
	}
	var gauges map[string]int64
	err := s.db.read(ctx, readInternals, []any{s.db.config.schema}, func(r pgx.Rows) error {
		gauges = map[string]int64{}
		var database, table, index, live, dead int64
		var name string
		_, err := pgx.ForEachRow(r, []any{&database, &name, &table, &index, &live, &dead}, func() error {
			gauges["database_bytes"] = database
			for gauge, n := range map[string]int64{"table_bytes": table, "index_bytes": index, "live_rows": live, "dead_rows": dead} {
				gauges[gauge] += n
				gauges[gauge+"/"+name] = n
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, s.failed("internals", err)
	}
	return gauges, nil
}
