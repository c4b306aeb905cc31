package shardstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/shardstore"
)

// server is a store in memory that can be cut off from the process, or hang, as that of a server can.
type server struct {
	*memstore.Store

	mu    sync.Mutex
	state state
	cut   context.CancelFunc // ends calls that wait
	alive context.Context    //nolint:containedctx // until it is cut off
}

type state int

const (
	up state = iota
	down
	hanging
)

var errDown = errors.New("connection refused")

func newServer() *server {
	s := &server{Store: memstore.New(memstore.Options{})}
	s.alive, s.cut = context.WithCancel(context.Background())
	return s
}

// set changes the state. Calls that wait fail when the server goes down.
func (s *server) set(to state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = to
	if to == down {
		s.cut()
	}
	if to == up {
		s.alive, s.cut = context.WithCancel(context.Background())
	}
}

func ask[T any](ctx context.Context, s *server, call func(ctx context.Context) (T, error)) (T, error) {
	var none T
	s.mu.Lock()
	st, alive := s.state, s.alive
	s.mu.Unlock()
	switch st {
	case down:
		return none, errDown
	case hanging:
		<-ctx.Done()
		return none, ctx.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(alive, cancel)()
	v, err := call(ctx)
	if alive.Err() != nil && err != nil {
		err = errDown
	}
	return v, err
}

func (s *server) Commit(ctx context.Context, tx *store.Tx) error {
	_, err := ask(ctx, s, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Store.Commit(ctx, tx) })
	return err
}

func (s *server) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	return ask(ctx, s, func(ctx context.Context) ([]store.Claim, error) { return s.Store.Claim(ctx, req) })
}

func (s *server) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	return ask(ctx, s, func(ctx context.Context) ([]store.Lease, error) { return s.Store.Renew(ctx, d, leases) })
}

func (s *server) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	return ask(ctx, s, func(ctx context.Context) (store.Record, error) { return s.Store.Get(ctx, key) })
}

func (s *server) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	return ask(ctx, s, func(ctx context.Context) (store.Record, error) { return s.Store.Await(ctx, key, after) })
}

func (s *server) List(ctx context.Context, q store.Query) (store.Page, error) {
	return ask(ctx, s, func(ctx context.Context) (store.Page, error) { return s.Store.List(ctx, q) })
}

func (s *server) Count(ctx context.Context, q store.Query, limit int) (int, error) {
	return ask(ctx, s, func(ctx context.Context) (int, error) { return s.Store.Count(ctx, q, limit) })
}

func (s *server) Stats(ctx context.Context) (store.Stats, error) { return ask(ctx, s, s.Store.Stats) }

// servers are several of them, as shards a, b, c and so on.
func servers(n int) (list []*server, shards []shardstore.Shard) {
	for i := range n {
		list = append(list, newServer())
		shards = append(shards, shardstore.Shard{Name: string(rune('a' + i)), Store: list[i]})
	}
	return list, shards
}

// openSystem opens a store over shards, which lives by the clock of the bubble or the machine.
func openSystem(t testing.TB, shards []shardstore.Shard) *shardstore.Store {
	t.Helper()
	return open(t, base.System{}, shards...)
}

// tenantOn returns the nth tenant that is on a shard.
func tenantOn(s *shardstore.Store, shard string, nth int) string {
	for i := 0; ; i++ {
		if tenant := fmt.Sprintf("tenant-%d", i); s.Directory().Of(tenant) == shard {
			if nth--; nth < 0 {
				return tenant
			}
		}
	}
}

func put(tenant, name string) *store.Tx {
	return &store.Tx{Put: []store.Message{{Key: store.Key{Queue: "q", Tenant: tenant, Name: name}, ID: "m", Route: "r"}}}
}

func record(tenant, id string) *store.Tx {
	return &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: store.RecordKey{Kind: "k", Tenant: tenant, ID: id}}, Expect: store.AnyVersion}}}
}

func request(limit int, wait time.Duration) store.ClaimRequest {
	return store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: limit, Lease: time.Minute, Wait: wait}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// soon returns a channel that is closed after a while.
func soon(d time.Duration) <-chan struct{} {
	passed := make(chan struct{})
	base.System{}.AfterFunc(d, func() { close(passed) })
	return passed
}
