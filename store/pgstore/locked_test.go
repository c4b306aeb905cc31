package pgstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/abidehq/abide/store"
)

// TestLockedRowsStopOneCommit: a transaction of the caller's own is left open. Commits that
// touch what it has touched wait for it; other commits, renewals and claims, of the same
// process and of another one, do not.
func TestLockedRowsStopOneCommit(t *testing.T) {
	t.Parallel()
	for _, connections := range []string{"3", "8"} {
		t.Run(connections+" connections", func(t *testing.T) {
			t.Parallel()
			u := newURL(t, "connections", connections)
			both := []*Store{open(t, u, Options{}), open(t, u, Options{})}
			a := both[0]
			if err := a.Commit(t.Context(), put("turns", "leased", "a", "order")); err != nil {
				t.Fatal(err)
			}
			leased, err := a.Claim(t.Context(), request(1, 0))
			if err != nil || len(leased) != 1 {
				t.Fatalf("claim: %v, %v", leased, err)
			}
			if err := a.Commit(t.Context(), put("turns", "there", "a", "order")); err != nil {
				t.Fatal(err)
			}
			conn, err := pgx.Connect(t.Context(), plain(t, u))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"there", "new"} { // a row that is locked, and one that nobody else sees yet
				if err := a.Commit(WithTx(t.Context(), tx), put("turns", name, "b", "order")); err != nil {
					t.Fatal(err)
				}
			}
			stuck := make(chan error, 4)
			for i, s := range both {
				for _, name := range []string{"there", "new"} {
					go func() { stuck <- s.Commit(t.Context(), put("turns", name, fmt.Sprint("c", i), "order")) }()
				}
			}
			for i := range 50 {
				for j, s := range both {
					if err := s.Commit(t.Context(), put("other", fmt.Sprint(i, " ", j), "a", "order")); err != nil {
						t.Fatalf("a commit that touches no locked row: %v", err)
					}
				}
			}
			if lost, err := a.Renew(t.Context(), time.Minute, []store.Lease{leased[0].Lease()}); len(lost) > 0 || err != nil {
				t.Errorf("renew: %v, %v", lost, err)
			}
			got := make(chan error, 1)
			go func() { // it begins while all that is ready is locked
				claims, err := both[1].Claim(t.Context(), request(1, time.Minute))
				if err == nil && (len(claims) != 1 || claims[0].Key.Name != "ready") {
					err = fmt.Errorf("claimed %v", claims)
				}
				got <- err
			}()
			if err := a.Commit(t.Context(), put("turns", "ready", "a", "order")); err != nil {
				t.Fatal(err)
			}
			if err := <-got; err != nil {
				t.Errorf("claim beside locked keys: %v", err)
			}
			if len(stuck) > 0 {
				t.Errorf("a commit that touches a locked row has returned %v", <-stuck)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range cap(stuck) {
				if err := <-stuck; err != nil {
					t.Errorf("commit after the rows were unlocked: %v", err)
				}
			}
			for _, name := range []string{"there", "new"} {
				pending, err := a.Pending(t.Context(), store.Key{Queue: "turns", Tenant: "acme", Name: name}, 0)
				if want := map[string]int{"there": 4, "new": 3}[name]; err != nil || len(pending) != want {
					t.Errorf("%s has %d messages, %v, want %d", name, len(pending), err, want)
				}
			}
			verifies(t, a)
		})
	}
}
