package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/backoff"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/claimloop"
	"github.com/abidehq/abide/internal/outage"
	"github.com/abidehq/abide/store"
)

// Task is one attempt at an activity: a claim on its message in the queue "activities".
//
// Several goroutines touch it: the one that runs the activity's function, the timers for
// start-to-close and heartbeats, the keeper when the lease is lost, and goroutines of the activity
// that call Heartbeat. owner decides which of them settles the attempt: the function's return, a
// timeout, or nobody, when the lease is lost. mu guards the fields below it and is held while a
// heartbeat is saved, so that what was said last is what is kept. All other fields are set before
// the function runs.
//
// An attempt ends in one of these ways:
//
//   - the function returns a result: the task is finished, and the instance gets ActivityCompleted.
//   - it returns a failure, and there are attempts left: the task is put again, visible after the
//     back-off, with the failure and the count of attempts.
//   - it returns a failure, and there are none, or the failure is final: the instance gets
//     ActivityFailed.
//   - it does not return in time: the same as a failure of type TypeTimeout, at once. The function's
//     context ends, and what it returns later is ignored.
//   - the instance does not want it any more (cancelled, ended): the turn that says so deletes the
//     task, so the lease is lost. The context ends with ErrLost, and nothing is committed.
//   - the process dies: the lease expires, and the next claim of the message counts as an attempt.
//     TaskCrashes in a row are a final failure, so that an activity that kills its process does not
//     do so for ever.
//   - the engine closes: the task is released without counting, unless the function has returned a
//     result.
type Task struct {
	// Ref and Execution are those of the instance that scheduled the activity, and Event is the ID
	// of the event by which it did.
	Ref       Ref
	Execution int32
	Event     int32

	// Key is the same for all attempts of the activity, and different from that of every other
	// activity: an idempotency key for calls to other systems.
	Key string

	Name        string
	Attempt     int // from 1
	Input       []byte
	ScheduledAt time.Time

	// Last is the failure of the previous attempt, nil for the first one.
	Last *history.Failure

	// Run is that of the execution, and Foreign what the SDK of another language knows of the activity.
	Run     uint64
	Foreign *history.Foreign

	// reporter is where heartbeats go if another process has claimed the activity.
	reporter Reporter

	e     *Engine
	job   *job
	claim *store.Claim
	spec  task

	// ctx is the context of the activity's function. Its cause says why it ended: ErrLost,
	// ErrTimeout or ErrStopping.
	ctx  context.Context //nolint:containedctx // given to the function by the API
	stop context.CancelCauseFunc

	begun time.Time  // by the clock of this process
	span  trace.Span // nil without a tracer

	// owner is set by the one that settles the attempt: the function's return or a timeout. Only
	// the first to set it commits an outcome.
	owner atomic.Bool

	// refused is true after the store has refused an outcome as invalid, so that the failure that
	// replaces it is tried once only.
	refused bool

	// outdated is why the attempt is left to others: see Outdated.
	outdated error

	// called is true once the function was called. Attempts that were not are left out of the
	// histogram of durations.
	called bool

	// alarms stop the timers of start-to-close and schedule-to-close.
	alarms []func() bool

	heartbeats
}

// Reporter passes on what an activity says to the process that has claimed it.
type Reporter interface {
	// Heartbeat is that of [Task.Heartbeat].
	Heartbeat(details []byte) error

	// Details is that of [Task.Details].
	Details() ([]byte, error)
}

// ReportTo has heartbeats go to r. It is for an attempt that another process has claimed, of which only
// the exported fields are known here.
func (t *Task) ReportTo(r Reporter) { t.reporter = r }

// What an [Activity] returns as its failure, and no copy of it, if another process was to run it, which was
// lost: meanwhile, so that the attempt counts, or before it could begin, so that it does not. The activity
// runs again at once.
var (
	WorkerLost = &history.Failure{Type: TypeCrashed, Message: "its worker was lost"}
	WorkerGone = &history.Failure{Type: TypeCrashed, Message: "its worker was lost before it began"}
)

