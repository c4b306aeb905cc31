//go:build unix

package teststore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pgstore"
	"github.com/abidehq/abide/store/redisstore"
)

func init() {
	kinds["postgres"] = openPostgres
	kinds["redis"] = openRedis
	kinds["rediscluster"] = openRedisCluster
}

// Main runs the tests of a package, and ends the servers that their stores were on. Each
// package whose tests use New has it as its TestMain.
func Main(m *testing.M) { testenv.Main(m) }

// onServers counts the stores on the servers, so that each has a name of its own.
var onServers atomic.Int64

func newName() string { return fmt.Sprintf("teststore_%d", onServers.Add(1)) }

// lodger is a store on a server that others use too: when it is closed, what it held is
// removed.
type lodger struct {
	store.Store
	leave func() error
}

// Close closes the store and removes what it held.
func (l *lodger) Close() error { return errors.Join(l.Store.Close(), l.leave()) }

func openPostgres(ctx context.Context, t testing.TB, clock base.Clock) (store.Store, error) {
	database := testenv.SharedPostgres(t).URL()
	u, err := url.Parse(database)
	if err != nil {
		return nil, err
	}
	schema, query := newName(), u.Query()
	query.Set("schema", schema)
	query.Set("connections", "3") // as few as there can be: tests are many
	u.RawQuery = query.Encode()
	s, err := pgstore.Open(ctx, u.String(), pgstore.Options{Clock: clock, Logger: quiet()})
	if err != nil {
		return nil, err
	}
	return &lodger{s, sync.OnceValue(func() error { return dropSchema(database, schema) })}, nil
}

func dropSchema(database, schema string) error {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, "DROP SCHEMA "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
	return errors.Join(err, c.Close(ctx))
}

func openRedis(ctx context.Context, t testing.TB, clock base.Clock) (store.Store, error) {
	addr, prefix := testenv.SharedRedis(t).Addr, newName()
	s, err := redisstore.Open(ctx, redisstore.Options{Addresses: []string{addr}, Prefix: prefix, Clock: clock, Logger: quiet()})
	if err != nil {
		return nil, err
	}
	return &lodger{s, sync.OnceValue(func() error { return dropPrefix(addr, prefix) })}, nil
}

// clusterSegments is how many segments stores on a cluster have: enough for tenants to be in
// different ones, and few enough for tests that open many stores.
const clusterSegments = 8

func openRedisCluster(ctx context.Context, t testing.TB, clock base.Clock) (store.Store, error) {
	addrs, prefix := testenv.SharedRedisCluster(t).Addrs(), newName()
	s, err := redisstore.Open(ctx, redisstore.Options{Addresses: addrs, Prefix: prefix, Segments: clusterSegments, Clock: clock, Logger: quiet()})
	if err != nil {
		return nil, err
	}
	return &lodger{s, sync.OnceValue(func() (err error) {
		for _, addr := range addrs {
			err = errors.Join(err, dropPrefix(addr, prefix))
		}
		return err
	})}, nil
}

// dropPrefix removes the keys of a store from a server. It does so one by one, since those of a
// node of a cluster are in several slots, and leaves a replica to its master.
func dropPrefix(addr, prefix string) error {
	ctx := context.Background()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	defer c.Close()
	for cursor := uint64(0); ; {
		page, err := c.Do(ctx, c.B().Scan().Cursor(cursor).Match("{"+prefix+"[}/]*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		unlinks := make(rueidis.Commands, 0, len(page.Elements))
		for _, name := range page.Elements {
			unlinks = append(unlinks, c.B().Unlink().Key(name).Build())
		}
		for _, r := range c.DoMulti(ctx, unlinks...) {
			if refused, ok := rueidis.IsRedisErr(r.Error()); ok {
				if _, moved := refused.IsMoved(); moved {
					continue
				}
			}
			if err := r.Error(); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}
