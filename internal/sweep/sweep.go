// Package sweep removes records that were kept long enough.
package sweep

import (
	"context"
	"errors"

	"github.com/abidehq/abide/store"
)

// Records removes the records that match q, a page in each commit, so that others are not
// kept waiting, and returns how many. Those that are changed meanwhile stay. Also, if not
// nil, returns what goes with a record.
func Records(ctx context.Context, s store.Store, q store.Query, also func(store.RecordKey) []store.RecordKey) (int, error) {
	total := 0
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return total, err
		}
		var failed error
		store.SplitTenants(page.Records, func(r store.Record) string { return r.Key.Tenant }, func(records []store.Record) error {
			if failed != nil {
				return failed
			}
			tx := &store.Tx{}
			for i := range records {
				tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: records[i].Key, Expect: records[i].Version})
				if also == nil {
					continue
				}
				for _, key := range also(records[i].Key) {
					tx.DeleteRecords = append(tx.DeleteRecords, store.DeleteRecord{Key: key, Expect: store.AnyVersion})
				}
			}
			err := s.Commit(ctx, tx)
			switch {
			case err == nil:
				total += len(records)
			case errors.Is(err, store.ErrConflict): // it was changed or removed meanwhile
			case errors.Is(err, store.ErrTooLarge) && len(records) > 1: // of tenants that are kept apart
			default:
				failed = err
			}
			return err
		})
		if failed != nil || page.Next == "" {
			return total, failed
		}
		q.Cursor = page.Next
	}
}