// Outdated is what an [Activity] returns as its failure, and no copy of it, if another process was to run it, and one of
// the two does not know what the other has written, as it is of an earlier release. The attempt does not count, and the
// activity runs again after a while.
func (t *Task) Outdated(why error) *history.Failure {
	t.outdated = why
	return taskOutdated
}

var taskOutdated = &history.Failure{Type: TypeCrashed, Message: "its worker is of another release"}

// heartbeats is the last heartbeat of an activity, and the record that keeps its details.
type heartbeats struct {
	// mu guards the fields below. It is held while details are saved, so that saves are in the
	// order of the heartbeats and the last one is kept.
	mu sync.Mutex

	beat    time.Time // of the last heartbeat, or of the start of the attempt
	details []byte    // of the last heartbeat that had some

	// savedAt is when details were last saved, or tried to be; unsaved is true if there are newer
	// ones.
	savedAt time.Time
	unsaved bool

	// silence stops the timer of the heartbeat timeout.
	silence func() bool

	// version is the version of the record, if it is known: then a save expects it, and a conflict
	// means that another attempt has begun.
	version int64
	known   bool
}

// activity executes a claim of a task.
func (e *Engine) activity(j *job) {
	c := j.Claim
	spec, err := decodeTask(c.Messages[0].Body)
	if err != nil {
		e.quarantineTask(c, err)
		return
	}
	ctx, stop := context.WithCancelCause(e.working)
	t := &Task{
		Ref: Ref{Tenant: c.Key.Tenant, ID: spec.instance}, Execution: spec.execution, Event: spec.event.ID, Key: c.Key.Name,
		Name: spec.event.Name, Attempt: int(spec.attempts+spec.crashes) + c.Attempt(), Input: spec.event.Data,
		ScheduledAt: spec.scheduledAt, Last: spec.last, Run: spec.run, Foreign: spec.event.Foreign,
		e: e, job: j, claim: c, spec: spec, ctx: ctx, stop: stop, begun: e.clock.Now(),
	}
	t.beginSpan()
	e.keeper.Keep(c, t.lost)
	defer stop(nil)
	defer e.keeper.Drop(c.Lease())
	t.run()
}

// lost is called by the keeper when the lease is lost.
func (t *Task) lost() { t.end(ErrLost) }

// end ends the context of the activity, which should return then.
func (t *Task) end(why error) {
	t.stop(why)
	t.job.shouldEnd()
}

// quarantineTask puts a task that cannot be decoded into quarantine. Its instance is unknown
// and gets no answer: it waits until the task is redriven or the activity's deadline passes.
func (e *Engine) quarantineTask(c *store.Claim, why error) {
	e.log.Error("task undecodable, quarantined", aboutClaim(c), "error", why)
	tx := store.Tx{Finish: []store.Finish{{Lease: c.Lease()}}}
	for i := range c.Messages {
		tx.PutRecords = append(tx.PutRecords, store.Quarantine(c.Messages[i], c.Route, ReasonUndecodable, c.Now))
	}
	if err := e.store.Commit(e.working, &tx); err != nil && !expected(err) {
		e.giveBack(c)
	}
}

