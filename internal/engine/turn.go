package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/replay"
	"github.com/abidehq/abide/store"
)

// turn is a claim on an instance, and the transaction that is made of it. The package comment
// has its stages.
//
// One goroutine, a worker of the claim loop, runs a turn. Three others may touch it:
//
//   - the keeper calls lost when the lease is lost. It only ends ctx and sets an alarm on the job.
//   - the watchdog calls blocked when the code has made no progress for DeadlockTimeout. It may
//     set owner, and then stalls the instance with a turn of its own, while this one is stuck in
//     code. Whatever the code does when it comes back is dropped: see watched and commit.
//   - a control request, or a look for one, ends the context of steps.
//
// All they share with the goroutine of the turn are owner, job, ctx (after beginSpan it is not
// assigned any more), steps and progress, each of which is safe for that. Every other field
// belongs to the goroutine of the turn.
//
// All that rebase drops is in draft: it builds the transaction again, from the same messages, at the
// end of a log that has grown.
type turn struct {
	e     *Engine
	job   *job
	claim *store.Claim
	in    *instance
	ctx   context.Context //nolint:containedctx // of what the turn does; ends when its lease is lost
	stop  context.CancelCauseFunc
	owner atomic.Bool // somebody has decided what becomes of the claim

	draft

	started  time.Time // by the clock of this process
	begun    begun
	flying   bool     // the cache expects the instance
	forked   bool     // it is the first turn of a fork
	outdated bool     // the code has not the event IDs of history, and is not kept
	bytes    int      // that the code has added to the commit, about
	ops      int      // the same in operations
	progress progress // of the code, as the watchdog has seen it
	steps    stepContext

	span   trace.Span // nil if there is no tracer
	traced bool       // it has been begun
	rooted bool       // the instance has no other
}

// draft is one attempt to build the transaction of a turn. A rebase drops it and builds another one.
type draft struct {
	tx       store.Tx
	keep     []string        // messages that are not consumed
	entries  [][]byte        // for the log
	incoming []history.Event // that the code has not seen
	broken   []history.Event // of a turn that history breaks off
	events   []history.Event // of the log, until the code has seen them
	wake     bool            // the code has something to do although nothing has reached it
	changed  bool            // the record is to be put
	children []*childStart
	next     *history.Event // with which the next execution starts
	dropped  map[int32]bool // activities whose tasks were taken back
	long     bool           // the history has passed a length from which on there is a warning
	yielded  bool           // the code waits for what it did to be durable
	asked    []message      // control requests that were handed over

	// What the code did and was told, each time that it ran: a rebase plays it back.
	did    [][]history.Event
	told   []replay.Size // of the size of its history
	awaits []bool        // whether it waited for an event, each time that it was asked

	effects
}

// effects are counted and reported when a turn is committed.
type effects struct {
	begins    bool
	starts    bool // the instance: its code begins, or goes on with the history of another one
	ends      bool
	expires   bool
	cancelled []store.Key // of tasks that were taken back
	fired     []firing    // timers
	firedRoom [2]firing   // for those

	timersSet, timersMoved, timersCancelled int64
}

// firing is a timer that fired. It was due at a time, and late by so much.
type firing struct {
	name string
	at   time.Time
	late time.Duration
}

// committed does what is to be done when the turn is durable.
func (t *turn) committed() {
	e := t.e
	if t.begins {
		e.count.Started.Add(1)
	}
	if t.ends {
		e.count.Ended.Add(1)
	}
	if t.expires {
		e.count.Expired.Add(1)
	}
	if t.long {
		e.meters.long.Add(t.ctx, 1)
	}
	e.meters.committed(t)
	if len(t.fired) > 0 && e.log.Enabled(t.ctx, slog.LevelDebug) {
		for _, f := range t.fired {
			e.log.Debug("timer fired", t.about(), "timer", f.name, "due", f.at, "lateness", f.late)
		}
	}
	t.endSpan()
	for _, key := range t.cancelled {
		e.keeper.Lose(key)
	}
}

// lost is called when the lease is.
func (t *turn) lost() {
	t.stop(ErrLost)
	t.job.shouldEnd()
}

