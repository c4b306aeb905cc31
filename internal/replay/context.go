package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
)

// Context is what code acts through: it gives access to time, randomness, history and everything that
// becomes an event. Code that acts in any other way is not deterministic.
//
// Each method that emits an event may also end the turn (breathe), if the turn has done as much as one
// commit should hold. To the code that is invisible, but for the time. So no method may assume that it
// returns in the turn in which it was called.
type Context struct {
	x     *Execution
	scope *Scope
}

// Now returns the time of the turn. It stands still while the code runs.
func (c *Context) Now() time.Time { return c.x.now }

// Size returns how large the history was when the turn began.
func (c *Context) Size() Size { return c.x.size }

// Replaying reports whether what the code does now was done before.
func (c *Context) Replaying() bool { return c.x.replaying() }

// Turn returns the context of the turn that runs, for what is not part of the code, such
// as a log. It is nil unless the turn is a new one.
func (c *Context) Turn() context.Context { return c.x.live.Context }

// Self returns the ID of the instance.
func (c *Context) Self() string { return c.x.self }

// Start returns how the execution was started.
func (c *Context) Start() (name string, start history.Start) { return c.x.name, c.x.start }

// Activity asks for an activity.
func (c *Context) Activity(name string, input []byte, how history.Activity) *Future {
	return c.newFuture(history.Event{Kind: history.ActivityScheduled, Name: name, Data: input, Activity: &how})
}

// Timer asks to be woken. A time that has passed is as good as any: the timer fires
// at once, in a turn of its own.
func (c *Context) Timer(name string, at time.Time) *Future {
	return c.newFuture(history.Event{Kind: history.TimerCreated, Name: name, At: notEarlier(at)})
}

// notEarlier returns a time as it is in history, in whole milliseconds: a timer is
// never early.
func notEarlier(at time.Time) time.Time {
	if at = at.UTC(); at.Nanosecond()%int(time.Millisecond) != 0 {
		at = at.Truncate(time.Millisecond).Add(time.Millisecond)
	}
	return at
}

// Move gives a timer that has not fired another time, and reports whether it came in
// time to do so.
func (c *Context) Move(timer *Future, at time.Time) bool {
	if timer.done || timer.kind != history.TimerCreated {
		return false
	}
	at = notEarlier(at)
	timer.at, timer.moved = at, c.x.turns
	if h := c.x.next(history.TimerMoved); h != nil {
		timer.at = h.At
	}
	c.x.emit(history.Event{Kind: history.TimerMoved, Ref: timer.id, Name: timer.name, At: at})
	c.x.breathe()
	return true
}

// Child starts another instance, and waits for how it ends. Without an ID, it gets one
// that is made of the instance's own and a random number; unless it is not started at
// all because the scope is cancelled.
func (c *Context) Child(name, id string, input []byte, how history.Child) *Future {
	if c.scope.cancelled == nil {
		id = c.target(history.ChildStarted, id)
	}
	return c.newFuture(history.Event{Kind: history.ChildStarted, Name: name, Target: id, Data: input, Child: &how})
}

// Detach starts another instance, forgets it, and returns its ID. See Child for how
// it gets one.
func (c *Context) Detach(name, id string, input []byte, how history.Child) string {
	id = c.target(history.DetachedStarted, id)
	c.x.emit(history.Event{Kind: history.DetachedStarted, Name: name, Target: id, Data: input, Child: &how})
	c.x.breathe()
	return id
}

// maxSelf is how much of an instance's ID is in those that it makes up, so that they
// do not grow from child to child for ever.
const maxSelf = 400

// target returns the ID of an instance to start. One that was generated is taken from history when the
// turn is replayed: the instance that replays it may be a fork, whose own ID differs. The random number is
// drawn in both cases, so that the sequence of random numbers stays the same.
func (c *Context) target(kind history.Kind, id string) string {
	if id != "" {
		return id
	}
	number := c.Uint64()
	if h := c.x.next(kind); h != nil {
		return h.Target
	}
	return fmt.Sprintf("%s.%016x", strings.ToValidUTF8(c.x.self[:min(len(c.x.self), maxSelf)], ""), number)
}

// Receive returns the next event of that name, when there is one.
func (c *Context) Receive(name string) *Future {
	c.x.mustLive()
	in := c.x.inbox(name)
	f := &Future{x: c.x, name: name, scope: c.scope, inbox: in, since: c.x.now}
	switch {
	case c.scope.cancelled != nil:
		f.settle(nil, c.scope.cancelled)
	case len(in.events) > 0:
		e := in.events[0]
		in.events = in.events[1:]
		f.answer = e.id
		f.settle(e.data, nil)
	default:
		in.waiting = append(in.waiting, f)
		c.scope.add(f)
	}
	return f
}

// Send raises an event for another instance.
func (c *Context) Send(id, name string, data []byte) {
	c.x.emit(history.Event{Kind: history.EventSent, Name: name, Target: id, Data: data})
	c.x.breathe()
}