// run runs the attempt, unless its process was lost too often, and settles it.
//
// The order of cases matters when the function returns. If a timeout has settled the attempt, the result
// is too late. If the lease was lost, another attempt may be running, and nothing may be committed although
// the store might still accept it. If the engine is closing, a failure is most likely that of the context,
// and does not count; a result does.
func (t *Task) run() {
	if limit := int(t.spec.event.Activity.MaxAttempts); limit > 0 && t.Attempt > limit {
		t.owner.Store(true)
		t.fail(&history.Failure{
			Type: TypeCrashed, Final: true,
			Message: fmt.Sprintf("attempt %d of %d did not come to an end: its process was lost", t.Attempt-1, limit),
		}, t.Attempt-1)
		return
	}
	if crashes := int(t.spec.crashes) + t.claim.Attempt() - 1; crashes >= t.e.cfg.TaskCrashes {
		t.owner.Store(true)
		t.fail(&history.Failure{
			Type: TypeCrashed, Final: true,
			Message: fmt.Sprintf("it was begun %d times in a row and did not come to an end: its process was lost each time", crashes),
		}, t.Attempt-1)
		return
	}
	if t.claim.Attempt() > 1 && t.limited() {
		t.enterAgain(int32(t.claim.Attempt() - 1))
		return
	}
	t.called = true
	t.setAlarms()
	data, failure := t.call()
	t.job.users = t.e.clock.Now().Sub(t.begun)
	t.clearAlarms()
	cause := context.Cause(t.ctx)
	switch {
	case !t.owner.CompareAndSwap(false, true): // it was too late
	case errors.Is(cause, ErrLost):
		t.e.lose(QueueActivities)
		t.sweep()
		t.leaveLate()
	case failure == WorkerLost, failure == WorkerGone:
		t.e.lose(QueueActivities)
		t.e.releaseAs(store.Release{Lease: t.claim.Lease(), Uncounted: failure == WorkerGone})
	case failure == taskOutdated:
		t.e.lose(QueueActivities)
		t.e.leaveOutdatedTask(t.claim, t.outdated)
	case errors.Is(cause, ErrTimeout) && failure != nil:
		// The instance is told by a message of its own, and will not look at this.
		failure = timeoutFailure(fmt.Sprintf("activity %q did not end in time: %s", t.Name, failure.Message))
		failure.Final = true
		t.fail(failure, t.Attempt)
	case errors.Is(cause, ErrStopping) && failure != nil && t.limited():
		t.enterAgain(0)
	case errors.Is(cause, ErrStopping) && failure != nil:
		t.e.giveBack(t.claim)
	case failure != nil:
		t.fail(failure, t.Attempt)
	case len(data) > MaxPayload:
		t.fail(TooLarge(data), t.Attempt)
	default:
		t.complete(data)
	}
}

// TooLarge returns the failure of an activity whose result is larger than [MaxPayload].
func TooLarge(result []byte) *history.Failure {
	return &history.Failure{Message: fmt.Sprintf("its result has %d bytes, at most %d are allowed", len(result), MaxPayload), Final: true}
}

// call runs the activity. A panic is a failure like any other.
func (t *Task) call() (data []byte, failure *history.Failure) {
	if p := claimloop.Catch(func() { data, failure = t.e.code(t.Name)(t.ctx, t) }); p != nil {
		return nil, PanicFailure(p.Value, p.Stack)
	}
	return data, failure
}

// setAlarms starts the timers of the attempt: start-to-close, schedule-to-close and heartbeat.
//
// Start-to-close and heartbeat settle the attempt from their timer, whether or not the function
// returns. Schedule-to-close is settled by a message to the instance, which survives this process;
// here it only ends the context.
func (t *Task) setAlarms() {
	how := t.spec.event.Activity
	t.beat = t.begun
	limit := how.StartToClose
	if whole := how.ScheduleToClose; whole > 0 {
		// The instance is told by a message of its own; here it only ends the context.
		left := max(t.ScheduledAt.Add(whole).Sub(t.claim.Now), 0)
		t.alarms = append(t.alarms, t.e.clock.AfterFunc(left, func() { t.end(ErrTimeout) }))
	}
	if limit > 0 {
		t.alarms = append(t.alarms, t.e.clock.AfterFunc(limit, func() {
			t.timeout(fmt.Sprintf("activity %q did not end within %v of being begun", t.Name, limit))
		}))
	}
	if how.Heartbeat > 0 {
		t.listen(how.Heartbeat)
	}
}

// listen starts the timer of the heartbeat timeout, from the last heartbeat. A heartbeat does not
// reset the timer, which would cost a lock of the clock for each: the timer looks at beat when it
// fires, and starts again for what is left.
func (t *Task) listen(limit time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owner.Load() {
		return
	}
	left := limit - t.e.clock.Now().Sub(t.beat)
	if left <= 0 {
		go t.timeout(fmt.Sprintf("activity %q was not heard of for %v", t.Name, limit))
		return
	}
	t.silence = t.e.clock.AfterFunc(left, func() { t.listen(limit) })
}

// clearAlarms stops the timers of the attempt. One that has fired already finds owner taken, or takes it first.
func (t *Task) clearAlarms() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, stop := range t.alarms {
		stop()
	}
	t.alarms = nil
	if t.silence != nil {
		t.silence()
	}
}

