package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// A turn appends to the log at the length at which it was claimed. A control request that is committed
// meanwhile appends too, so the commit of the turn has a conflict. If all that was appended are quiet
// turns, of which the code does not learn (the instance was suspended or resumed, its parent has ended),
// what the code did is still right, and a step that has run need not run again. So the turn is rebased:
// built once more at the end of the longer log. It takes its messages anew, and the code's part is what
// the code did the first time, with event IDs that go on from there. The code in memory has the old IDs
// and is not kept.
//
// The alternative, to give the claim back, is always right: the
// messages come again, and the code replays. But then a step that takes longer than the interval between
// two control requests never becomes durable, and it runs again each time.
//
// What must be the same in both attempts is whatever the code was told: the time of the turn, the size
// of its history, and whether an event was awaited. The first attempt records these (did, told, awaits),
// and recorded plays them back. If the second attempt asks for something that was not recorded, the
// messages do not add up to the same turn, and the rebase fails as a conflict.
//
// Not rebased are: a turn of another run, an instance that has ended or stalled meanwhile, and one whose
// history ends within a turn.

// maxRebases is how often a turn is done once more.
const maxRebases = 10

// begun is where a turn began.
type begun struct {
	run     uint64
	lastID  int32     // of the history that the code has seen
	now     time.Time // of its last turn
	partial bool
	build   string
}

// rebase does the turn once more at the end of a log that has grown. It returns an error
// that matches [store.ErrConflict] if something was appended that the code should know of.
func (t *turn) rebase(messages []message, unreadable []store.PutRecord) error {
	old := t.in
	if old.exec == nil || t.begun.partial {
		return fmt.Errorf("abide: the turn has no code to repeat: %w", store.ErrConflict)
	}
	quiet, err := t.appendedQuietly(old.length)
	if err != nil {
		return err
	}
	info, err := t.e.Client.Get(t.ctx, old.info.Ref)
	if err != nil {
		return err
	}
	if info.run != t.begun.run || info.Status.Ended() || info.Status == Stalled || info.partial {
		return fmt.Errorf("abide: %v is %s: %w", info.Ref, info.Status, store.ErrConflict)
	}
	if info.Build == "" {
		info.Build = t.pinned
	}
	if info.Build != t.begun.build {
		return fmt.Errorf("abide: %v was moved to another build: %w", info.Ref, store.ErrConflict)
	}
	if t.rooted {
		info.origin = old.info.origin
	}
	suspended := info.Status == Suspended
	reason := info.Reason
	if suspended { // the turn comes first
		info.Status, info.Before, info.Reason = info.Before, "", ""
	}
	in := &instance{info: info, length: old.length + quiet, tag: old.tag}
	in.exec = &recorded{Execution: old.exec, after: t.begun.lastID, shift: int32(quiet), did: t.produced, sizes: t.sizes, awaits: t.awaits}
	t.reset(in, unreadable)
	t.changed = t.pinned != ""
	now := t.begun.now
	if err := t.load(); err != nil {
		return asConflict(err)
	}
	t.events = nil
	in.ledger.now = now // what the code was told is the time of the turn
	if err := t.work(messages); err != nil {
		return asConflict(err)
	}
	t.putNext()
	t.answerParent()
	if suspended && !in.info.Status.Ended() {
		in.info.Before, in.info.Status, in.info.Reason = in.info.Status, Suspended, reason
		for i := range t.tx.Put { // it stays parked
			if t.tx.Put[i].Key == t.claim.Key {
				t.tx.Put[i].Route = ""
			}
		}
	}
	return nil
}

// asConflict has a turn that cannot be done once more forgotten, and its messages
// delivered again.
func asConflict(err error) error {
	if _, bad := errors.AsType[*stallError](err); bad {
		return fmt.Errorf("%w: %w", err, store.ErrConflict)
	}
	return err
}

// appendedQuietly returns how many events were appended from an index on, if the code need
// not know of any of them.
func (t *turn) appendedQuietly(from int) (int, error) {
	n := 0
	for entry, err := range store.Entries(t.ctx, t.e.store, t.claim.Key, from) {
		if err != nil {
			return 0, err
		}
		e, err := history.Parse(entry)
		if err != nil || (e.Kind != history.TurnStarted && !e.Kind.Quiet()) {
			return 0, fmt.Errorf("abide: the history has gone on: %w", store.ErrConflict)
		}
		n++
	}
	if n == 0 {
		return 0, fmt.Errorf("abide: the record has changed: %w", store.ErrConflict)
	}
	return n, nil
}

// reset forgets what the turn has decided.
func (t *turn) reset(in *instance, unreadable []store.PutRecord) {
	t.owner.Store(false)
	t.in, t.outdated = in, true
	t.draft = draft{tx: store.Tx{PutRecords: slices.Clip(unreadable)}}
	t.fired = t.firedRoom[:0]
}

// recorded is an execution that does what another one did, with later event IDs.
type recorded struct {
	Execution
	after  int32 // events up to this one keep their IDs
	shift  int32
	did    [][]history.Event
	sizes  []replay.Size
	awaits []bool
}

// Turn returns what the code did.
func (x *recorded) Turn(replay.Live, []history.Event) ([]history.Event, error) {
	if len(x.did) == 0 {
		return nil, fmt.Errorf("abide: the turn is not what it was: %w", store.ErrConflict)
	}
	did := slices.Clone(x.did[0])
	x.did = x.did[1:]
	for i := range did {
		did[i].ID += x.shift
		if did[i].Ref > x.after {
			did[i].Ref += x.shift
		}
	}
	return did, nil
}

// Awaits reports whether the code waited for the event.
func (x *recorded) Awaits(string) bool {
	if len(x.awaits) == 0 {
		return false
	}
	awaits := x.awaits[0]
	x.awaits = x.awaits[1:]
	return awaits
}
