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

func dropPrefix(addr, prefix string) error {
	ctx := context.Background()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	defer c.Close()
	for cursor := uint64(0); ; {
		page, err := c.Do(ctx, c.B().Scan().Cursor(cursor).Match("{"+prefix+"}*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		if len(page.Elements) > 0 {
			if err := c.Do(ctx, c.B().Unlink().Key(page.Elements...).Build()).Error(); err != nil {
				return err
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}