// timeout settles the attempt as failed, whether or not its function returns.
func (t *Task) timeout(message string) {
	if t.owner.CompareAndSwap(false, true) {
		t.end(ErrTimeout)
		t.fail(timeoutFailure(message), t.Attempt)
	}
}

// complete finishes the task with a result.
func (t *Task) complete(data []byte) {
	t.answer(history.Event{Kind: history.ActivityCompleted, Ref: t.Event, Data: data})
	t.e.count.ActivitiesDone.Add(1)
}

// fail schedules the next attempt, or finishes the task with a failure if there is none: the failure
// is final, of a type that is not retried, the attempts are used up, or the next one would begin
// after schedule-to-close.
func (t *Task) fail(failure *history.Failure, attempt int) {
	t.e.count.ActivityFails.Add(1)
	failure = failure.Bounded()
	failure.Attempt = int32(attempt)
	how := t.spec.event.Activity
	now := t.claim.Now.Add(t.e.clock.Now().Sub(t.begun))
	next := now.Add(Backoff(how).Delay(t.claim.Key.Tenant+"/"+t.claim.Key.Name, attempt))
	again := !failure.Final && !slices.Contains(how.Final, failure.Type) &&
		(how.MaxAttempts == 0 || attempt < int(how.MaxAttempts)) &&
		(how.ScheduleToClose == 0 || next.Before(t.ScheduledAt.Add(how.ScheduleToClose)))
	if !again {
		t.answer(history.Event{Kind: history.ActivityFailed, Ref: t.Event, Failure: failure})
		return
	}
	t.e.log.Debug("activity attempt failed, retrying", t.about(), "at", next, "error", failure.Message)
	spec := t.spec
	spec.attempts, spec.crashes, spec.last = int32(attempt), 0, failure
	tx := t.putAgain(&spec, next)
	t.mu.Lock()
	if t.unsaved {
		tx.PutRecords = []store.PutRecord{t.heartbeatRecord()}
	}
	t.mu.Unlock()
	t.commit(&tx, failure, true)
}

// putAgain returns the transaction that ends the attempt, and has another one begin at a time. Under limits the
// task leaves and enters again.
func (t *Task) putAgain(spec *task, at time.Time) store.Tx {
	tx := store.Tx{Finish: []store.Finish{{Lease: t.claim.Lease()}}}
	limits := spec.event.Activity.Limits
	if len(limits) > 0 {
		spec.entry++
	}
	msg := store.Message{Key: t.claim.Key, ID: idTask, Route: t.Name, VisibleAt: at, Body: spec.encode()}
	if len(limits) > 0 {
		work, since := taskWork(t.claim.Key), base.Later(at, t.claim.Now)
		leave(&tx, t.claim.Key.Tenant, work, t.spec.entry, limits)
		msg.VisibleAt = noTime
		msg = enter(t.claim.Key.Tenant, work, spec.entry, limits, spec.priority(), since, at, msg)
	}
	tx.Put = append(tx.Put, msg)
	return tx
}

// limited reports whether each attempt has to be admitted.
func (t *Task) limited() bool { return len(t.spec.event.Activity.Limits) > 0 }

// enterAgain has the task enter its limits again before another attempt begins, since that takes a token of a rate
// as the first one has. lost is how many attempts were lost since it was put.
func (t *Task) enterAgain(lost int32) {
	t.owner.Store(true)
	spec := t.spec
	spec.crashes += lost
	tx := t.putAgain(&spec, noTime)
	if err := t.e.store.Commit(context.Background(), &tx); err != nil && !expected(err) {
		t.e.giveBack(t.claim)
	}
}

// leaveLate gives the units of an attempt back that was withdrawn while it ran. If it was lost for another reason
// the next attempt has entered again, or will, and this entry is not there any more.
func (t *Task) leaveLate() {
	if !t.limited() {
		return
	}
	var tx store.Tx
	leave(&tx, t.claim.Key.Tenant, taskWork(t.claim.Key), t.spec.entry, t.spec.event.Activity.Limits)
	ctx, cancel := context.WithTimeout(context.Background(), t.e.cfg.LeaseDuration)
	defer cancel()
	if err := t.e.store.Commit(ctx, &tx); err != nil && !errors.Is(err, store.ErrClosed) {
		t.e.log.Debug("lost activity has not left its limits, they are free when its lease has ended", t.about(), "error", err)
	}
}

