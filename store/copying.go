package store

import (
	"context"
	"errors"
	"fmt"
)

// KindCopy is the kind of the record that a store has while a copy into it is under way:
// see [CopyMark]. It is written by the tool that copies, and by nobody else.
const KindCopy = "copy"

// CopyMark names the record of kind [KindCopy]. It says how far a copy into the store has
// come, it is put before the first parcel, and it is deleted when the copy has been
// verified. So a store that has it holds a part of what it should.
var CopyMark = RecordKey{Kind: KindCopy, ID: "copy"}

// ErrIncomplete is the error of a store into which a copy was begun and is not finished.
// Nothing must run on such a store: it would act on a part of the truth, and what it
// changes would be lost or doubled when the copy is continued.
var ErrIncomplete = errors.New("store is an unfinished copy")

// Whole returns [ErrIncomplete] if a copy into s was begun and is not finished, and [ErrShard]
// if s is one of several shards that was opened by itself. A program calls it before it works
// on a store.
func Whole(ctx context.Context, s Store) error {
	_, err := s.Get(ctx, CopyMark)
	switch {
	case err == nil:
		return fmt.Errorf("store: a copy into it was begun and is not finished; go on with the copy, or begin again with an empty store: %w", ErrIncomplete)
	case !errors.Is(err, ErrNotFound):
		return err
	}
	_, err = s.Get(ctx, ShardDirectory)
	switch {
	case err == nil:
		return fmt.Errorf("store: it is one of several shards; open all of them together, with a shards: URL: %w", ErrShard)
	case errors.Is(err, ErrNotFound):
		return nil
	}
	return err
}