// CallEntity asks for an operation of an entity.
func (c *Context) CallEntity(id, operation string, input []byte) *Future {
	return c.newFuture(history.Event{Kind: history.EntityCalled, Name: operation, Target: id, Data: input})
}

// SignalEntity sends an operation to an entity, delivered not before at, and forgets it. The zero time
// means at once.
func (c *Context) SignalEntity(id, operation string, input []byte, at time.Time) {
	if !at.IsZero() {
		at = notEarlier(at)
	}
	c.x.emit(history.Event{Kind: history.EntitySignaled, Name: operation, Target: id, Data: input, At: at})
	c.x.breathe()
}

// LockEntities asks for the locks of entities; the IDs are encoded as [history.EntityLockRequested] says. A
// future that is cancelled before the locks are granted withdraws the request.
func (c *Context) LockEntities(ids []byte) *Future {
	return c.newFuture(history.Event{Kind: history.EntityLockRequested, Data: ids})
}

// UnlockEntity releases the lock of one entity that a request has been granted.
func (c *Context) UnlockEntity(request *Future, id string) {
	c.x.emit(history.Event{Kind: history.EntityUnlocked, Ref: request.id, Target: id})
	c.x.breathe()
}

// Step runs f here and now, and remembers what came of it: in a replayed turn it is
// not run again. How f fails is up to f. If the scope is cancelled, f is not run, and the
// step fails with the scope's failure.
//
// The context of f ends when the instance is asked to come to an end, unless the scope is
// shielded. The request itself comes with a later turn. So a step that fails because of it
// is a step of type [StepCancelledType] in history, and the code goes on when the scope is
// cancelled.
func (c *Context) Step(name string, f func(context.Context) ([]byte, *history.Failure)) ([]byte, *history.Failure) {
	data, failure := c.step(name, f)
	h := c.x.peek(history.TurnYielded)
	switch {
	case h != nil && h.Name == "", !c.x.replaying() && c.x.live.Yield != nil && c.x.live.Yield():
		c.x.yield()
	default:
		c.x.breathe()
	}
	if failure != nil && failure.Type == StepCancelledType {
		if c.scope.cancelled == nil {
			f := &Future{x: c.x, name: name, scope: c.scope}
			c.scope.add(f)
			c.Wait(f)
		}
		return nil, c.scope.cancelled
	}
	return data, failure
}

// StepCancelledType is the type of the failure of a step whose instance was asked to come
// to an end while it ran, or before it ran.
const StepCancelledType = "abide.StepCancelled"

func (c *Context) step(name string, f func(context.Context) ([]byte, *history.Failure)) ([]byte, *history.Failure) {
	c.x.mustLive()
	if h := c.x.next(history.StepCompleted, history.StepFailed); h != nil {
		data, failure := h.Data, h.Failure
		c.x.emit(history.Event{Kind: h.Kind, Name: name})
		return data, failure
	}
	if c.x.replaying() { // history says that something else comes here
		c.x.emit(history.Event{Kind: history.StepCompleted, Name: name})
	}
	data, failure := c.runStep(f)
	if failure != nil {
		c.x.emit(history.Event{Kind: history.StepFailed, Name: name, Failure: failure})
	} else {
		c.x.emit(history.Event{Kind: history.StepCompleted, Name: name, Data: data})
	}
	return data, failure
}

// ErrStep is the error of a turn that must not run steps.
var ErrStep = errors.New("replay: the code runs a step")

func (c *Context) runStep(f func(context.Context) ([]byte, *history.Failure)) ([]byte, *history.Failure) {
	if c.scope.cancelled != nil {
		return nil, c.scope.cancelled
	}
	live := &c.x.live
	if live.NoSteps {
		_ = c.x.fail(ErrStep)
		c.x.leave()
	}
	ctx := live.Context
	if live.Steps != nil && c.scope.isBelow(c.x.root) {
		ctx = live.Steps()
	}
	asked := func() bool { return ctx != live.Context && ctx.Err() != nil && live.Context.Err() == nil }
	if asked() {
		return nil, &history.Failure{Type: StepCancelledType, Message: "not run: the instance is to be cancelled", Final: true}
	}
	c.x.inStep.Store(true)
	defer c.x.inStep.Store(false) // also when f panics
	data, failure := f(ctx)
	if failure != nil && asked() {
		failure = &history.Failure{Type: StepCancelledType, Message: failure.Message, Final: true}
	}
	return data, failure.Bounded()
}

// Changed reports whether the code after the change with that ID is to run: always in an execution that comes to
// it for the first time, never in one that came past here before the change was made. The first answer is
// kept for the execution, so that code that asks again, such as in a loop, gets the same one although history
// has no marker there.
func (c *Context) Changed(id string) bool {
	x := c.x
	if changed, known := x.changes[id]; known {
		return changed
	}
	changed := !x.replaying() || x.marked(id)
	if x.changes == nil {
		x.changes = map[string]bool{}
	}
	x.changes[id] = changed
	if changed {
		x.emit(history.Event{Kind: history.ChangeMarked, Name: id})
	}
	return changed
}