// Backoff returns the delays between the attempts of an activity or a step.
func Backoff(how *history.Activity) backoff.Exponential {
	e := backoff.Exponential{First: how.Backoff, Max: store.MaxDelay, Factor: how.Factor}
	if how.BackoffMax > 0 {
		e.Max = min(how.BackoffMax, e.Max)
	}
	return e
}

// answer finishes the task and puts the outcome to the instance, in one commit. The message ID is
// that of the activity, so that the outcomes of two attempts are one message.
//
// If the instance is cached here, it is fused with the turn that it causes. After an error of that
// commit the outcome is committed alone: if the first one was applied, the lease has ended with it.
func (t *Task) answer(e history.Event) {
	b := body{kind: bodyEvents, run: t.spec.run, events: []history.Event{e}}
	id := messageID(prefixActivity, t.spec.run, t.Event)
	tx := store.Tx{Finish: []store.Finish{{Lease: t.claim.Lease()}}}
	leave(&tx, t.claim.Key.Tenant, taskWork(t.claim.Key), t.spec.entry, t.spec.event.Activity.Limits)
	t.mu.Lock()
	if t.Attempt > 1 || !t.savedAt.IsZero() {
		tx.DeleteRecords = []store.DeleteRecord{{Key: heartbeatKey(t.claim.Key), Expect: store.AnyVersion}}
	}
	t.mu.Unlock()
	if f := t.e.fuser.at(t.Ref.key()); t.claim.Attempt() == 1 && !t.refused && f.e.Serves(t.spec.route) {
		ended := t.e.clock.Now()
		d := newDelivery(t.Ref, id, &b)
		d.with = tx
		if f.deliver(context.Background(), d) == nil {
			t.e.meters.attempted(t, e.Failure, false, ended.Sub(t.begun))
			t.endSpan(e.Failure, ended)
			return
		}
	}
	tx.Put = append(tx.Put, store.Message{Key: t.Ref.key(), ID: id, Body: b.encode()})
	t.commit(&tx, e.Failure, false)
}

// commit commits the outcome of the attempt, and tries again until the outcome of the
// commit is known: the activity has had its effect, and must not run again without need. It gives up when the
// store is gone, the engine closes or the lease is lost; then the activity runs again elsewhere. If the
// store refuses the outcome, because it is too large, the instance gets a failure that says so
// instead: otherwise the activity would run again and again, and fail in the same way.
func (t *Task) commit(tx *store.Tx, failure *history.Failure, again bool) {
	ended := t.e.clock.Now()
	pause := backoff.Outage(t.e.clock)
	for {
		err := t.e.store.Commit(context.Background(), tx)
		switch {
		case err == nil:
			t.e.meters.attempted(t, failure, again, ended.Sub(t.begun))
			t.endSpan(failure, ended)
			return
		case expected(err):
			t.e.lose(QueueActivities)
			t.sweep()
			return
		case errors.Is(err, store.ErrInvalid) && !t.refused:
			t.refused = true
			t.answer(history.Event{Kind: history.ActivityFailed, Ref: t.Event, Failure: &history.Failure{
				Message: fmt.Sprintf("what came of it cannot be kept: %v", err), Final: true, Attempt: int32(t.Attempt),
			}})
			return
		case errors.Is(err, store.ErrInvalid):
			t.e.log.Error("activity outcome refused by the store, it will run again", t.about(), "error", err)
			return
		case outage.Permanent(err), t.e.working.Err() != nil, errors.Is(context.Cause(t.ctx), ErrLost):
			t.e.lose(QueueActivities)
			t.e.log.Debug("activity outcome not committed, it will run again", t.about(), "error", err)
			return
		}
		t.e.log.Debug("activity outcome not committed, trying again", t.about(), "error", err)
		_ = pause.Sleep(t.e.working)
	}
}

// heartbeatEvery is how often details of heartbeats are made durable, at most.
const heartbeatEvery = time.Second

