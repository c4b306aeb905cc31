package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/history"
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
//     code. Whatever the code does when it comes back is dropped: see runWatched and commit.
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

	// ctx is the context of everything that the turn does. It ends when its lease is lost.
	ctx  context.Context //nolint:containedctx // the turn is the lifetime of the context
	stop context.CancelCauseFunc

	// owner is set by the one that settles the claim: the goroutine of the turn while it commits, or
	// the watchdog when it stalls the instance. Only the first to set it may.
	owner atomic.Bool

	draft

	// started is the beginning of the turn by the clock of this process. Latency and
	// StepCommitInterval are measured from it; times in history are the store's.
	started time.Time

	// begun is the state of the instance before the turn, to which a rebase goes back.
	begun begun

	// inFlight is true from the call of cache.expectReturn to that of cache.returned: another turn of
	// the same instance waits for this one to put it back, and does not read the history.
	inFlight bool

	// unclaimed is true for a fused turn, which has no claim: see fuse.go. fused has the deliveries
	// that it takes, fresh is true if it starts its instance, and newID if no instance can have its ID.
	unclaimed bool
	fused     []*delivery
	fresh     bool
	newID     bool

	// pinned is the build that this turn, the first one of its execution, pins the instance to.
	pinned string

	// forked is true for the first turn of a fork, or of an instance that was rewound, whose history ends
	// within a turn.
	forked bool

	// outdated is true if the code has other event IDs than history, because events that it does not
	// see were appended to the log. It is then closed instead of cached.
	outdated bool

	// bytes and ops estimate what the code has added to the commit, see full.
	bytes int
	ops   int

	// progress is the progress of the code at the last look of the watchdog.
	progress progress

	steps stepContext

	span   trace.Span // nil without a tracer
	traced bool       // span has been started
	rooted bool       // span is the root of the instance's trace
}

// draft is one attempt to build the transaction of a turn. A rebase drops it and builds another one.
type draft struct {
	tx store.Tx

	// keep has the IDs of messages that the commit does not consume. They are delivered again.
	keep []string

	// entries are the encoded events that the commit appends to the log.
	entries [][]byte

	// incoming are the events that the code has not seen yet; flush runs it with them.
	incoming []history.Event

	// delivering is the ID of the message that is being taken, and origins has that of the message
	// of each incoming event. flushes keeps them for each run of the code, so that a payload that
	// does not fit is known by its message: see messageOf.
	delivering string
	origins    []string
	flushes    []flushed

	// broken are the events of the turn within which the history of a fork ends.
	broken []history.Event

	// events are those that were read from the log, until the code has been replayed with them.
	events []history.Event

	// wake has the code run without an incoming event, because it yielded in the turn before.
	wake bool

	// changed is true if the record of the instance must be put.
	changed bool

	children []*childStart

	// toParent is the result of the instance for its parent, until it is put or fused.
	toParent *parentAnswer

	// next is the event with which the next execution starts, after a continue-as-new.
	next *history.Event

	// recursive is true if the instance is terminated together with its children.
	recursive bool

	// dropped has the activities whose tasks this turn deletes, by the ID of their event.
	dropped map[int32]bool

	// long is true if the history has passed a length that is warned about, once.
	long bool

	// yielded is true if the code waits for its events to be durable, see yield.
	yielded bool

	// controls are the requests that the control queue has handed off to this turn.
	controls []message

	// produced, sizes and awaits record each run of the code: the events that it returned, the
	// size of its history that it was given, and whether it waited for an event. A rebase plays
	// them back instead of running the code again, whose steps must not run twice.
	produced [][]history.Event
	sizes    []replay.Size
	awaits   []bool

	effects
}

// flushed names the messages of the events that the code was run with: the first of them has the
// ID first, and the others follow.
type flushed struct {
	first   int32
	origins []string
}

