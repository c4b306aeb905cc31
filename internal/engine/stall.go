package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// stallError is the reason for which an instance cannot continue until its code or data is fixed.
type stallError struct {
	reason  string
	cause   string      // if another build may not have it
	payload *BadPayload // that does not fit its type, if that is the reason
}

func (e *stallError) Error() string { return e.reason }

func stallf(format string, args ...any) error {
	return &stallError{reason: fmt.Sprintf(format, args...)}
}

// stallOf says in words why code cannot go on.
func stallOf(err error) error {
	var mismatch *replay.Mismatch
	var crash *replay.PanicError
	var payload *replay.PayloadError
	switch {
	case errors.As(err, &payload):
		return &stallError{reason: err.Error(), payload: &BadPayload{Event: payload.Event, Kind: payload.Kind, Name: payload.Name}}
	case errors.As(err, &mismatch):
		return &stallError{cause: causeMismatch, reason: fmt.Sprintf("nondeterminism: %v", mismatch)}
	case errors.As(err, &crash):
		return &stallError{cause: causePanic, reason: fmt.Sprintf("%v\n%s", crash, crash.Stack)}
	default:
		return stallf("%v", err)
	}
}

// stall ends the turn without anything that its code did: the instance waits, with its messages, until it
// is resumed. The claim is finished with all messages kept, and one that is never due re-routes the key to
// the route of parked instances, which no engine claims. So a stalled instance costs nothing, and its
// messages stay in the store, in order. A remark in the history tells why.
func (t *turn) stall(why *stallError) error {
	if !t.owner.CompareAndSwap(false, true) {
		return errAbandoned
	}
	if bad := why.payload; bad != nil && bad.Event > t.begun.lastID { // not in history: this turn is dropped
		bad.Message, bad.Event = t.messageOf(bad.Event), 0
	}
	t.e.closers.end(t.in)
	t.beginSpan()
	return t.stallNow(why)
}

// blocked stalls the instance of code that does not come back. The watchdog calls it;
// the code, when it does come back, finds that its turn was given up.
func (t *turn) blocked() {
	if !t.owner.CompareAndSwap(false, true) {
		return
	}
	t.e.keeper.Drop(t.claim.Lease())
	t.job.abandon()
	where := WhereBlocked
	if elsewhere, ok := t.progress.exec.(interface{ WhereBlocked() string }); ok {
		where = elsewhere.WhereBlocked
	}
	reason := fmt.Sprintf("blocked: its code has waited for %v for something that is not Abide's%s", t.e.cfg.DeadlockTimeout, where())
	if err := t.stallNow(&stallError{cause: causeBlocked, reason: reason}); err != nil {
		t.e.log.Error("blocked instance not stalled", t.about(), "error", err)
	}
}

// stallNow parks an instance that was claimed. It uses nothing of the turn that failed but its claim and its
// span, and reads the record again: the fields of the failed turn are in the middle of a change, and if the
// watchdog calls, the goroutine that owns them is still running.
//
// The context of the turn may end while the commit returns: it finishes the claim, and a renewal that runs
// at the same time then finds the lease gone. So the calls have a context that does not end; the store
// refuses the commit if the lease was lost before.
func (t *turn) stallNow(why *stallError) error {
	e, ctx, c := t.e, context.WithoutCancel(t.ctx), t.claim
	reason := history.Cut(why.reason)
	info, err := e.Client.Get(ctx, refOf(c.Key))
	if err != nil {
		return err
	}
	if info.Status.Ended() || info.Status.parked() {
		return fmt.Errorf("abide: %v is %s: %w", info.Ref, info.Status, store.ErrConflict)
	}
	tx := &store.Tx{}
	var entries [][]byte
	keep := make([]string, len(c.Messages))
	for i := range c.Messages {
		keep[i] = c.Messages[i].ID
	}
	if !info.origin.valid() {
		info.origin = t.under()
	}
	info.Before, info.Status, info.Reason = info.Status, Stalled, reason
	info.BadPayload = why.payload
	info.trial.stall(why.cause, e.cfg.Build)
	tx.Finish = []store.Finish{{Lease: c.Lease(), Keep: keep}}
	tx.Put = []store.Message{parkedMessage(c.Key)}
	if !info.partial { // a turn that history breaks off must stay the last
		lastID := int32(c.LogLength - info.offset)
		remark := history.Event{Kind: history.ExecutionStalled, Name: reason, Build: info.trial.build}
		entries = quietTurn(c.Now, lastID, t.spanID(), remark)
		tx.Append = []store.Append{{Key: c.Key, At: c.LogLength, Tag: info.run, Entries: entries}}
	}
	tx.PutRecords = append(tx.PutRecords, info.putRecord(info.Revision))
	if err := e.store.Commit(ctx, tx); err != nil {
		return err
	}
	e.count.Stalls.Add(1)
	e.meters.stalled.Add(ctx, 1)
	e.log.Error("instance stalled", about(info.Ref, info.Route(), info.Execution, t.under()), "reason", reason, "build", e.cfg.Build)
	t.endStalled(reason, len(entries))
	return nil
}

// quietTurn returns the entries of a turn of which the code does not learn.
func quietTurn(at time.Time, lastID int32, span uint64, events ...history.Event) [][]byte {
	entries := [][]byte{history.Append(nil, &history.Event{ID: lastID + 1, Kind: history.TurnStarted, At: at, Span: span})}
	for i := range events {
		events[i].ID = lastID + 2 + int32(i)
		entries = append(entries, history.Append(nil, &events[i]))
	}
	return entries
}
