package auth

import (
	"context"
	"errors"

	"github.com/abidehq/abide/internal/pages"
	"github.com/abidehq/abide/store"
)

// localSubject is who makes tokens through the socket of a store, and, in releases before
// anonymous callers had the role operate, on loopback without any proof.
const localSubject = "local"

// FirstGuarded returns the tokens that may have been made without credentials, the first time
// that it is called for a store: when a server is guarded that was not before, its operator
// decides which of them stay.
func (g *Guard) FirstGuarded(ctx context.Context) ([]Token, error) {
	const verb = "look for tokens made without credentials"
	marker := store.RecordKey{Kind: kindGuarded, ID: kindGuarded}
	_, err := g.store.Get(ctx, marker)
	if err == nil {
		return nil, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return nil, wrap(verb, err)
	}
	var found []Token
	for rec, err := range pages.Records(ctx, g.store, store.Query{Kind: kindToken, Tenant: new(""), Limit: MaxPage}) {
		if err != nil {
			return nil, wrap(verb, err)
		}
		t, err := parseToken(rec)
		if err != nil {
			return nil, err
		}
		if t.CreatedBy == localSubject {
			found = append(found, t)
		}
	}
	err = g.store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{{Record: store.Record{Key: marker, Time: g.now(ctx)}}}})
	if errors.Is(err, store.ErrConflict) {
		err = nil // another process has started at the same time
	}
	return found, wrap(verb, err)
}
