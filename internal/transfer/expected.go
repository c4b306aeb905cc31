package transfer

import (
	"context"

	"github.com/abidehq/abide/store"
)

// expected returns about how many messages and records a store holds, for a bar that shows
// how far a copy has come. What it cannot count is not worth an error.
func expected(ctx context.Context, s store.Store) (n int) {
	if stats, err := s.Stats(ctx); err == nil {
		for i := range stats.Routes {
			n += stats.Routes[i].Pending
		}
	}
	for kind := range kinds {
		if records, err := s.Count(ctx, store.Query{Kind: kind}, store.MaxCount); err == nil {
			n += records
		}
	}
	return n
}
