package store

import (
	"context"
	"iter"
)

// LogPage is a part of a log.
type LogPage struct {
	// First is the index of the first of Entries. It is greater than the index that
	// was asked for if the log was trimmed beyond it.
	First int

	// Entries of the log, in order.
	Entries [][]byte

	// Length is the length of the whole log: one more than the index of its last
	// entry. Trimming a log does not change its length.
	Length int
}

// Entries walks over a key's log from index from to its end, page by page.
func Entries(ctx context.Context, s Store, key Key, from int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for {
			page, err := s.ReadLog(ctx, key, from)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, entry := range page.Entries {
				if !yield(entry, nil) {
					return
				}
			}
			from = page.First + len(page.Entries)
			if len(page.Entries) == 0 || from >= page.Length {
				return
			}
		}
	}
}