// Heartbeat says that the activity is alive, and keeps details, if there are any, for
// the attempt that comes after this one. It returns an error if nobody waits for the result
// any more, which is the cause of the context's end, or if the details break a rule. A store
// that cannot be reached is no reason to stop: the details are kept with a later heartbeat,
// or with the failure of the attempt.
func (t *Task) Heartbeat(details []byte) error {
	if t.reporter != nil {
		return t.reporter.Heartbeat(details)
	}
	if cause := context.Cause(t.ctx); cause != nil {
		return cause
	}
	if len(details) > MaxPayload {
		return fmt.Errorf("abide: heartbeat: details have %d bytes, at most %d are allowed: %w", len(details), MaxPayload, ErrInvalid)
	}
	now := t.e.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beat = now
	if details == nil {
		return nil
	}
	t.details, t.unsaved = slices.Clone(details), true
	if !t.savedAt.IsZero() && now.Sub(t.savedAt) < heartbeatEvery {
		return nil
	}
	t.savedAt = now // or tried to be
	err := t.save()
	switch cause := context.Cause(t.ctx); {
	case err == nil:
		t.unsaved = false
		return nil
	case errors.Is(err, store.ErrConflict), errors.Is(err, ErrLost):
		t.end(ErrLost)
		return ErrLost
	case cause != nil:
		return cause
	case errors.Is(err, store.ErrInvalid):
		return fmt.Errorf("abide: heartbeat: %w", err)
	}
	t.known = false // it may have been committed
	t.e.log.Debug("heartbeat not saved", t.about(), "error", err)
	return nil
}

// save makes the details durable. The record of the details has no claim that guards it, so the first
// save of an attempt renews the lease before it reads the version: an attempt whose lease was lost must
// not overwrite the details of its successor. From then on the version is expected, and a conflict means
// that the lease is lost. Not to read the version again saves two calls for each heartbeat.
func (t *Task) save() error {
	ctx, cancel := context.WithTimeout(t.ctx, t.e.cfg.LeaseDuration/4)
	defer cancel()
	if !t.known {
		lost, err := t.e.store.Renew(ctx, t.e.cfg.LeaseDuration, []store.Lease{t.claim.Lease()})
		if err != nil {
			return err
		}
		if len(lost) > 0 {
			return ErrLost
		}
		r, err := t.e.store.Get(ctx, heartbeatKey(t.claim.Key))
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		t.version, t.known = r.Version, true
	}
	put := t.heartbeatRecord()
	put.Expect = t.version
	if err := t.e.store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{put}}); err != nil {
		return err
	}
	t.version++
	return nil
}

// sweep removes the details of an attempt that was lost, if the task is gone: a heartbeat may have been
// saved after the commit that deleted the task and its record, as the two are not one transaction.
// Without sweep such a record would stay for ever.
func (t *Task) sweep() {
	t.mu.Lock()
	saved := !t.savedAt.IsZero()
	t.mu.Unlock()
	if !saved {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.e.cfg.LeaseDuration)
	defer cancel()
	pending, err := t.e.store.Pending(ctx, t.claim.Key, 1)
	if err == nil && len(pending) == 0 {
		err = t.e.store.Commit(ctx, &store.Tx{DeleteRecords: []store.DeleteRecord{{Key: heartbeatKey(t.claim.Key), Expect: store.AnyVersion}}})
	}
	if err != nil && !errors.Is(err, store.ErrClosed) {
		t.e.log.Warn("heartbeat record not removed", t.about(), "error", err)
	}
}

func (t *Task) heartbeatRecord() store.PutRecord {
	return store.PutRecord{
		Expect: store.AnyVersion,
		Record: store.Record{Key: heartbeatKey(t.claim.Key), Name: t.Name, Time: t.claim.Now, Body: t.details},
	}
}

// Details returns what the attempt before said in its last heartbeat that was made
// durable, or nil.
func (t *Task) Details() ([]byte, error) {
	if t.reporter != nil {
		return t.reporter.Details()
	}
	if t.Attempt == 1 {
		return nil, nil
	}
	r, err := t.e.store.Get(t.ctx, heartbeatKey(t.claim.Key))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("abide: details: %w", err)
	}
	return r.Body, nil
}
