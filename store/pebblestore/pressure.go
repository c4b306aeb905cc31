package pebblestore

import (
	"context"
	"runtime"

	"github.com/cockroachdb/pebble/v2"

	"github.com/abidehq/abide/store"
)

var _ store.Pressured = (*Store)(nil)

const (
	// busyMemTables is how many full memtables there are if one waits for the flush of another: the
	// third is written to. At memTables commits wait. Pebble counts bytes, as its first memtables
	// are small.
	busyMemTables = 3

	// busyDebt is how many bytes compactions may be behind: more than they can write in half a
	// minute. Pebble makes no commit wait for it, but level 0 fills up when it has grown.
	busyDebt = 4 << 30
)

// busySublevels is how many sublevels level 0 may have on so many cores: twice as many as have all
// compactions run, and at most half of those at which commits wait.
func busySublevels(cores int) int {
	return min(2*sublevelsPerCompaction*maxCompactions(cores), maxSublevels/2)
}

// Pressure returns how far flushes and compactions are behind the commits: 1 is well before Pebble makes
// commits wait.
func (s *Store) Pressure() float64 {
	release, err := s.read(context.Background(), "pressure")
	if err != nil {
		return 0 // what is closed commits nothing
	}
	defer release()
	return pressureOf(s.db.Metrics())
}

func pressureOf(m *pebble.Metrics) float64 {
	return max(
		float64(m.Levels[0].Sublevels)/float64(busySublevels(runtime.GOMAXPROCS(0))),
		float64(m.MemTable.Size)/(busyMemTables*memTable),
		float64(m.Compact.EstimatedDebt)/busyDebt,
	)
}
