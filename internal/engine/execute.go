package engine

import (
	"context"
	"errors"
	"slices"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/replay"
)

// work runs the code with the messages, and builds the transaction from the events that it
// returns.
//
// Limits are checked before the code runs, on the history as it is: an instance that is over a
// limit stalls with its messages untouched, so that it continues when the limit is raised. A request
// to terminate that was handed over by the control queue discards what the code would do: it
// could start activities whose results nobody reads.
func (t *turn) work(messages []message) error {
	if err := t.load(); err != nil {
		return err
	}
	t.begun = begun{run: t.in.info.run, lastID: t.in.ledger.lastID, now: t.in.ledger.now, partial: t.in.info.partial, build: t.in.info.Build}
	t.beginSpan() // before anybody can stall the instance because its code does not come back
	sortByTime(messages, &t.in.ledger)
	if n := int(t.in.ledger.lastID); n >= t.e.cfg.MaxHistory {
		return stallf("limit: its history has %d events, at most %d are allowed; continue as new before that", n, t.e.cfg.MaxHistory)
	}
	if n := t.in.ledger.bytes; n >= int64(t.e.cfg.MaxHistoryBytes) {
		return stallf("limit: its history has %d bytes, at most %d are allowed; continue as new before that", n, t.e.cfg.MaxHistoryBytes)
	}
	if t.in.info.partial {
		if err := t.continueBroken(); err != nil {
			return err
		}
	}
	for i, m := range messages {
		err := t.take(m)
		if errors.Is(err, errNotNow) {
			t.leaveForLater(messages[i:])
			return nil
		}
		if err != nil {
			return err
		}
	}
	if slices.ContainsFunc(t.controls, func(m message) bool { return m.kind == bodyTerminate }) {
		t.incoming, t.origins, t.wake = nil, nil, false // the code has nothing to do any more
	}
	if err := t.flush(); err != nil {
		return err
	}
	return t.applyControls()
}

// errNotNow is returned by take for a message that belongs to a later turn, or to none.
var errNotNow = errors.New("abide: not in this turn")

// leaveForLater disposes of messages behind the end of the execution: the next execution, if there
// is one, receives them; otherwise they are dropped and counted as stale.
func (t *turn) leaveForLater(messages []message) {
	if t.in.info.Status.Ended() {
		t.lateMessages += len(messages)
		return
	}
	t.keepAll(messages)
}

// keepAll leaves messages in the queue, to be delivered again. That delivery does not count as an
// attempt: info.forgiven remembers how many were.
func (t *turn) keepAll(messages []message) {
	info := &t.in.info
	for _, m := range messages {
		t.keep = append(t.keep, m.ID)
		if m.Attempt > max(info.forgiven, 1) {
			info.forgiven, t.changed = m.Attempt, true
		}
	}
}

// continueBroken runs the code from within the turn at which the history of a fork, or of an instance that
// was rewound, ends.
func (t *turn) continueBroken() error {
	exec, err := t.execute()
	if err != nil {
		return err
	}
	t.in.info.partial, t.changed, t.forked = false, true, true
	t.starts = t.in.info.offset == 0 // the history of one that was rewound is behind its old one
	in := 0
	for in < len(t.broken) && t.broken[in].Kind.Incoming() {
		in++
	}
	return t.runWatched(exec, func(live replay.Live) ([]history.Event, error) {
		if n := len(t.broken); in == n && n > 0 && !t.broken[n-1].Kind.Quiet() { // the code has not begun it
			return exec.Turn(live, t.broken)
		}
		return exec.ContinueTurn(live, t.broken[:in], t.broken[in:])
	})
}

// flush runs the code with the events that were taken, behind one TurnStarted.
//
// TurnStarted carries all that the code can observe besides its events, so that a replay observes
// the same: the time, which is the store's and never earlier than that of the turn before, and the
// size of the history as the code may ask for it.
func (t *turn) flush() error {
	if t.in.ledger.ended || (len(t.incoming) == 0 && !t.wake) {
		return nil
	}
	exec, err := t.execute()
	if err != nil {
		return err
	}
	incoming := make([]history.Event, 0, len(t.incoming)+1)
	size := t.size(exec)
	incoming = append(incoming, history.Event{
		Kind: history.TurnStarted, At: base.Later(t.claim.Now, t.in.ledger.now), Span: t.spanID(),
		HistoryEvents: int32(size.Events), HistoryBytes: size.Bytes, Suggested: size.Suggested,
	})
	incoming = append(incoming, t.incoming...)
	if slices.ContainsFunc(t.incoming, isCancelRequest) {
		t.steps.cancel()
	}
	if len(t.origins) > 0 {
		t.flushes = append(t.flushes, flushed{first: t.in.ledger.lastID + 2, origins: t.origins}) // behind TurnStarted
	}
	t.incoming, t.origins, t.wake = nil, nil, false
	for i := range incoming {
		incoming[i].ID = t.in.ledger.lastID + 1
		t.append(&incoming[i])
	}
	return t.runWatched(exec, func(live replay.Live) ([]history.Event, error) {
		return exec.Turn(live, incoming)
	})
}

