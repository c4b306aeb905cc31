// Package pages iterates over lists that are read a page at a time.
package pages

import (
	"context"
	"iter"

	"github.com/abidehq/abide/store"
)

// All yields the items of a list from cursor on, which is empty for the first page. Read returns
// the page that begins at a cursor, and the cursor of the page after it, which is empty after the
// last one; a page may be empty and have one after it. The sequence ends after the first error,
// which is yielded with the zero value of T. It can be used more than once, and by several
// goroutines if read can.
func All[T any](cursor string, read func(cursor string) (items []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for at := cursor; ; {
			items, next, err := read(at)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if at = next; at == "" {
				return
			}
		}
	}
}

// Records yields the records that match q, from its cursor on, in the order of [store.Store.List].
// The limit of q is the size of a page.
func Records(ctx context.Context, s store.Store, q store.Query) iter.Seq2[store.Record, error] {
	return All(q.Cursor, func(cursor string) ([]store.Record, string, error) {
		q := q
		q.Cursor = cursor
		page, err := s.List(ctx, q)
		return page.Records, page.Next, err
	})
}