// message is a message and what it says.
type message struct {
	*store.Message
	body
}

// turn works on a claim of an instance, from the claim to its end.
//
// The order of what comes after run matters. The instance goes back into the cache before land
// is called: a turn that was claimed meanwhile waits for land, and must find it there. The claim
// is released after the instance was thrown away: the next turn, in this process, must not find
// an instance whose code has gone on although nothing was committed.
//
// Errors of run, and what becomes of the claim:
//
//   - nil: the commit has finished it.
//   - ErrConflict: the log or the record has changed, and the turn could not be rebased. The claim
//     is released and the messages come again at once: the next turn sees the change.
//   - errLater: a message or an event of a later release. The claim is held for a while and then
//     released, so that a process of that release can have it.
//   - errElsewhere: another build should take the turn. The same.
//   - ErrClaimLost, ErrLost, errAbandoned: the claim is not this turn's any more. There is nothing
//     to release.
//   - ErrCorrupt: the record cannot be read. The release counts as an attempt, so that the messages
//     reach quarantine and do not loop.
//   - others: the store is in trouble, or the executor is away. Nothing is known to be committed. The
//     claim is held for two seconds, so that an outage is not made worse, and then released without
//     counting: the instance is not at fault.
func (e *Engine) turn(j *job) {
	c := j.Claim
	t := &turn{e: e, job: j, claim: c, started: e.clock.Now()}
	t.fired = t.firedRoom[:0]
	t.ctx, t.stop = context.WithCancelCause(e.working)
	e.keeper.Keep(c, t.lost)
	defer t.stop(nil)
	defer t.steps.end()
	defer e.keeper.Drop(c.Lease())
	e.turns.add(t)
	defer e.turns.remove(t)
	err := t.run()
	switch {
	case t.in != nil && err == nil && t.in.exec != nil:
		e.cache.put(c.Key, t.in)
	case t.in != nil:
		t.e.closers.end(t.in)
	}
	if t.flying {
		e.cache.land(c.Key)
	}
	switch {
	case err == nil:
		e.count.Turns.Add(1)
		e.meters.turns.Record(t.ctx, e.clock.Now().Sub(t.started).Seconds())
	case errors.Is(err, store.ErrConflict): // something was asked about the instance meanwhile
		e.lose(queueTurns)
		e.giveBack(c)
	case errors.Is(err, errLater):
		e.giveBackLater(c)
	case errors.Is(err, errElsewhere):
		e.leaveToAnother(t)
	case errors.Is(err, store.ErrClaimLost), errors.Is(err, errAbandoned), errors.Is(err, ErrLost):
		e.lose(queueTurns)
		e.log.Debug("turn abandoned", t.about(), "error", err)
	case errors.Is(err, store.ErrCorrupt):
		e.unreadable(c, t.about(), err)
	default:
		if e.working.Err() == nil {
			if errors.Is(err, ErrUnavailable) {
				e.log.Warn("executor unavailable, claim released", t.about(), "error", err)
			} else { // the store's outage is logged once
				e.log.Debug("turn aborted by store error, claim released", t.about(), "error", err)
			}
			e.pauseHolding(c)
		}
		e.giveBack(c)
	}
}

// pauseHolding waits before a claim is released whose messages must stay in order: were they
// released with a delay, those that arrive meanwhile would come before them.
func (e *Engine) pauseHolding(c *store.Claim) {
	_ = base.Sleep(e.claiming, e.clock, backoff.Jitter(2*time.Second, c.Key.Tenant+"/"+c.Key.Name, c.Attempt()))
}

