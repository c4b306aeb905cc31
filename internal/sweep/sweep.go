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
		store.Split(page.Records, func(records []store.Record) error {
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
			case !errors.Is(err, store.ErrConflict): // it was changed or removed meanwhile
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
