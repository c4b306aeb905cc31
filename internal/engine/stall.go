package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// stallError says that an instance cannot go on until somebody has fixed something.
type stallError struct{ reason string }

func (e *stallError) Error() string { return e.reason }

func stallf(format string, args ...any) error {
	return &stallError{reason: fmt.Sprintf(format, args...)}
}

// stallOf says in words why code cannot go on.
func stallOf(err error) error {
	var mismatch *replay.Mismatch
	var crash *replay.PanicError
	switch {
	case errors.As(err, &mismatch):
		return stallf("nondeterminism: %v", mismatch)
	case errors.As(err, &crash):
		return stallf("%v\n%s", crash, crash.Stack)
	default:
		return stallf("%v", err)
	}
}

// stall ends the turn without anything that its code did: the instance waits, with
// its messages, until it is resumed.
func (t *turn) stall(reason string) error {
	if !t.owner.CompareAndSwap(false, true) {
		return errAbandoned
	}
	t.in.close()
	if t.before.book == nil {
		if err := t.loadAnyhow(); err != nil {
			return err
		}
		t.before.book = &t.in.ledger
	}
	return t.commitStall(reason)
}

// blocked stalls the instance of code that does not come back. The keeper calls it;
// the code, when it does come back, finds that its turn was given up.
func (t *turn) blocked() {
	if !t.owner.CompareAndSwap(false, true) {
		return
	}
	reason := fmt.Sprintf("blocked: its code has waited for %v for something that is not Abide's%s", t.e.cfg.Blocked, whereBlocked())
	if err := t.commitStall(reason); err != nil {
		t.e.log.Error("an instance is blocked, and cannot be stalled", "instance", refOf(t.claim.Key), "error", err)
	}
}

// commitStall starts from where the turn was before its code ran. The code may still
// be running.
func (t *turn) commitStall(reason string) error {
	reason = history.Cut(reason)
	info, tx := t.before.info, t.before.tx
	info.Before, info.Status, info.Reason = info.Status, Stalled, reason
	tx.Finish = []store.Finish{{Lease: t.claim.Lease(), Keep: t.before.rest}}
	tx.Put = append(slices.Clip(tx.Put), parkedMessage(t.claim.Key))
	expect := info.Revision
	if !info.partial { // a turn that history breaks off must stay the last
		expect = store.AnyVersion
		remark := history.Event{Kind: history.ExecutionStalled, Name: reason}
		tx.Append = []store.Append{{
			Key: t.claim.Key, At: t.claim.LogLength, Tag: info.run,
			Entries: quietTurn(later(t.claim.Now, t.before.book.now), t.before.book.lastID, remark),
		}}
	}
	tx.PutRecords = append(slices.Clip(tx.PutRecords), info.putRecord(expect))
	if err := t.e.store.Commit(t.ctx, &tx); err != nil {
		return err
	}
	t.e.count.Stalls.Add(1)
	t.e.log.Error("an instance has stalled", "instance", info.Ref, "orchestration", info.Route(), "reason", reason)
	return nil
}

// quietTurn returns the entries of a turn of which the code does not learn.
func quietTurn(at time.Time, lastID int32, events ...history.Event) [][]byte {
	entries := [][]byte{history.Append(nil, &history.Event{ID: lastID + 1, Kind: history.TurnStarted, At: at})}
	for i := range events {
		events[i].ID = lastID + 2 + int32(i)
		entries = append(entries, history.Append(nil, &events[i]))
	}
	return entries
}