// Retired marks a change whose old code is deleted. A marker in history, of Changed or of
// Retired, is accepted, and so is a history without one. An execution that comes here for
// the first time gets a marker that code with Changed takes as its own and that code
// without any call skips.
func (c *Context) Retired(id string) {
	x := c.x
	x.mustLive()
	if x.changes[id] {
		return
	}
	if x.changes == nil {
		x.changes = map[string]bool{}
	}
	x.changes[id] = true
	if !x.replaying() || x.marked(id) {
		x.emit(history.Event{Kind: history.ChangeMarked, Name: id, Retired: true})
	}
}

// SetStatus says something about the instance to people.
func (c *Context) SetStatus(text string) {
	c.x.emit(history.Event{Kind: history.StatusSet, Name: text})
	c.x.breathe()
}

// SetValue keeps a small value where others can read it.
func (c *Context) SetValue(name string, data []byte) {
	c.x.emit(history.Event{Kind: history.ValueSet, Name: name, Data: data})
	c.x.breathe()
}

// Promise returns a future that the code itself makes known, by calling the function:
// it is not in history.
func (c *Context) Promise(name string) (*Future, func()) {
	f := &Future{x: c.x, name: name, scope: c.scope}
	return f, func() { f.settle(nil, nil) }
}

// Go runs f beside the code that calls it. The two take turns where they wait.
func (c *Context) Go(f func(c *Context)) {
	c.x.mustLive()
	child := &Context{x: c.x, scope: c.scope}
	c.x.spawn(func() { f(child) })
}

// Wait waits for all of the futures.
func (c *Context) Wait(futures ...*Future) {
	for _, f := range futures {
		for !f.done {
			f.waiters = append(f.waiters, c.x.current)
			c.x.wait(waits{futures: []*Future{f}})
		}
	}
}

// WaitAny waits for one of the futures, and returns its index. Of several that are resolved it is the one that
// history resolved first: that is what makes a select deterministic, and independent of the order in which
// completions arrived in memory. The coroutine is removed from the waiters of the others when it goes on, or
// they would wake it later for nothing.
func (c *Context) WaitAny(futures ...*Future) int {
	for {
		first := -1
		for i, f := range futures {
			if f.done && (first < 0 || f.order < futures[first].order) {
				first = i
			}
		}
		if first >= 0 {
			return first
		}
		for _, f := range futures {
			f.waiters = append(f.waiters, c.x.current)
		}
		c.x.wait(waits{any: true, futures: futures})
		for _, f := range futures {
			f.waiters = slices.DeleteFunc(f.waiters, func(co *coroutine) bool { return co == c.x.current })
		}
	}
}

// Cancel gives up a future.
func (c *Context) Cancel(f *Future) {
	f.cancel(&history.Failure{Type: CancelledType, Message: reason(""), Final: true})
}

// Cancelled returns why the context's scope was cancelled, or nil.
func (c *Context) Cancelled() *history.Failure { return c.scope.cancelled }

// WithScope returns a context whose scope can be cancelled by itself, and is when
// that of c is.
func (c *Context) WithScope() (*Context, func(why string)) {
	s := c.scope.newBelow()
	cancel := func(why string) {
		s.cancel(&history.Failure{Type: CancelledType, Message: reason(why), Final: true})
		s.leave()
	}
	return &Context{x: c.x, scope: s}, cancel
}

// Leave says that nothing more will be asked for under the scope of c. What is open
// stays so.
func (c *Context) Leave() { c.scope.leave() }

// Shield returns a context that is not cancelled with c: for what must be done when
// all else has been given up.
func (c *Context) Shield() *Context {
	return &Context{x: c.x, scope: &Scope{x: c.x}}
}

// Uint64 returns a random number: the same one when it is replayed.
func (c *Context) Uint64() uint64 {
	c.x.mustLive()
	c.x.random += 0x9e3779b97f4a7c15
	z := c.x.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Position returns the seed of the execution and the ID of its latest event: the same when
// it is replayed.
func (c *Context) Position() (seed uint64, event int32) { return c.x.start.Seed, c.x.lastID }

// PayloadError is the error of code that cannot decode a payload: the input of the orchestration,
// an event, or the result of an activity or a child.
type PayloadError struct {
	// Event is the ID of the event that has the payload, and 0 if it is not known. Kind and Name
	// are those of the event; the name is that of the activity or child whose result it is.
	Event int32
	Kind  history.Kind
	Name  string

	// Err says what is wrong with the payload.
	Err error
}

// Error returns what is wrong with the payload.
func (e *PayloadError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with the payload.
func (e *PayloadError) Unwrap() error { return e.Err }

// StartEvent returns the ID of the event that has the input.
func (c *Context) StartEvent() int32 { return c.x.startID }

// Stall ends the turn with an error: the code cannot go on, and nothing that it did in
// this turn counts.
func (c *Context) Stall(err error) {
	c.x.mustLive()
	c.x.stopWith(err)
}
