//go:build invariants

package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// maxChecked is the length of the histories that are checked, in events: each turn reads all of them.
const maxChecked = 200

// checkCommitted panics if the instance that a committed turn leaves behind is not what the store
// holds: it would go into the cache, and the next turn would trust it. It reads the whole history, so
// it is built in with the tag invariants only.
//
//   - The ledger is the fold of the log: take and answer change it ahead of the events, and note must
//     come to the same.
//   - The code is where the ledger is: it has as many events, and waits for the same activities,
//     timers and children.
func (t *turn) checkCommitted() {
	in := t.in
	if !in.loaded || in.ledger.ended || t.outdated || t.next != nil || in.ledger.lastID > maxChecked {
		return
	}
	stored, ok := t.storedLedger()
	if !ok {
		return // the store is in trouble, or the instance has gone on and was trimmed
	}
	for what, pair := range map[string][2]any{
		"last ID": {in.ledger.lastID, stored.lastID},
		"started": {in.ledger.started, stored.started},
		"yielded": {in.ledger.yielded, stored.yielded},
		"ended":   {in.ledger.ended, stored.ended},
		"time":    {in.ledger.now.UnixMilli(), stored.now.UnixMilli()},
		"bytes":   {in.ledger.bytes, stored.bytes},
		"open":    {fmt.Sprint(openTimes(in.ledger.open)), fmt.Sprint(openTimes(stored.open))},
		"leaving": {fmt.Sprint(sortedKeys(in.ledger.leaving)), fmt.Sprint(sortedKeys(stored.leaving))},
	} {
		if pair[0] != pair[1] {
			panic(fmt.Sprintf("engine: invariant: %v: %s is %v in memory and %v in the store", in.info.Ref, what, pair[0], pair[1]))
		}
	}
	if code, ok := in.exec.(*replay.Execution); ok && !code.Ended() {
		if open := sortedKeys(in.ledger.open); code.LastID() != in.ledger.lastID || !slices.Equal(code.Open(), open) {
			panic(fmt.Sprintf("engine: invariant: %v: the code is at event %d and waits for %v, the ledger is at %d and has %v",
				in.info.Ref, code.LastID(), code.Open(), in.ledger.lastID, open))
		}
	}
}

// storedLedger returns the ledger of what the store holds, up to the length that the instance has.
func (t *turn) storedLedger() (stored ledger, ok bool) {
	left := t.in.length - t.in.info.offset
	if left == 0 {
		return stored, true
	}
	for entry, err := range store.Entries(context.Background(), t.e.cfg.Store, t.claim.Key, t.in.info.offset) {
		if err != nil {
			return stored, false
		}
		e, err := history.Parse(entry)
		if err != nil {
			return stored, false
		}
		stored.note(&e)
		stored.bytes += int64(len(entry))
		if left--; left == 0 {
			return stored, true
		}
	}
	return stored, false
}

// openTimes returns what is open and until when.
func openTimes(open map[int32]*history.Event) map[int32]int64 {
	times := map[int32]int64{}
	for id := range maps.Keys(open) {
		times[id] = max(open[id].At.UnixMilli(), 0) // the format has no time before 1970
	}
	return times
}