// unreadable releases a claim on an instance whose record cannot be read. That counts: after
// as many deliveries as an instance survives its messages go to quarantine.
func (e *Engine) unreadable(c *store.Claim, about slog.Attr, why error) {
	if c.Attempt() < e.cfg.TurnAttempts {
		e.log.Warn("instance unreadable, claim released", about, "attempt", c.Attempt(), "error", why)
		e.pauseHolding(c)
		e.releaseAs(store.Release{Lease: c.Lease()})
		return
	}
	e.log.Error("instance unreadable, messages quarantined", about, "messages", len(c.Messages), "error", why)
	tx := store.Tx{Finish: []store.Finish{{Lease: c.Lease()}}}
	for i := range c.Messages {
		q := store.Quarantine(c.Messages[i], c.Route, ReasonUnreadable, c.Now)
		q.Record.Tags[store.TagError] = history.Cut(why.Error())
		tx.PutRecords = append(tx.PutRecords, q)
	}
	if err := e.store.Commit(e.working, &tx); err != nil {
		e.giveBack(c)
	}
}

// errAbandoned is the error of a turn whose code came back too late.
var errAbandoned = errors.New("abide: the turn was given up")

// giveBack releases a claim, at once, as if it had never been made.
func (e *Engine) giveBack(c *store.Claim) { e.release(c, 0) }

// release gives a claim back, to be claimed after a while, as if it had never been made.
func (e *Engine) release(c *store.Claim, after time.Duration) {
	e.releaseAs(store.Release{Lease: c.Lease(), After: after, Uncounted: true})
}

func (e *Engine) releaseAs(r store.Release) {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.LeaseDuration)
	defer cancel()
	if err := e.store.Release(ctx, r); err != nil && !expected(err) {
		e.log.Debug("claim not released, its lease expires", aboutKey(r.Lease.Key, ""), "error", err)
	}
}

// run builds the transaction of the claim and commits it. An error means that nothing was
// committed, or, if it is an error of the store, that it is not known to be.
//
// What is done depends on the state of the instance, which may have changed since it was claimed:
//
//   - ended: late messages are acknowledged, and an expiry deletes the instance.
//   - parked (suspended or stalled): a control request came first. Its messages stay, under the
//     route of parked instances; this claim is given up as a conflict.
//   - another route: the instance continued as another version, and its messages were put under
//     the old route. They are kept, and a message with the new route re-routes the key.
//   - delivered too often: the instance stalls as poison. Deliveries that are known to have been
//     harmless are forgiven (keepAll, resume).
//   - stalled under this build before: the turn is left to the build that resumed it.
//   - otherwise: work.
func (t *turn) run() error {
	messages, err := t.decode()
	if err != nil {
		return err
	}
	unreadable := t.tx.PutRecords
	if err := t.find(messages); err != nil {
		return err
	}
	if t.in == nil {
		return t.orphaned(messages)
	}
	info := &t.in.info
	switch attempts := t.claim.Attempt() - info.forgiven; {
	case info.Status.Ended():
		t.afterEnd(messages)
	case info.Status.parked(): // since it was claimed
		return fmt.Errorf("abide: %v is %s: %w", info.Ref, info.Status, store.ErrConflict)
	case t.claim.Route != info.Route():
		t.keep = messageIDs(messages)
		t.tx.Put = append(t.tx.Put, wakeMessage(info))
	case attempts > t.e.cfg.TurnAttempts:
		return t.stall(&stallError{reason: fmt.Sprintf("poison: its messages were delivered %d times, and no turn came to its end", attempts)})
	case t.stalledHere() && t.leaveTurn():
		return errElsewhere
	default:
		var bad *stallError
		if err := t.work(messages); errors.As(err, &bad) {
			if bad.cause == causeMismatch && !t.stalledHere() && t.otherBuild() && t.leaveTurn() {
				return errElsewhere
			}
			if bad.cause == causeLater && t.e.leaveLater(t.claim, bad) {
				return fmt.Errorf("%w: %w", bad, errLater)
			}
			return t.stall(bad)
		} else if err != nil {
			return err
		}
		t.putNext()
		t.answerParent()
	}
	err = t.commit()
	for i := 0; i < maxRebases && errors.Is(err, store.ErrConflict); i++ {
		if err = t.rebase(messages, unreadable); err == nil {
			err = t.commit()
		}
	}
	if err == nil && t.outdated {
		t.e.closers.end(t.in)
	}
	if errors.Is(err, store.ErrInvalid) {
		return t.stall(&stallError{reason: fmt.Sprintf("the turn cannot be committed: %v", err)})
	}
	return err
}

