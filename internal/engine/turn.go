package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// turn is a claim on an instance, and what is made of it.
type turn struct {
	e     *Engine
	claim *store.Claim
	in    *instance
	hold  *hold
	ctx   context.Context //nolint:containedctx // of what the turn does; ends when its lease is lost
	owner atomic.Bool     // somebody has decided what becomes of the claim

	// before is where the turn was before its code ran.
	before struct {
		info Info
		tx   store.Tx
		rest []string // messages that the code was to get
	}

	tx       store.Tx
	keep     []string // messages that are not consumed
	entries  [][]byte // for the log
	incoming []history.Event
	broken   []history.Event // of a turn that history breaks off
	events   []history.Event // of the log, until the code has seen them
	wake     bool            // the code has something to do although nothing has reached it
	changed  bool            // the record is to be put
	fresh    bool            // messages are put again
	expired  bool            // the instance is to be deleted
	started  time.Time       // by the clock of this process
	children []*childStart
	after    []func() // to be done when it is committed
}

// message is a message and what it says.
type message struct {
	*store.Message
	body
}

// turn works on a claim of an instance.
func (e *Engine) turn(c *store.Claim) {
	ctx, cancel := context.WithCancelCause(e.working)
	t := &turn{e: e, claim: c, ctx: ctx, started: e.clock.Now()}
	t.hold = &hold{lease: c.Lease(), lost: func() { cancel(ErrLost) }, blocked: t.blocked}
	e.keeper.add(t.hold)
	err := t.run()
	e.keeper.remove(t.hold)
	cancel(nil)
	switch {
	case t.in != nil && err == nil && t.in.exec != nil:
		e.cache.put(c.Key, t.in)
	case t.in != nil:
		t.in.close()
	}
	switch {
	case err == nil:
		e.count.Turns.Add(1)
	case expected(err), errors.Is(err, errAbandoned):
		e.count.Lost.Add(1)
		e.log.Debug("a turn was given up", "instance", refOf(c.Key), "error", err)
	default:
		e.giveBack(c, err)
	}
}

// errAbandoned is the error of a turn whose code came back too late.
var errAbandoned = errors.New("engine: the turn was given up")