// messageOf returns the ID of the message that brought an event of this turn, if it did.
func (d *draft) messageOf(event int32) string {
	for _, f := range d.flushes {
		if i := int(event - f.first); i >= 0 && i < len(f.origins) {
			return f.origins[i]
		}
	}
	return ""
}

// effects are counted and reported when a turn is committed, and dropped when it is not.
type effects struct {
	begins    bool // the first turn of an execution
	starts    bool // the first turn of an instance, or of a fork
	ends      bool
	expires   bool        // the retention of an ended instance is over, and the commit deletes it
	cancelled []store.Key // of tasks that the commit deletes; activities that run there are cancelled
	fired     []firing    // timers
	firedRoom [2]firing   // room for fired, so that most turns allocate none

	lockWaits []time.Duration // of the requests for locks that were granted

	timersSet, timersMoved, timersCancelled int64

	lateMessages int // acknowledged without being appended
}

// firing is a timer that fired: its due time, and by how much it was late.
type firing struct {
	name string
	at   time.Time
	late time.Duration
}

// committed counts and reports a turn once it is durable, and cancels the activities whose tasks it
// deleted.
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
	e.stale(t.lateMessages)
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

// lost is called by the keeper when the lease is lost.
func (t *turn) lost() {
	t.stop(ErrLost)
	t.job.shouldEnd()
}

// message is a message with its decoded body.
type message struct {
	*store.Message
	body
}

// turn works on a claim of an instance, from the claim to its end.
//
// The order of what comes after run matters. The instance goes back into the cache before returned
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
//   - ErrOutdated: code elsewhere, and this process or that one is of an earlier release. The same, for as long as
//     it takes.
//   - errElsewhere: another build should take the turn. The same as for errLater.
//   - errHandedOver: another build was chosen for the instance, whose key has its route. The claim is
//     released.
//   - ErrClaimLost, ErrLost, errAbandoned: the claim is not this turn's any more. There is nothing
//     to release.
//   - ErrCorrupt: the record cannot be read. The release counts as an attempt, so that the messages
//     reach quarantine and do not loop.
//   - others: the store is in trouble, or the executor is away. Nothing is known to be committed. The
//     claim is held for two seconds, so that an outage is not made worse, and then released without
//     counting: the instance is not at fault.
func (e *Engine) turn(j *job) {
	c := j.Claim
	e.fuser.claimed(c)
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
	if t.inFlight {
		e.cache.returned(c.Key)
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
	case errors.Is(err, ErrOutdated):
		e.leaveOutdated(c, err)
	case errors.Is(err, errElsewhere):
		e.leaveToOtherBuild(t)
	case errors.Is(err, errHandedOver):
		e.giveBack(c)
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
	if err := t.pin(messages); err != nil {
		return err
	}
	switch attempts := t.claim.Attempt() - info.forgiven; {
	case info.Status.Ended():
		t.afterEnd(messages)
	case info.Status.parked(): // since it was claimed
		return fmt.Errorf("abide: %v is %s: %w", info.Ref, info.Status, store.ErrConflict)
	case t.claim.Route != info.keyRoute() && t.pinned == "":
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
	ReasonUnreadable  = "unreadable"  // the record of the instance or the entity cannot be read
	ReasonBacklog     = "backlog"     // the entity is locked, and too much waits for it
)

// orphaned puts the messages of an instance that has no record into quarantine: that
// must not be, and an operator should see it.
func (t *turn) orphaned(messages []message) error {
	for _, m := range messages {
		t.tx.PutRecords = append(t.tx.PutRecords, store.Quarantine(*m.Message, t.claim.Route, ReasonNoInstance, t.claim.Now))
	}
	t.e.log.Error("no record of the instance, messages quarantined", t.about(), "messages", len(messages))
	t.tx.Finish = []store.Finish{{Lease: t.claim.Lease()}}
	return t.e.store.Commit(context.WithoutCancel(t.ctx), &t.tx)
}
