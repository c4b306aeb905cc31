package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store"
)

// sharded is a store that says that it consists of shards. Those of a real one are tested where it is.
type sharded struct{ backedUp }

func (sharded) Shards(context.Context) (store.Shards, error) {
	return store.Shards{
		Version: 7, Home: "a",
		List: []store.ShardStatus{
			{Name: "a", Listed: true, Slots: 512, Stats: store.Stats{Leases: 14, Bytes: 731_906_048, Routes: []store.RouteStats{{Queue: "turns", Route: "order", Pending: 20_752}}}},
			{Name: "b", Listed: true, Slots: 512, Tenants: 1, Stats: store.Stats{Leases: 3, Bytes: 90_112_000}},
			{Name: "c", Err: errors.New("connection refused")},
		},
		Move: &store.ShardMove{Slot: -1, Tenant: "acme", From: "a", To: "b", Stage: "copy", Round: 1, Done: 2300, Of: 4210, SeenAt: time.Date(2026, 11, 17, 13, 51, 46, 0, time.UTC)},
	}, nil
}

func TestShards(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	if got := w.do("admin", "GET /api/v1/shards", ""); got.status != http.StatusOK || got.body != `{"shards":[]}`+"\n" {
		t.Errorf("a store without shards: %d %s", got.status, got.body)
	}
	w = newWhole(t, func(cfg *server.Config) { cfg.Store = sharded{backedUp{cfg.Store, nil}} })
	got := w.do("admin", "GET /api/v1/shards", "")
	const want = `{"version":7,"home":"a","shards":[` +
		`{"name":"a","status":"up","slots":512,"tenants":0,"pending":20752,"leases":14,"bytes":731906048},` +
		`{"name":"b","status":"up","slots":512,"tenants":1,"pending":0,"leases":3,"bytes":90112000},` +
		`{"name":"c","status":"down","error":"connection refused","slots":0,"tenants":0,"pending":0,"leases":0,"bytes":0}],` +
		`"move":{"tenant":"acme","from":"a","to":"b","stage":"copy","round":1,"done":2300,"of":4210,"seen_at":"2026-11-17T13:51:46Z"}}` + "\n"
	if got.status != http.StatusOK || got.body != want {
		t.Errorf("%d %s\nwant %s", got.status, got.body, want)
	}
}