// giveBack releases a claim that could not be worked on through no fault of its own.
func (e *Engine) giveBack(c *store.Claim, err error) {
	after := time.Second
	if e.working.Err() != nil {
		after = 0
	} else {
		e.log.Error("cannot work on a claim, it is given back", "key", c.Key, "error", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Lease)
	defer cancel()
	if err := e.store.Release(ctx, store.Release{Lease: c.Lease(), After: after, Uncounted: true}); err != nil && !expected(err) {
		e.log.Error("cannot give a claim back, it ends by itself", "key", c.Key, "error", err)
	}
}

// run does what is to be done about the claim, and commits it. An error means that
// nothing was committed.
func (t *turn) run() error {
	messages := t.decode()
	if err := t.find(messages); err != nil {
		return err
	}
	if t.in == nil {
		return t.orphaned(messages)
	}
	rest, err := t.control(messages)
	if err != nil {
		return err
	}
	info := &t.in.info
	t.before.info, t.before.tx = *info, t.tx
	for _, m := range rest {
		t.before.rest = append(t.before.rest, m.ID)
	}
	switch {
	case t.expired:
		return t.commit()
	case info.Status.Ended():
		t.e.count.Stale.Add(int64(len(rest)))
	case t.fresh: // they are put again
	case info.Status.parked(), t.claim.Route != info.Route():
		t.keepAll(rest)
	case t.claim.Attempt() > t.e.cfg.TurnAttempts:
		return t.stall(fmt.Sprintf("poison: its messages were delivered %d times and no turn came to its end", t.claim.Attempt()))
	default:
		var bad *stallError
		if err := t.work(rest); errors.As(err, &bad) {
			return t.stall(bad.reason)
		} else if err != nil {
			return err
		}
	}
	t.route()
	err = t.commit()
	if errors.Is(err, store.ErrInvalid) {
		return t.stall(fmt.Sprintf("the turn cannot be committed: %v", err))
	}
	return err
}

// decode reads the messages. Those that cannot be read go to quarantine.
func (t *turn) decode() []message {
	messages := make([]message, 0, len(t.claim.Messages))
	for i := range t.claim.Messages {
		m := &t.claim.Messages[i]
		b, err := decodeBody(m.Body)
		if err != nil {
			t.e.log.Error("a message cannot be read and goes to quarantine", "message", m.Ref(), "error", err)
			t.tx.PutRecords = append(t.tx.PutRecords, store.Quarantine(*m, t.claim.Route, ReasonUndecodable, t.claim.Now))
			continue
		}
		messages = append(messages, message{m, b})
	}
	return messages
}

// Reasons for which the engine puts messages into quarantine, besides those of the
// store.
const (
	ReasonUndecodable = "undecodable" // its body cannot be read
	ReasonNoInstance  = "no-instance" // there is no record of the instance
)

// orphaned puts the messages of an instance that has no record into quarantine: that
// must not be, and somebody should see it.
func (t *turn) orphaned(messages []message) error {
	for _, m := range messages {
		if m.controls() {
			continue // what it was about is no more, which is what it wanted or does not matter
		}
		t.tx.PutRecords = append(t.tx.PutRecords, store.Quarantine(*m.Message, t.claim.Route, ReasonNoInstance, t.claim.Now))
	}
	if n := len(t.tx.PutRecords); n > 0 {
		t.e.log.Error("messages of an instance that has no record go to quarantine", "instance", refOf(t.claim.Key), "messages", n)
	}
	t.tx.Finish = []store.Finish{{Lease: t.claim.Lease()}}
	return t.e.store.Commit(t.ctx, &t.tx)
}

// find gets the instance: from the cache, if what is there is the same execution at
// the same length, or from its record. The record is always read if somebody else may
// have written it since: for messages that control the instance.
func (t *turn) find(messages []message) error {
	in := t.e.cache.take(t.claim.Key)
	if in != nil && in.length == t.claim.LogLength && t.claim.Route == in.info.Route() {
		for _, m := range messages {
			if m.run == in.info.run {
				t.in = in
				return nil
			}
		}
	}
	if info := t.startInfo(messages); info != nil {
		if in != nil {
			in.close()
		}
		t.in = &instance{info: *info, length: t.claim.LogLength}
		return nil
	}
	r, err := t.e.store.Get(t.ctx, refOf(t.claim.Key).record())
	if errors.Is(err, store.ErrNotFound) {
		if in != nil {
			in.close()
		}
		return nil
	}
	var info Info
	if err == nil {
		info, err = infoOf(r)
	}
	if err != nil {
		if in != nil {
			in.close()
		}
		return err
	}
	if in != nil && in.length == t.claim.LogLength && in.info.run == info.run {
		in.info = info
		t.in = in
		return nil
	}
	if in != nil {
		in.close()
	}
	t.in = &instance{info: info, length: t.claim.LogLength}
	return nil
}

// startInfo returns what the record of an instance has that begins with this claim:
// its start brings it along. Nobody can have changed the record since, or the route
// would be another one.
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

// stallError says that an instance cannot go on until somebody has fixed something.
type stallError struct{ reason string }

func (e *stallError) Error() string { return e.reason }

func stallf(format string, args ...any) error {
	return &stallError{reason: fmt.Sprintf(format, args...)}
}

// load reads the execution's history.
func (t *turn) load() error {
	in := t.in
	if in.loaded {
		return nil
	}
	in.ledger = ledger{}
	if in.length > in.info.offset {
		for entry, err := range store.Entries(t.ctx, t.e.store, t.claim.Key, in.info.offset) {
			if err != nil {
				return err
			}
			e, err := history.Parse(entry)
			if err != nil {
				return stallf("undecodable history: event %d: %v", len(t.events)+1, err)
			}
			if len(t.events) == in.length-in.info.offset {
				break // somebody else has appended, and this turn has lost its claim
			}
			t.events = append(t.events, e)
			in.ledger.note(&e)
		}
	}
	in.loaded = true
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
	}
	t.events = nil
	exec, err := t.e.cfg.Executor.Load(t.ctx, in.info.Ref, in.info.Name, in.info.Version, events)
	if err != nil {
		if errors.Is(err, ErrUnavailable) || t.ctx.Err() != nil {
			return nil, err
		}
		return nil, stallOf(err)
	}
	in.exec = exec
	return exec, nil
}

// splitLast returns the whole turns of a history, and the last one, which is broken
// off.
func splitLast(events []history.Event) (whole, last []history.Event) {
	for i := len(events) - 1; i >= 0; i-- {
		if events[i].Kind == history.TurnStarted {
			return events[:i:i], events[i:]
		}
	}
	return events, nil
}

