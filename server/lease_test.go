package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/server"
	"github.com/abidehq/abide/store"
	_ "github.com/abidehq/abide/store/pgstore"
	_ "github.com/abidehq/abide/store/redisstore"
)

// deadLease is how long the lease of a process lasts that is not there any more: long enough to read
// everything before it ends.
const deadLease = 8 * time.Second

// dead claims from a queue as a process that is killed right after, and was last seen a while ago.
func dead(t *testing.T, s store.Store, queue, route string) {
	t.Helper()
	stats, err := s.Stats(t.Context())
	check.OK(t, err)
	w := roster.Worker{ID: "dead", Name: "till", Host: "shop", PID: 42, SeenAt: stats.Now.Add(-50 * time.Second)}
	check.OK(t, s.Commit(t.Context(), &store.Tx{PutRecords: []store.PutRecord{w.Put()}}))
	claims, err := s.Claim(t.Context(), store.ClaimRequest{
		Queue: queue, Routes: []string{route}, Max: 1, Lease: deadLease, Wait: 20 * time.Second, Owner: "till@shop:42 dead",
	})
	if err != nil || len(claims) != 1 {
		t.Fatalf("%d claims, error %v; want one", len(claims), err)
	}
}

// TestLeasesOfADeadProcess: what a process had claimed when it was killed is told apart from what is
// ready, by the API and the pages, and goes on when its lease ends.
func TestLeasesOfADeadProcess(t *testing.T) {
	t.Parallel()
	for kind, address := range map[string]func(*testing.T) string{
		"postgres": func(t *testing.T) string { return testenv.Postgres(t).URL() },
		"redis":    func(t *testing.T) string { return "redis://" + testenv.Redis(t).Addr + "/0" },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, err := store.Open(t.Context(), address(t))
			check.OK(t, err)
			t.Cleanup(func() { check.OK(t, s.Close()) })
			slow := abide.NewActivity("slow", func(context.Context, abide.None) (int, error) { return 7, nil })
			flow := abide.NewOrchestration("order", func(ctx abide.Context, _ abide.None) (int, error) { return slow.Call(ctx, abide.None{}) })

			i, err := flow.Start(t.Context(), abide.NewClient(s, nil), abide.None{}, abide.ID("order-17"), abide.Unchecked())
			check.OK(t, err)
			dead(t, s, "turns", "order")
			engine, err := abide.New(s, abide.Config{Register: []abide.Definition{flow}, Logger: rig.Quiet})
			check.OK(t, err)
			t.Cleanup(func() { check.OK(t, engine.Close()) })
			srv, err := server.New(server.Config{Store: s, Engine: engine, Logger: rig.Quiet, Page: true})
			check.OK(t, err)
			h := httptest.NewServer(srv)
			t.Cleanup(h.Close)
			t.Cleanup(srv.Drain)
			says := func(path string, parts ...string) {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+path, nil)
				check.OK(t, err)
				resp, err := h.Client().Do(req)
				check.OK(t, err)
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				check.OK(t, err)
				for _, part := range parts {
					if !strings.Contains(string(body), part) {
						t.Errorf("%s does not say %q:\n%.3000s", path, part, body)
					}
				}
			}
			const instance = "/instances/default/order-17"
			who := `"lease":{"worker":"till@shop:42","worker_id":"dead","until":"`
			says("/api/v1/stats", `"queue":"turns","route":"order","pending":1,"ready":1,"leased":1`)
			says("/api/v1"+instance, `"status":"pending"`)
			says("/api/v1"+instance+"/lease", who, `"seen_at":"`)
			says(instance, "Its turn leased by <strong>till@shop:42</strong> until", "not seen since")
			says("/workers", "Leases of workers that are not seen", "till@shop:42", instance)

			dead(t, s, "activities", "slow") // as soon as the first lease has ended, and the turn was made
			says("/api/v1/stats", `"queue":"activities","route":"slow","pending":1,"ready":1,"leased":1`)
			says("/api/v1"+instance+"/waits", `"name":"slow"`, `"attempt":1`, who)
			says("/api/v1"+instance+"/lease", `{}`)
			says(instance, "begun 1 time, leased by <strong>till@shop:42</strong> until")
			worker, err := abide.New(s, abide.Config{Register: []abide.Definition{slow}, Logger: rig.Quiet})
			check.OK(t, err)
			t.Cleanup(func() { check.OK(t, worker.Close()) })
			n, err := i.Result(t.Context())
			check.OK(t, err)
			check.Equal(t, "the result", n, 7)
			says("/api/v1/stats", `"leases":0`)
		})
	}
}
