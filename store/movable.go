package store

import (
	"context"
	"errors"
	"fmt"
)

// Movable is a store from and to which tenants can be moved, one by one, while it is in use. It is
// for package shardstore, which says how a move goes: an engine needs [Store] alone.
type Movable interface {
	Store

	// Tenants calls yield with each tenant that has a key or a record here, in any order, until
	// it returns an error, which Tenants returns.
	Tenants(ctx context.Context, yield func(tenant string) error) error

	// Outline calls yield with each key and each record of the tenants, in any order, until it
	// returns an error, which Outline returns. It sees what was committed before the call.
	Outline(ctx context.Context, tenants []string, yield func(Mark) error) error

	// Take returns all that the named keys and records have, at one moment. Those that do not
	// exist are left out.
	Take(ctx context.Context, things []Thing) (Cargo, error)

	// Replace makes the store hold, of the named things, exactly what the cargo holds: what is there
	// is replaced, and what is not in the cargo is removed. It returns the marks that the things
	// in the cargo have from then on. It reads back what it wrote before it commits, and returns
	// [ErrCorrupt] if that is something else.
	//
	// It returns [ErrConflict], and changes nothing, unless the record that the guard names has
	// its version: a mover that was replaced by another one changes nothing any more.
	Replace(ctx context.Context, guard Guard, things []Thing, c Cargo) ([]Mark, error)

	// Acknowledge notes that this process goes by a version of the directory of shards, and that
	// no commit which it makes from then on goes by an earlier one. After the first call each
	// commit of the process is refused with [ErrFenced], and changes nothing, unless the store
	// has the note: it loses it when it takes the process for dead.
	Acknowledge(ctx context.Context, version int64) error

	// Settle waits until every process that has the store open has acknowledged at least the
	// version, or counts as dead, and every commit that was made before has ended. If ctx ends
	// first, the error says which processes are missing.
	Settle(ctx context.Context, version int64) error
}

// ErrFenced is the error of a commit of a process that must read the directory of shards, and
// acknowledge it, before it commits again. Nothing was changed.
var ErrFenced = errors.New("process has to read the directory of shards")

// Fenced returns [ErrFenced] for a call.
func Fenced(verb string) error { return fmt.Errorf("store: %s: %w", verb, ErrFenced) }

// Thing names a key, if Key.Name is set, or a record.
type Thing struct {
	Key    Key
	Record RecordKey
}

// Tenant returns the tenant of the thing.
func (t *Thing) Tenant() string {
	if t.Key.Name != "" {
		return t.Key.Tenant
	}
	return t.Record.Tenant
}

// Mark is a thing, and its revision: another one after each change.
type Mark struct {
	Thing
	Revision string
}

// Guard is a record at a version.
type Guard struct {
	Record  RecordKey
	Version int64
}