// work gives the messages to the code, and takes down what it does.
func (t *turn) work(messages []message) error {
	if err := t.load(); err != nil {
		return err
	}
	if n := int(t.in.ledger.lastID); n >= t.e.cfg.MaxHistory {
		return stallf("limit: its history has %d events, at most %d are allowed; continue as new before that", n, t.e.cfg.MaxHistory)
	}
	if n := len(t.in.ledger.open); n >= t.e.cfg.MaxOpen {
		return stallf("limit: it waits for %d activities, timers and children, fewer than %d are allowed", n, t.e.cfg.MaxOpen)
	}
	if t.in.info.partial {
		if err := t.goOn(); err != nil {
			return err
		}
	}
	for i, m := range messages {
		if t.in.ledger.ended {
			t.leave(messages[i:])
			return nil
		}
		if err := t.take(m); err != nil {
			return err
		}
	}
	return t.flush()
}

// leave is what becomes of messages that come after the end. The next execution, if
// there is one, gets them.
func (t *turn) leave(messages []message) {
	if t.in.info.Status.Ended() {
		t.e.count.Stale.Add(int64(len(messages)))
		return
	}
	t.keepAll(messages)
}

func (t *turn) keepAll(messages []message) {
	for _, m := range messages {
		t.keep = append(t.keep, m.ID)
	}
}

// goOn takes up the turn that history breaks off.
func (t *turn) goOn() error {
	exec, err := t.execute()
	if err != nil {
		return err
	}
	t.in.info.partial, t.changed = false, true
	in := 0
	for in < len(t.broken) && t.broken[in].Kind.Incoming() {
		in++
	}
	return t.watched(exec, func(live replay.Live) ([]history.Event, error) {
		return exec.GoOn(live, t.broken[:in], t.broken[in:])
	})
}

// flush runs the code with what has reached it.
func (t *turn) flush() error {
	if t.in.ledger.ended || (len(t.incoming) == 0 && !t.wake) {
		return nil
	}
	exec, err := t.execute()
	if err != nil {
		return err
	}
	incoming := make([]history.Event, 0, len(t.incoming)+1)
	incoming = append(incoming, history.Event{Kind: history.TurnStarted, At: later(t.claim.Now, t.in.ledger.now)})
	incoming = append(incoming, t.incoming...)
	t.incoming, t.wake = nil, false
	for i := range incoming {
		incoming[i].ID = t.in.ledger.lastID + 1
		t.append(&incoming[i])
	}
	return t.watched(exec, func(live replay.Live) ([]history.Event, error) {
		return exec.Turn(live, incoming)
	})
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// watched runs the code, under the eye of the keeper, and takes down what it did.
func (t *turn) watched(exec Execution, run func(replay.Live) ([]history.Event, error)) error {
	t.e.keeper.watch(t.hold, exec)
	did, err := run(replay.Live{Context: t.ctx, Yield: t.yield})
	t.e.keeper.watch(t.hold, nil)
	if t.owner.Load() {
		return errAbandoned
	}
	if err != nil {
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		return stallOf(err)
	}
	if t.ctx.Err() != nil {
		// A step may have failed for no other reason than this.
		return context.Cause(t.ctx)
	}
	for i := range did {
		if err := t.decide(&did[i]); err != nil {
			return err
		}
	}
	return nil
}

// yield reports whether what steps have done should be made durable now.
func (t *turn) yield() bool {
	return t.e.clock.Now().Sub(t.started) >= t.e.cfg.StepGroup
}

// append notes an event for the log.
func (t *turn) append(e *history.Event) {
	t.in.ledger.note(e)
	t.entries = append(t.entries, history.Append(nil, e))
	if e.ID == WarnHistory {
		t.e.log.Warn("a history grows long; continue as new", "instance", t.in.info.Ref, "orchestration", t.in.info.Route(), "events", e.ID)
	}
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
	info, tx := t.before.info, t.before.tx
	info.Before, info.Status, info.Reason = info.Status, Stalled, reason
	tx.Finish = []store.Finish{{Lease: t.claim.Lease(), Keep: t.before.rest}}
	tx.Put = append(slices.Clip(tx.Put), parkedMessage(t.claim.Key))
	tx.PutRecords = append(slices.Clip(tx.PutRecords), info.putRecord(store.AnyVersion))
	if err := t.e.store.Commit(t.ctx, &tx); err != nil {
		return err
	}
	t.e.count.Stalls.Add(1)
	t.e.log.Error("an instance has stalled", "instance", info.Ref, "orchestration", info.Route(), "reason", reason)
	return nil
}
