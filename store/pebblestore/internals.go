package pebblestore

import "context"

// Internals returns gauges of the database below the store, for measurements: what level 0
// holds, how much compactions are behind, and what tombstones, logs and memtables take. The
// names and their meaning may change with any version.
func (s *Store) Internals(ctx context.Context) (map[string]int64, error) {
	release, err := s.read(ctx, "internals")
	if err != nil {
		return nil, err
	}
	defer release()
	m := s.db.Metrics()
	level0 := &m.Levels[0]
	return map[string]int64{
		"level0_sublevels":      int64(level0.Sublevels),
		"level0_bytes":          level0.TablesSize,
		"compaction_debt_bytes": int64(m.Compact.EstimatedDebt),
		"table_bytes":           m.Total().TablesSize,
		"tombstones":            int64(m.Keys.TombstoneCount),
		"log_bytes":             int64(m.WAL.PhysicalSize + m.WAL.ObsoletePhysicalSize),
		"memtable_bytes":        int64(m.MemTable.Size),
		"cache_bytes":           m.BlockCache.Size,
	}, nil
}