// runWatched runs the code under the watchdog, and decides what each event that it returns causes.
//
// When the code returns, the first thing to check is owner: if the watchdog has it, the instance
// was stalled meanwhile, and t.in may be used by nobody. The next is the context: if the lease was
// lost while a step ran, the step has failed for that reason alone, and its failure must not become
// history.
func (t *turn) runWatched(exec Execution, run func(replay.Live) ([]history.Event, error)) error {
	if !t.unclaimed { // or nobody waits for it for long
		t.e.dog.watch(t, exec)
	}
	did, err := run(replay.Live{Context: t.ctx, Steps: t.stepsContext, Yield: t.yield, Full: t.full(), Left: t.left, NoSteps: t.unclaimed})
	if !t.unclaimed {
		t.e.dog.watch(t, nil)
	}
	if t.owner.Load() {
		return errAbandoned
	}
	if err != nil {
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		if errors.Is(err, replay.ErrStep) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutdated) {
			return err
		}
		return stallOf(err)
	}
	if t.ctx.Err() != nil {
		// A step may have failed for no other reason than this.
		return context.Cause(t.ctx)
	}
	t.produced = append(t.produced, did)
	before := len(t.in.ledger.open)
	for i := range did {
		if want := t.in.ledger.lastID + 1; did[i].ID != want { // an executor may be another program
			return stallf("the executor returned an event with ID %d, expected %d", did[i].ID, want)
		}
		if err := t.decide(&did[i]); err != nil {
			return err
		}
	}
	n := len(t.in.ledger.open)
	if n > t.e.cfg.MaxOpen {
		return stallf("limit: it waits for %d activities, timers and children, at most %d are allowed", n, t.e.cfg.MaxOpen)
	}
	if n >= WarnOpen && before < WarnOpen {
		t.e.log.Warn("instance has very many open operations", t.about(), "open", n)
	}
	return nil
}

// yield reports whether the turn should end here, so that the results of its steps become durable:
// after StepCommitInterval, or when the instance is to be cancelled. A step that has run and is not
// committed runs again after a crash. A commit for each step costs a sync each; one for all steps of
// a turn risks all of them. The interval bounds what is risked by time.
func (t *turn) yield() bool {
	return t.e.clock.Now().Sub(t.started) >= t.e.cfg.StepCommitInterval || t.steps.cancelled()
}

// full returns a function that reports whether the code has done as much as one commit should
// hold. It only estimates ([replay.Weigh]), since the exact size is known after the events are encoded.
// turnLimits leaves room below the limits of the store for what is not estimated.
func (t *turn) full() func(produced []history.Event) bool {
	key, n := len(t.claim.Key.Tenant)+len(t.claim.Key.Name), 0
	bytes, ops := turnLimits(t.e.limits)
	return func(produced []history.Event) bool {
		for ; n < len(produced); n++ {
			size, things := replay.Weigh(&produced[n], key)
			t.bytes += size
			t.ops += things
		}
		return t.bytes >= bytes || t.ops >= ops
	}
}

// left returns how much the turn may still do: what yield and full decide by, for code elsewhere.
func (t *turn) left() replay.Left {
	bytes, ops := turnLimits(t.e.limits)
	return replay.Left{
		Steps: t.e.cfg.StepCommitInterval - t.e.clock.Now().Sub(t.started), Cancelled: t.steps.cancelled(),
		Bytes: bytes - t.bytes, Operations: ops - t.ops,
	}
}

// size returns the size of the history that the code is given in this turn. A rebase returns the
// size of the first attempt, because the code has already seen it.
func (t *turn) size(exec Execution) replay.Size {
	book, cfg := &t.in.ledger, &t.e.cfg
	size := replay.Size{
		Events: int(book.lastID), Bytes: book.bytes,
		Suggested: int(book.lastID) >= min(WarnHistory, cfg.MaxHistory/2) ||
			book.bytes >= int64(min(WarnHistoryBytes, cfg.MaxHistoryBytes/2)),
	}
	if x, again := exec.(*recorded); again && len(x.sizes) > 0 {
		size, x.sizes = x.sizes[0], x.sizes[1:]
	}
	t.sizes = append(t.sizes, size)
	return size
}

// append adds an event to the entries of the commit and to the ledger. It warns once when the
// history passes WarnHistory events or WarnHistoryBytes bytes.
func (t *turn) append(e *history.Event) {
	book := &t.in.ledger
	entry := encodeEvent(e)
	t.entries = append(t.entries, entry)
	book.note(e)
	before := book.bytes
	book.bytes += int64(len(entry))
	if e.ID == WarnHistory || (before < WarnHistoryBytes && book.bytes >= WarnHistoryBytes) {
		t.long = true
		t.e.log.Warn("history grows long, continue as new", t.about(), "events", e.ID, "bytes", book.bytes)
	}
}
