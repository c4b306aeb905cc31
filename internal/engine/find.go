package engine

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// find gets the instance: from the cache, from its start message, or from its record.
//
// A commit that writes the record also appends to the log. So a cached instance is current if
// the log is the same one (the tag) and as long as it was. The claim brings both along: a turn of a
// cached instance reads nothing. The tag is needed because an instance may be deleted and started
// again under the same ID, with a log that happens to be as long.
//
// A first turn reads nothing either: the message that starts an instance carries its record, and that
// is current if nothing was appended since. An instance that has neither costs one read of the record,
// and one of the log.
func (t *turn) find(messages []message) error {
	in := t.e.cache.take(t.ctx, t.claim.Key)
	if in != nil && in.tag == t.claim.LogTag && in.length == t.claim.LogLength {
		t.in = in
		return nil
	}
	if in != nil {
		t.e.closers.end(in)
	}
	info := t.startInfo(messages)
	if info == nil {
		read, err := t.e.Client.Get(t.ctx, refOf(t.claim.Key))
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		info = &read
	}
	t.in = &instance{info: *info, length: t.claim.LogLength, tag: t.claim.LogTag}
	if t.in.length == 0 {
		t.in.tag = info.run // with which this turn begins the log
	}
	return nil
}

// startInfo returns the state of an instance whose first turn this is: its start message carries the
// record. It is current if nothing was appended to the log since, because every commit that writes
// the record also appends; so the first turn reads nothing. It returns nil otherwise. The build that the
// instance is to be pinned to may have been chosen since: see pin.
func (t *turn) startInfo(messages []message) *Info {
	for _, m := range messages {
		if m.kind != bodyStart || m.info == nil {
			continue
		}
		m.info.Ref = refOf(t.claim.Key)
		if m.run == m.info.run && m.info.offset == t.claim.LogLength && m.info.Route() == orchestrationOf(t.claim.Route) && !m.info.limited() {
			return m.info
		}
	}
	return nil
}

// load reads the execution's history into the ledger. The code is not replayed here but by execute, when
// there is something for it to do: a turn that only drops stale messages needs no code, and control
// requests work in processes that have none.
func (t *turn) load() error {
	if t.in.loaded {
		return nil
	}
	return t.read(false)
}

// loadReadable reads the history and skips events that cannot be parsed. The operations that
// these scheduled or answered stay unknown; the receiver of a message about one finds that it
// does not apply.
func (t *turn) loadReadable() error {
	err := t.load()
	if _, bad := errors.AsType[*stallError](err); bad {
		return t.read(true)
	}
	return err
}

// keptHistory is about how much of a history stays in memory between load and execute. A
// larger one is read a second time by execute, in parts of that size.
const keptHistory = 4 << 20

// eventOverhead is about what an event takes in memory besides its entry.
const eventOverhead = 256

// read fills the ledger from the log, and keeps the events for execute if they are smaller than
// keptHistory. With skip, entries that cannot be parsed are left out; their IDs count. Without it,
// such an entry stalls the instance, unless a later release has written it.
func (t *turn) read(skip bool) error {
	in := t.in
	in.ledger, t.events = ledger{}, nil
	n, size := 0, 0
	for entry, err := range t.log() {
		if errors.Is(err, store.ErrCorrupt) {
			if !skip {
				return stallf("undecodable history: after event %d: %v", n, err)
			}
			if err := t.measure(); err != nil {
				return err
			}
			n = in.length - in.info.offset
			break
		}
		if err != nil {
			return err
		}
		n++
		e, err := history.Parse(entry)
		switch {
		case err == nil:
			in.ledger.note(&e)
		case skip:
		default:
			return &stallError{cause: laterCause(err), reason: fmt.Sprintf("undecodable history: event %d: %v", n, err)}
		}
		in.ledger.bytes += int64(len(entry))
		if size += len(entry) + eventOverhead; size <= keptHistory {
			t.events = append(t.events, e)
		} else {
			t.events = nil
		}
	}
	in.ledger.lastID = int32(n)
	in.loaded = true
	if in.length < 0 {
		in.length = in.info.offset + n
	}
	return nil
}

