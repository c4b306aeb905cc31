package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// ahead has a store believe that the server's clock has shown a time that is ahead of it, as if
// it had been set back since.
func ahead(t *testing.T, s *Store, by time.Duration) {
	t.Helper()
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.db.time.Answer(s.db.time.Ask(), stats.Now.Add(by).UnixMilli())
}

// TestServerClockIsFollowedBack by each statement that takes the time, if it is behind the
// latest time that was seen by more than store.MaxClockLead.
func TestServerClockIsFollowedBack(t *testing.T) {
	t.Parallel()
	key := store.Key{Queue: "q", Tenant: "acme", Name: "k"}
	put := func(ctx context.Context, s *Store) error {
		return s.Commit(ctx, &store.Tx{Put: []store.Message{{Key: key, ID: "m", Route: "r"}}})
	}
	claim := func(ctx context.Context, s *Store) error {
		claims, err := s.Claim(ctx, store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Lease: time.Minute, Max: 1, MaxAttempts: 5})
		if err == nil && (len(claims) != 1 || claims[0].Until.After(time.Now().Add(time.Hour))) {
			t.Errorf("claimed: %+v", claims)
		}
		return err
	}
	for name, call := range map[string]func(ctx context.Context, s *Store) error{
		"commit": put, "claim": claim,
		"look":  func(ctx context.Context, s *Store) error { _, _, err := s.db.NextDue(ctx, []int64{1}); return err },
		"stats": func(ctx context.Context, s *Store) error { _, err := s.Stats(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, newURL(t), Options{})
			if name == "claim" {
				if err := put(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			ahead(t, s, 24*time.Hour)
			if err := call(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if lead := time.Until(time.UnixMilli(s.db.time.Ask().Floor)); lead > time.Hour {
				t.Errorf("the time is still %v ahead", lead)
			}
		})
	}
}

// TestServerClockIsWaitedFor if it is behind by no more than that.
func TestServerClockIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := open(t, newURL(t), Options{})
	ahead(t, s, 9*time.Second)
	mark := s.db.time.Ask().Floor
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if now := stats.Now.UnixMilli(); now != mark {
		t.Errorf("the time is %d, want %d", now, mark)
	}
	if stats.ClockLead <= 0 || stats.ClockLead > 9*time.Second {
		t.Errorf("the clock is behind by %v", stats.ClockLead)
	}
}