func messageIDs(messages []message) []string {
	ids := make([]string, len(messages))
	for i := range messages {
		ids[i] = messages[i].ID
	}
	return ids
}

// afterEnd acknowledges what reaches an instance that has ended, and deletes it when its
// time is up.
func (t *turn) afterEnd(messages []message) {
	info := &t.in.info
	for _, m := range messages {
		if m.kind != bodyExpire || m.run != info.run {
			t.stale()
			continue
		}
		t.tx.DeleteKeys = []store.Key{info.Ref.key(), info.Ref.control()}
		t.tx.DeleteRecords = []store.DeleteRecord{{Key: info.Ref.record(), Expect: info.Revision}}
		t.expires = true
	}
}

// decode reads the messages. Those that cannot be read go to quarantine.
func (t *turn) decode() ([]message, error) {
	return decodeAll(t.e, t.claim, &t.tx)
}

// decodeAll reads messages. Those that cannot be read go to quarantine, unless a later
// release has written one: then the error matches errLater, and the claim is to be left to
// a process that knows it.
func decodeAll(e *Engine, c *store.Claim, tx *store.Tx) ([]message, error) {
	messages := make([]message, 0, len(c.Messages))
	for i := range c.Messages {
		m := &c.Messages[i]
		b, err := decodeBody(m.Body)
		if errors.Is(err, errLater) && e.leaveLater(c, err) {
			return nil, err
		}
		if err != nil {
			e.log.Error("message undecodable, quarantined", aboutClaim(c), "message", m.ID, "error", err)
			tx.PutRecords = append(tx.PutRecords, store.Quarantine(*m, c.Route, ReasonUndecodable, c.Now))
			continue
		}
		messages = append(messages, message{m, b})
	}
	return messages, nil
}

// Reasons for which the engine puts messages into quarantine, besides those of the
// store.
const (
	ReasonUndecodable = "undecodable" // its body cannot be read
	ReasonNoInstance  = "no-instance" // there is no record of the instance
	ReasonUnreadable  = "unreadable"  // the record of the instance cannot be read
)

// orphaned puts the messages of an instance that has no record into quarantine: that
// must not be, and somebody should see it.
func (t *turn) orphaned(messages []message) error {
	for _, m := range messages {
		t.tx.PutRecords = append(t.tx.PutRecords, store.Quarantine(*m.Message, t.claim.Route, ReasonNoInstance, t.claim.Now))
	}
	t.e.log.Error("no record of the instance, messages quarantined", t.about(), "messages", len(messages))
	t.tx.Finish = []store.Finish{{Lease: t.claim.Lease()}}
	return t.e.store.Commit(t.ctx, &t.tx)
}

// work gives the messages to the code, and builds the transaction from what it does.
//
// Limits are checked before the code runs, on the history as it is: an instance that is over a
// limit stalls with its messages untouched, so that it goes on when the limit is raised. A request
// to terminate that was handed over by the control queue discards what the code would do: it
// could start activities that nobody wants.
func (t *turn) work(messages []message) error {
	if err := t.load(); err != nil {
		return err
	}
	t.begun = begun{run: t.in.info.run, lastID: t.in.ledger.lastID, now: t.in.ledger.now, partial: t.in.info.partial}
	t.beginSpan() // before anybody can stall the instance because its code does not come back
	sortByTime(messages, &t.in.ledger)
	if n := int(t.in.ledger.lastID); n >= t.e.cfg.MaxHistory {
		return stallf("limit: its history has %d events, at most %d are allowed; continue as new before that", n, t.e.cfg.MaxHistory)
	}
	if n := t.in.ledger.bytes; n >= int64(t.e.cfg.MaxHistoryBytes) {
		return stallf("limit: its history has %d bytes, at most %d are allowed; continue as new before that", n, t.e.cfg.MaxHistoryBytes)
	}
	if t.in.info.partial {
		if err := t.goOn(); err != nil {
			return err
		}
	}
	for i, m := range messages {
		err := t.take(m)
		if errors.Is(err, errNotNow) {
			t.leave(messages[i:])
			return nil
		}
		if err != nil {
			return err
		}
	}
	if slices.ContainsFunc(t.asked, func(m message) bool { return m.kind == bodyTerminate }) {
		t.incoming, t.wake = nil, false // the code has nothing to do any more
	}
	if err := t.flush(); err != nil {
		return err
	}
	return t.applyAsked()
}

