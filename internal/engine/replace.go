package engine

import (
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// A start may replace an instance with the same ID. One that has ended, or has no history, is deleted in the
// commit of the start. One that has a history and has not ended is terminated in that commit: its tasks,
// timers and pending messages are deleted, the close policies of its children apply, and its parent gets a
// failure. The log is not deleted but goes on, as that of an instance that continues as new does, with all
// that was before trimmed. Processes may have the old run in their caches, and a fused turn of it appends at
// the length that it knows, with no other guard: a new log could happen to be as long.
//
// What of the old run is under way and not in the commit is dropped as stale later: a turn has a conflict
// with the length of the log, and the outcomes of activities and children name the old run.

// replacement is an instance that a start replaces, nil if there is none.
type replacement struct {
	ref     Ref
	version int64    // of its record
	tx      store.Tx // that drops it
	offset  int      // index in the log of the first event of the new one
	kept    int      // index in the log of the first event that is not trimmed

	run   uint64
	turn  *turn       // of it that this process runs, nil if there is none
	tasks []store.Key // of its open activities
}

// replacedReason is the reason with which a run ends that a start replaces.
const replacedReason = "replaced by a start with the same ID"

// replaces reports whether the start replaces an instance of that status.
func (s *Start) replaces(status Status) bool {
	if s.Replaceable != nil {
		return slices.Contains(s.Replaceable, status)
	}
	return s.IfExists == Replace && status.Ended()
}

// revision returns the version of the record that is replaced, 0 if there is none.
func (r *replacement) revision() int64 {
	if r == nil {
		return 0
	}
	return r.version
}

// startID returns the ID of the message that starts the new instance. That of the start that it replaces
// may be pending, and is deleted by the same commit.
func (r *replacement) startID(run uint64) string {
	if r == nil || r.offset == 0 {
		return idStart
	}
	return idStart + "/" + strconv.FormatUint(run, 36)
}

// replace returns how an instance makes way for a new one.
func (c *Client) replace(ctx context.Context, info *Info) (*replacement, error) {
	r := &replacement{ref: info.Ref, version: info.Revision, run: info.run}
	if c.fuser != nil {
		r.turn = c.fuser.at(info.Ref.key()).e.turns.of(info.Ref.key())
	}
	r.tx.DeleteKeys = []store.Key{info.Ref.control()}
	var book ledger
	var length int
	if !info.Status.Ended() {
		var err error
		if book, length, err = c.readLedger(ctx, info); err != nil {
			return nil, wrap("start", err)
		}
	}
	t := c.dropped(info, book)
	if length == 0 {
		r.tx.DeleteKeys = append(r.tx.DeleteKeys, info.Ref.key())
	} else {
		pending, err := c.store.Pending(ctx, info.Ref.key(), store.MaxPage)
		if err != nil {
			return nil, wrap("start", err)
		}
		for i := range pending {
			t.tx.Delete = append(t.tx.Delete, store.MessageRef{Key: info.Ref.key(), ID: pending[i].ID})
		}
		entries := quietTurn(base.Later(c.clock.Now(), book.now), book.lastID, 0, history.Event{
			Kind: history.ExecutionTerminated, Name: replacedReason, By: actorFrom(ctx),
		})
		t.tx.Trim = append(t.tx.Trim, store.Trim{Key: info.Ref.key(), Before: length})
		t.tx.Append = append(t.tx.Append, store.Append{Key: info.Ref.key(), At: length, Tag: info.run, Entries: entries})
		r.kept, r.offset = length, length+len(entries)
	}
	merge(&r.tx, &t.tx)
	r.tasks = t.cancelled
	return r, nil
}

// dropped returns the turn that ends a run without its code, with that much of its history. A run that has
// ended leaves nothing to drop.
func (c *Client) dropped(info *Info, book ledger) *turn {
	t := &turn{claim: &store.Claim{Key: info.Ref.key()}, in: &instance{info: *info, ledger: book}}
	if info.Status.Ended() {
		return t
	}
	t.dropOpen()
	info.leaveLimits(&t.tx)
	t.ends = true
	t.in.info.Status = Terminated
	t.in.info.Failure = &history.Failure{Type: TypeTerminated, Message: because("terminated", replacedReason), Final: true}
	t.answerParent()
	t.putAnswer()
	return t
}

// readLedger returns the ledger of an instance's execution, and the length of its log. Events that cannot be
// parsed are left out.
func (c *Client) readLedger(ctx context.Context, info *Info) (ledger, int, error) {
	var book ledger
	n := info.offset
	for entry, err := range store.Entries(ctx, c.store, info.Ref.key(), info.offset) {
		if err != nil {
			return book, 0, err
		}
		n++
		if e, err := history.Parse(entry); err == nil {
			book.note(&e)
		}
	}
	if n == info.offset { // its execution has no event yet
		page, err := c.store.ReadLog(ctx, info.Ref.key(), math.MaxInt32)
		if err != nil {
			return book, 0, err
		}
		n = page.Length
	}
	book.lastID = int32(n - info.offset)
	return book, n, nil
}

// forgetReplaced drops from memory what this process has of runs that were replaced: cached instances, and
// activities and steps that run.
func (c *Client) forgetReplaced(ctx context.Context, replaced []*replacement) {
	if c.fuser == nil {
		return
	}
	for _, r := range replaced {
		if r == nil {
			continue
		}
		e := c.fuser.at(r.ref.key()).e
		if r.turn != nil {
			r.turn.stop(ErrLost)
		}
		for _, key := range r.tasks {
			e.keeper.Lose(key)
		}
		in := e.cache.take(ctx, r.ref.key())
		switch {
		case in == nil:
		case in.info.run == r.run:
			e.closers.end(in)
		default: // the new one has begun
			e.cache.put(r.ref.key(), in)
		}
	}
}
