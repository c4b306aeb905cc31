package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/abidehq/abide/store"
)

// markFormat is the version of the mark's body, which is JSON.
const markFormat = 1

// mark is what the target of a copy says about it: the body of [store.CopyMark].
type mark struct {
	Format int    `json:"format"`
	Source string `json:"source"` // which store is copied
	Cursor []byte `json:"cursor"` // of the next parcel; a cursor may hold any bytes
	Done   bool   `json:"done"`   // all parcels are there, and are to be compared
	Sum    Sum    `json:"sum"`    // of what was copied so far

	version int64 // of the record; 0 if there is none
}

// readMark returns the mark of a store, and one of version 0 if it has none.
func readMark(ctx context.Context, s store.Store) (mark, error) {
	r, err := s.Get(ctx, store.CopyMark)
	if errors.Is(err, store.ErrNotFound) {
		return mark{}, nil
	}
	if err != nil {
		return mark{}, err
	}
	m := mark{version: r.Version}
	if err := json.Unmarshal(r.Body, &m); err != nil || m.Format != markFormat {
		return mark{}, fmt.Errorf("transfer: the target was begun by another release of Abide, whose notes this one does not read (%q): %w", r.Body, ErrTarget)
	}
	return m, nil
}

// write puts the mark.
func (m *mark) write(ctx context.Context, s store.Store) error {
	m.Format = markFormat
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("transfer: write down how far the copy has come: %w", err)
	}
	err = s.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{
		Record: store.Record{Key: store.CopyMark, Status: "copying", Name: "copy", Body: body},
		Expect: m.version,
	}}})
	if err != nil {
		return fmt.Errorf("transfer: write down how far the copy has come: %w", err)
	}
	m.version++
	return nil
}

// remove deletes the mark: from now on the store is whole.
func (m *mark) remove(ctx context.Context, s store.Store) error {
	err := s.Commit(ctx, &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: store.CopyMark, Expect: m.version}}})
	if err != nil {
		return fmt.Errorf("transfer: declare the copy whole: %w", err)
	}
	return nil
}
