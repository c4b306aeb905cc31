package engine

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/store"
)

// find gets the instance: from the cache, from its start, or from its record.
//
// Whoever writes the record appends to the log in the same commit. So what is in the
// cache is true if the log is the same one, and as long.
func (t *turn) find(messages []message) error {
	in := t.e.cache.take(t.claim.Key)
	if in != nil && in.tag == t.claim.LogTag && in.length == t.claim.LogLength {
		t.in = in
		return nil
	}
	if in != nil {
		in.close()
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

// startInfo returns what the record of an instance has that begins with this claim:
// its start brings it along. Nobody has written the record since if nothing was
// appended since.
func (t *turn) startInfo(messages []message) *Info {
	for _, m := range messages {
		if m.kind != bodyStart || m.info == nil {
			continue
		}
		m.info.Ref = refOf(t.claim.Key)
		if m.run == m.info.run && m.info.offset == t.claim.LogLength && m.info.Route() == t.claim.Route {
			return m.info
		}
	}
	return nil
}

// load reads the execution's history.
func (t *turn) load() error {
	in := t.in
	if in.loaded {
		return nil
	}
	in.ledger = ledger{}
	if in.length < 0 || in.length > in.info.offset {
		for entry, err := range store.Entries(t.ctx, t.e.store, t.claim.Key, in.info.offset) {
			if err != nil {
				return err
			}
			e, err := history.Parse(entry)
			if err != nil {
				return stallf("undecodable history: event %d: %v", len(t.events)+1, err)
			}
			if in.length >= 0 && len(t.events) == in.length-in.info.offset {
				break // somebody else has appended, and this turn has lost its claim
			}
			t.events = append(t.events, e)
			in.ledger.note(&e)
		}
	}
	in.loaded = true
	if in.length < 0 {
		in.length = in.info.offset + len(t.events)
	}
	return nil
}

// loadAnyhow reads the history. If it cannot be read, it is at least known how long it
// is: what it waits for finds, when it comes, that the instance has ended.
func (t *turn) loadAnyhow() error {
	err := t.load()
	if _, bad := errors.AsType[*stallError](err); !bad {
		return err
	}
	if t.in.length < 0 {
		page, err := t.e.store.ReadLog(t.ctx, t.claim.Key, t.in.info.offset)
		if err != nil {
			return err
		}
		t.in.length = page.Length
	}
	t.in.ledger = ledger{lastID: int32(t.in.length - t.in.info.offset)}
	t.in.loaded = true
	return nil
}

// measure finds out how long the history is, without reading it.
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

// execute returns the code, at where history ends.
func (t *turn) execute() (Execution, error) {
	in := t.in
	if in.exec != nil {
		return in.exec, nil
	}
	events := t.events
	if in.info.partial {
		events, t.broken = splitLast(events)
	}
	if len(events) > 0 {
		t.e.count.Replays.Add(1)
		t.e.meters.replays.Add(t.ctx, 1)
	}
	t.events = nil
	exec, err := t.e.cfg.Executor.Load(t.ctx, in.info.Ref, in.info.Name, in.info.Version)
	if err == nil {
		in.exec = exec
		t.e.keeper.watch(&t.hold, exec)
		err = exec.Replay(events)
		t.e.keeper.watch(&t.hold, nil)
	}
	switch {
	case t.owner.Load():
		return nil, errAbandoned
	case err == nil:
		return exec, nil
	case errors.Is(err, ErrUnavailable), t.ctx.Err() != nil:
		return nil, err
	default:
		return nil, stallOf(err)
	}
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
			return later(m.PutAt, timer.At)
		}
		if e.Kind == history.ActivityFailed { // the end of an activity's time, if it has a time
			return later(m.PutAt, e.At)
		}
	}
	return m.PutAt
}
