package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// start is when the clocks of tests begin.
var start = time.UnixMilli(1_800_000_000_000)

// stores numbers the stores of the tests, so that each has a prefix of its own.
var stores atomic.Int64

func newPrefix() string { return fmt.Sprintf("test-%d", stores.Add(1)) }

// quiet returns a logger for what a test provokes.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// backends returns a factory of stores on one server.
func backends(server *testenv.RedisServer) storetest.Factory {
	return func(t testing.TB) *storetest.Backend {
		t.Helper()
		o := Options{Addresses: []string{server.Addr}, Prefix: newPrefix()}
		t.Cleanup(func() { forget(t, server, o.Prefix) })
		return newBackend(t, o)
	}
}

// newBackend returns a store for the suite.
func newBackend(t testing.TB, o Options) *storetest.Backend {
	t.Helper()
	clock := base.NewManual(start)
	o.Clock, o.Logger, o.poll = clock, quiet(), never // a wake-up that is lost shows
	open := func() *Store {
		s, err := Open(context.Background(), o)
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		return s
	}
	b := &storetest.Backend{Store: open(), Advance: clock.Advance, SetClock: clock.Jump}
	b.Open = func() (store.Store, error) { return Open(context.Background(), o) }
	b.Reopen = func() {
		if err := b.Store.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		b.Store = open()
	}
	t.Cleanup(func() {
		if err := b.Store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// newClient returns a connection of the test's own.
func newClient(t testing.TB, server *testenv.RedisServer) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr}, DisableCache: true, ForceSingleClient: true, PipelineMultiplex: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// forget removes all that a store holds.
func forget(t testing.TB, server *testenv.RedisServer, prefix string) {
	t.Helper()
	c := newClient(t, server)
	defer c.Close()
	for cursor := uint64(0); ; {
		page, err := c.Do(context.Background(), c.B().Scan().Cursor(cursor).Match("{"+prefix+"}*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			t.Errorf("forget: %v", err)
			return
		}
		if len(page.Elements) > 0 {
			if err := c.Do(context.Background(), c.B().Unlink().Key(page.Elements...).Build()).Error(); err != nil {
				t.Errorf("forget: %v", err)
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return
		}
	}
}

// TestContract runs the suite that every backend passes.
func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, backends(testenv.SharedRedis(t)))
}

// TestModel compares the store with the model.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, backends(testenv.SharedRedis(t)))
}

func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	storetest.RunKilled(t, func() string {
		return "redis://" + testenv.SharedRedis(t).Addr + "?prefix=" + newPrefix()
	}, store.Open)
}
