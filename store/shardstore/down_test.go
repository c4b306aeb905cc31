package shardstore_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/shardstore"
)

// TestAShardThatIsDownStopsItsTenantsAlone while it refuses connections, and while it hangs, and no
// longer than that.
func TestAShardThatIsDownStopsItsTenantsAlone(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]state{"down": down, "hanging": hanging} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				list, shards := servers(3)
				s := openSystem(t, shards)
				healthy, sick := tenantOn(s, "a", 0), tenantOn(s, "b", 0)
				ok(t, s.Commit(t.Context(), put(sick, "before")))
				list[1].set(trouble)

				for range 3 {
					ok(t, s.Commit(t.Context(), put(healthy, "k")))
					claims, err := s.Claim(t.Context(), request(10, time.Minute))
					ok(t, err)
					if len(claims) != 1 || claims[0].Key.Tenant != healthy {
						t.Fatalf("claimed %v, want the key of the healthy tenant", claims)
					}
					ok(t, s.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: claims[0].Lease()}}}))
				}
				ok(t, s.Commit(t.Context(), record(healthy, "r")))
				if _, err := s.List(t.Context(), store.Query{Kind: "k", Tenant: &healthy}); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Stats(t.Context()); err != nil {
					t.Fatalf("stats: %v", err)
				}
				if trouble == down {
					err := s.Commit(t.Context(), put(sick, "k"))
					is(t, err, errDown)
					named(t, err)
				}
				_, err := s.List(t.Context(), store.Query{Kind: "k"})
				named(t, err)
				_, err = s.Count(t.Context(), store.Query{Kind: "k"}, 10)
				named(t, err)

				list[1].set(up)
				claims, err := s.Claim(t.Context(), request(10, time.Minute))
				ok(t, err)
				if len(claims) != 1 || claims[0].Key.Tenant != sick {
					t.Fatalf("claimed %v, want the key of the shard that is back", claims)
				}
				if _, err := s.List(t.Context(), store.Query{Kind: "k"}); err != nil {
					t.Fatalf("list when the shard is back: %v", err)
				}
			})
		})
	}
}

// named checks that an error names the shard.
func named(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "shard b") {
		t.Fatalf("got error %v, want one that names shard b", err)
	}
}

// TestClaimFailsIfAllShardsAreDown, since otherwise its caller would take a store that is gone for one
// that is empty.
func TestClaimFailsIfAllShardsAreDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, shards := servers(2)
		s := openSystem(t, shards)
		for _, server := range list {
			server.set(down)
		}
		_, err := s.Claim(t.Context(), request(1, 0))
		is(t, err, errDown)
		_, err = s.Claim(t.Context(), request(1, time.Minute))
		is(t, err, errDown)
		_, err = s.Stats(t.Context())
		is(t, err, errDown)
	})
}

// TestRenewalsOfOtherShardsGoOn: the leases of the shard that is down are named, and the others renewed.
func TestRenewalsOfOtherShardsGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, shards := servers(2)
		s := openSystem(t, shards)
		for _, shard := range []string{"a", "b"} {
			ok(t, s.Commit(t.Context(), put(tenantOn(s, shard, 0), "k")))
		}
		claims, err := s.Claim(t.Context(), request(10, 0))
		ok(t, err)
		var leases []store.Lease
		for i := range claims {
			leases = append(leases, claims[i].Lease())
		}
		list[1].set(down)
		lost, err := s.Renew(t.Context(), time.Hour, leases)
		partly, isPartly := errors.AsType[*store.NotRenewedError](err)
		if !isPartly || len(partly.Leases) != 1 || s.Directory().Of(partly.Leases[0].Key.Tenant) != "b" || len(lost) != 0 {
			t.Fatalf("lost %v, error %v; want the lease on shard b to be named", lost, err)
		}
		<-soon(2 * time.Minute) // of virtual time: the lease that was not renewed is over
		list[1].set(up)
		lost, err = s.Renew(t.Context(), time.Hour, leases)
		ok(t, err)
		if len(lost) != 1 || s.Directory().Of(lost[0].Key.Tenant) != "b" {
			t.Fatalf("lost %v, want the lease on shard b alone", lost)
		}
	})
}

// TestAProcessStartsWhileAShardIsDown, and serves its tenants when it is back.
func TestAProcessStartsWhileAShardIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list, shards := servers(2)
		first := openSystem(t, shards)
		healthy, sick := tenantOn(first, "a", 0), tenantOn(first, "b", 0)
		synctest.Wait() // until shard b has the directory
		list[1].set(down)
		second, err := shardstore.New(t.Context(), shards, shardstore.Options{})
		ok(t, err)
		defer func() { _ = second.Close() }() // its shards are those of first
		ok(t, second.Commit(t.Context(), put(healthy, "k")))
		is(t, second.Commit(t.Context(), put(sick, "k")), errDown)
		list[1].set(up)
		<-soon(10 * time.Second) // of virtual time, for the next attempt
		ok(t, second.Commit(t.Context(), put(sick, "k")))
	})
}
