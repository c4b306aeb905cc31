package teststore

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/pebblestore"
	"github.com/abidehq/abide/store/shardstore"
	"github.com/abidehq/abide/store/sqlitestore"
)

// quiet is the logger of backends: what they have to say is not what is tested.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func openMemory(_ context.Context, _ testing.TB, clock base.Clock) (store.Store, error) {
	return memstore.New(memstore.Options{Clock: clock}), nil
}

// openShards opens three stores in memory as one.
func openShards(ctx context.Context, _ testing.TB, clock base.Clock) (store.Store, error) {
	var shards []shardstore.Shard
	for _, name := range []string{"a", "b", "c"} {
		shards = append(shards, shardstore.Shard{Name: name, Store: memstore.New(memstore.Options{Clock: clock})})
	}
	return shardstore.New(ctx, shards, shardstore.Options{Logger: quiet()})
}

func openPebble(ctx context.Context, t testing.TB, clock base.Clock) (store.Store, error) {
	return pebblestore.Open(ctx, t.TempDir(), pebblestore.Options{Clock: clock, Logger: quiet()})
}

func openSQLite(ctx context.Context, t testing.TB, clock base.Clock) (store.Store, error) {
	return sqlitestore.Open(ctx, filepath.Join(t.TempDir(), "abide.db"), sqlitestore.Options{Clock: clock, Logger: quiet(), CacheBytes: 1 << 20})
}

// openLeast opens a store that takes no more than programs need.
func openLeast(_ context.Context, _ testing.TB, clock base.Clock) (store.Store, error) {
	return memstore.New(memstore.Options{Clock: clock, Limits: store.LeastLimits()}), nil
}
