package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/abidehq/abide/store"
)

// state is what a store was loaded with. It is a record in the store itself, so that
// the next run need not load it again. It is written once the loading is done: an
// interrupted one is done again, and puts what is there already without effect.
type state struct {
	Keys KeyOrder `json:"keys"`

	// Instances is the number of instances that have a message which makes their
	// next turn.
	Instances int `json:"instances"`

	// Pending is how many messages were put that are not visible yet. They become
	// visible some day: so many there are at most.
	Pending int `json:"pending"`
}

var stateKey = store.RecordKey{Kind: kind, Tenant: tenant, ID: "state"}

// readState reports false if the store was never loaded.
func readState(ctx context.Context, s store.Store) (st state, found bool, err error) {
	record, err := s.Get(ctx, stateKey)
	if errors.Is(err, store.ErrNotFound) {
		return state{}, false, nil
	}
	if err != nil {
		return state{}, false, fmt.Errorf("bench: read what the store was loaded with: %w", err)
	}
	if err := json.Unmarshal(record.Body, &st); err != nil {
		return state{}, false, fmt.Errorf("bench: read what the store was loaded with: record %v: %w", stateKey, err)
	}
	return st, true, nil
}

func (st state) write(ctx context.Context, s store.Store) error {
	body, err := json.Marshal(st)
	if err != nil {
		return fmt.Errorf("bench: encode what the store was loaded with: %w", err)
	}
	err = s.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{
		Expect: store.AnyVersion,
		Record: store.Record{Key: stateKey, Status: "loaded", Name: "bench", Time: startedAt, Body: body},
	}}})
	if err != nil {
		return fmt.Errorf("bench: write what the store was loaded with: %w", err)
	}
	return nil
}
