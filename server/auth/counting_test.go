package auth

import (
	"context"
	"sync/atomic"

	"github.com/abidehq/abide/store"
)

// counting counts the calls to a store, and can have something happen within them.
type counting struct {
	store.Store
	commits  atomic.Int64
	gets     atomic.Int64
	logs     atomic.Int64
	afterGet func()
	onCommit func(*store.Tx) error
}

func (c *counting) Commit(ctx context.Context, tx *store.Tx) error {
	c.commits.Add(1)
	if c.onCommit != nil {
		if err := c.onCommit(tx); err != nil {
			return err
		}
	}
	return c.Store.Commit(ctx, tx)
}

func (c *counting) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	c.gets.Add(1)
	rec, err := c.Store.Get(ctx, key)
	if c.afterGet != nil {
		c.afterGet()
	}
	return rec, err
}

func (c *counting) ReadLog(ctx context.Context, key store.Key, from int) (store.LogPage, error) {
	c.logs.Add(1)
	return c.Store.ReadLog(ctx, key, from)
}
