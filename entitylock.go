package abide

import (
	"encoding/json"
	"slices"

	"github.com/abidehq/abide/internal/engine"
)

// Lock locks entities for the instance and waits until all of them are locked. Until unlock is called,
// operations of other instances, of clients and of entities wait; those that the instance calls run.
//
//	unlock, err := abide.Lock(ctx, Account.ID(from), Account.ID(to))
//	if err != nil {
//		return err
//	}
//	defer unlock()
//
// Entities are locked in the order of their IDs, so that instances which lock several at once never wait for each
// other. An instance that holds locks must not lock more: release them first. Locks are also released when the
// instance ends in any way or continues as new. Calling unlock twice is fine. If ctx is cancelled meanwhile, Lock
// returns [ErrCancelled] and has locked nothing; unlock is never nil.
func Lock(ctx Context, entities ...EntityID) (unlock func(), err error) {
	ids := make([]string, len(entities))
	for i, id := range entities {
		ids[i] = id.String()
		if _, err := ParseEntityID(ids[i]); err != nil {
			ctx.c.Stall(err)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) > engine.MaxEntityLocks {
		ctx.stallf("limit: it locks %d entities at once, at most %d are allowed", len(ids), engine.MaxEntityLocks)
	}
	if len(ids) == 0 {
		return func() {}, nil
	}
	data, err := json.Marshal(ids)
	if err != nil {
		ctx.stallf("the IDs of entities cannot be encoded: %v", err)
	}
	request := ctx.c.LockEntities(data)
	ctx.c.Wait(request)
	if _, failure := request.Result(); failure != nil {
		return func() {}, errorOf(failure)
	}
	return func() {
		for _, id := range ids {
			ctx.c.UnlockEntity(request, id)
		}
		ids = nil
	}, nil
}