// errNotNow says that a message is for a later turn, or for none.
var errNotNow = errors.New("abide: not in this turn")

// leave is what becomes of messages that come after the end. The next execution, if
// there is one, gets them.
func (t *turn) leave(messages []message) {
	if t.in.info.Status.Ended() {
		t.e.stale(len(messages))
		return
	}
	t.keepAll(messages)
}

// keepAll has messages delivered once more. That does not count: they have done no
// harm.
func (t *turn) keepAll(messages []message) {
	info := &t.in.info
	for _, m := range messages {
		t.keep = append(t.keep, m.ID)
		if m.Attempt > max(info.forgiven, 1) {
			info.forgiven, t.changed = m.Attempt, true
		}
	}
}

// goOn takes up the turn that history breaks off.
func (t *turn) goOn() error {
	exec, err := t.execute()
	if err != nil {
		return err
	}
	t.in.info.partial, t.changed, t.starts, t.forked = false, true, true, true
	in := 0
	for in < len(t.broken) && t.broken[in].Kind.Incoming() {
		in++
	}
	return t.watched(exec, func(live replay.Live) ([]history.Event, error) {
		return exec.GoOn(live, t.broken[:in], t.broken[in:])
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
	t.incoming, t.wake = nil, false
	for i := range incoming {
		incoming[i].ID = t.in.ledger.lastID + 1
		t.append(&incoming[i])
	}
	return t.watched(exec, func(live replay.Live) ([]history.Event, error) {
		return exec.Turn(live, incoming)
	})
}

// watched runs the code under the watchdog, and decides what each event that it returns causes.
//
// When the code returns, the first thing to check is owner: if the watchdog has it, the instance
// was stalled meanwhile, and t.in may be used by nobody. The next is the context: if the lease was
// lost while a step ran, the step has failed for that reason alone, and its failure must not become
// history.
func (t *turn) watched(exec Execution, run func(replay.Live) ([]history.Event, error)) error {
	t.e.dog.watch(t, exec)
	did, err := run(replay.Live{Context: t.ctx, Steps: t.stepsContext, Yield: t.yield, Full: t.fills()})
	t.e.dog.watch(t, nil)
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
	t.did = append(t.did, did)
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

// fills returns a function that reports whether the code has done as much as one commit should
// hold. It only estimates, since the exact size is known after the events are encoded: an event is
// in the log and most often in a message too, with the key of the instance. turnBytes and turnOps
// leave room below the limits of the store for what is not estimated.
func (t *turn) fills() func(produced []history.Event) bool {
	key, n := len(t.claim.Key.Tenant)+len(t.claim.Key.Name), 0
	return func(produced []history.Event) bool {
		for ; n < len(produced); n++ { // in the log, and most often in a message too
			e := &produced[n]
			size := 256 + key + len(e.Name) + len(e.Target) + len(e.Data)
			if e.Failure != nil {
				size += len(e.Failure.Message) + len(e.Failure.Details)
			}
			t.bytes += 2 * size
			t.ops += 3
		}
		return t.bytes >= turnBytes || t.ops >= turnOps
	}
}

// size returns what the code is told about the size of its history. When a turn is done
// once more it is what the code was told the first time.
func (t *turn) size(exec Execution) replay.Size {
	book, cfg := &t.in.ledger, &t.e.cfg
	size := replay.Size{
		Events: int(book.lastID), Bytes: book.bytes,
		Suggested: int(book.lastID) >= min(WarnHistory, cfg.MaxHistory/2) ||
			book.bytes >= int64(min(WarnHistoryBytes, cfg.MaxHistoryBytes/2)),
	}
	if x, again := exec.(*recorded); again && len(x.told) > 0 {
		size, x.told = x.told[0], x.told[1:]
	}
	t.told = append(t.told, size)
	return size
}

// append notes an event for the log.
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