// log yields the entries of the execution up to the length that the log had when the instance was
// claimed. Entries behind it were appended by a control request, with which the commit of this turn
// conflicts, or by the next owner of a lost claim. A negative length means that the length is unknown
// (a control request, which has no claim on the instance): then all entries are read.
func (t *turn) log() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		left := t.in.length - t.in.info.offset
		if t.in.length < 0 {
			left = math.MaxInt
		}
		if left <= 0 {
			return
		}
		for entry, err := range store.Entries(t.ctx, t.e.store, t.claim.Key, t.in.info.offset) {
			if !yield(entry, err) || err != nil {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// measure sets the length of the log, if it is unknown, without reading its entries.
func (t *turn) measure() error {
	in := t.in
	if in.length >= 0 {
		return nil
	}
	page, err := t.e.store.ReadLog(t.ctx, t.claim.Key, math.MaxInt32)
	if err != nil {
		return err
	}
	in.length = page.Length
	in.ledger.lastID = int32(in.length - in.info.offset)
	return nil
}

// execute returns the code, at where history ends: that of the cache, or a new one that replays.
//
// The distinction of errors matters. An error of the code (a mismatch, a panic) stalls the instance. An
// error of the store while history is read does not, and neither does an executor that is away or a
// lease that was lost: the turn is tried again. readError tells the two apart, since both come out of
// replay.
func (t *turn) execute() (Execution, error) {
	in := t.in
	if in.exec != nil {
		return in.exec, nil
	}
	exec, err := t.e.cfg.Executor.Load(t.ctx, in.info.Ref, in.info.Name, in.info.Version)
	if err == nil {
		in.exec = exec
		err = t.replay(exec)
	}
	switch {
	case t.owner.Load():
		return nil, errAbandoned
	case err == nil:
		return exec, nil
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrOutdated), t.ctx.Err() != nil:
		return nil, err
	}
	if failed, ok := errors.AsType[*readError](err); ok {
		return nil, failed.err
	}
	return nil, stallOf(err)
}

// readError is an error of the store while history was replayed.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

// replay brings the code to where history ends. A history that is not in memory is read
// and replayed in parts of whole turns.
func (t *turn) replay(exec Execution) error {
	if t.in.ledger.lastID > 0 {
		t.e.count.Replays.Add(1)
		t.e.meters.replays.Add(t.ctx, 1)
	}
	events := t.events
	t.events = nil
	for i := range events {
		t.in.ledger.corrections.Apply(&events[i])
	}
	if len(events) == 0 {
		n, size := 0, 0
		for entry, err := range t.log() {
			if err != nil {
				return &readError{err}
			}
			n++
			e, err := history.Parse(entry)
			if err != nil {
				return fmt.Errorf("undecodable history: event %d: %w", n, err)
			}
			if e.Kind == history.TurnStarted && size > keptHistory {
				if err := t.replayTurns(exec, events); err != nil {
					return err
				}
				events, size = nil, 0 // not reused: the code may hold some
			}
			t.in.ledger.corrections.Apply(&e)
			events = append(events, e)
			size += len(entry) + eventOverhead
		}
	}
	if t.in.info.partial {
		events, t.broken = splitLast(events)
	}
	return t.replayTurns(exec, events)
}

// replayTurns replays whole turns, under the eye of the watchdog.
func (t *turn) replayTurns(exec Execution, events []history.Event) error {
	t.e.dog.watch(t, exec)
	defer t.e.dog.watch(t, nil)
	return exec.Replay(events)
}

// splitLast returns the whole turns of a history, and the last one, which is broken
// off.
func splitLast(events []history.Event) (whole, last []history.Event) {
	for i, e := range slices.Backward(events) {
		if e.Kind == history.TurnStarted {
			return events[:i:i], events[i:]
		}
	}
	return events, nil
}

// sortByTime puts messages into the order in which what they say came to be, the start
// first. They come in the order in which they became visible, which is the same unless
// the instance was suspended or stalled: then it is the order in which they were put.
func sortByTime(messages []message, book *ledger) {
	if len(messages) < 2 {
		return
	}
	slices.SortStableFunc(messages, func(a, b message) int {
		if a, b := a.kind == bodyStart, b.kind == bodyStart; a != b {
			if a {
				return -1
			}
			return 1
		}
		return a.since(book).Compare(b.since(book))
	})
}

// since returns when what the message says came to be: a timer when it was due.
func (m *message) since(book *ledger) time.Time {
	if len(m.events) == 1 {
		e := &m.events[0]
		if timer := book.open[e.Ref]; e.Kind == history.TimerFired && timer != nil {
			return base.Later(m.PutAt, timer.At)
		}
		if e.Kind == history.ActivityFailed { // the end of an activity's time, if it has a time
			return base.Later(m.PutAt, e.At)
		}
	}
	return m.PutAt
}
