package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide/history"
)

// Future is the pending result of an activity, a timer, a child, an event or a coroutine. It is resolved
// once: by an incoming event, by its cancellation, or at once if its scope is cancelled already. Waiters are
// woken in the order in which they began to wait.
type Future struct {
	x      *Execution
	id     int32        // of the event that made it; 0 if it is not in history
	kind   history.Kind // of that event
	name   string
	target string    // of a child
	at     time.Time // of a timer
	moved  int       // in which turn the code has moved it last
	scope  *Scope
	made   int    // when, among the futures of the execution
	inbox  *inbox // that it waits for

	done    bool
	order   int   // among those that are resolved
	answer  int32 // the ID of the event that resolved it; 0 if none did
	data    []byte
	failure *history.Failure
	waiters []*coroutine

	// since and schema describe a future of an event for people: the time of the turn that began
	// to wait, and what the code expects.
	since  time.Time
	schema string
}

// Done reports whether it is known.
func (f *Future) Done() bool { return f.done }

// Result returns what is known.
func (f *Future) Result() ([]byte, *history.Failure) { return f.data, f.failure }

// Answer returns the ID of the event in history that resolved it, and 0 if none did.
func (f *Future) Answer() int32 { return f.answer }

// SetSchema notes what the code expects of an event, see [Awaited.Schema].
func (f *Future) SetSchema(schema string) { f.schema = schema }

// At returns the time of a timer.
func (f *Future) At() time.Time { return f.at }

// ID returns the ID of the event that made it, and 0 if it is not in history.
func (f *Future) ID() int32 { return f.id }

// Target returns the ID of a child.
func (f *Future) Target() string { return f.target }

// String returns what it is of, in words.
func (f *Future) String() string {
	what := "event"
	if f.inbox == nil {
		what = "coroutine"
	}
	switch f.kind {
	case history.ActivityScheduled:
		what = "activity"
	case history.TimerCreated:
		what = "timer"
	case history.ChildStarted:
		what = "child"
	case history.EntityCalled:
		what = "operation"
	case history.EntityLockRequested:
		what = "locks"
	}
	if f.name == "" {
		return what
	}
	return fmt.Sprintf("%s %q", what, f.name)
}

// settle resolves the future and wakes its waiters. A future that is resolved stays as it is: the answer of an
// activity that was cancelled comes too late.
func (f *Future) settle(data []byte, failure *history.Failure) {
	if f.done {
		return
	}
	f.x.resolved++
	f.done, f.order, f.data, f.failure = true, f.x.resolved, data, failure
	delete(f.x.futures, f.id)
	f.scope.forget(f)
	for _, co := range f.waiters {
		f.x.wake(co)
	}
	f.waiters = nil
}

// resolve settles the future that an event made. What was cancelled, or is known
// already, stays as it is.
func (x *Execution) resolve(e *history.Event) {
	f := x.futures[e.Ref]
	switch {
	case f == nil:
	case f.done: // a call of an entity that was given up
		delete(x.futures, e.Ref)
	default:
		f.answer = e.ID
		f.settle(e.Data, e.Failure)
	}
}

// newFuture notes what the code asks for, and returns what will come of it.
func (c *Context) newFuture(e history.Event) *Future {
	f := &Future{x: c.x, kind: e.Kind, name: e.Name, target: e.Target, at: e.At, scope: c.scope}
	if c.scope.cancelled != nil {
		f.settle(nil, c.scope.cancelled)
		return f
	}
	if h := c.x.next(e.Kind); h != nil {
		f.at = h.At
	}
	f.id = c.x.emit(e)
	c.x.futures[f.id] = f
	c.scope.add(f)
	c.x.breathe()
	return f
}

// cancel gives up a future: nothing will come of it any more.
func (f *Future) cancel(why *history.Failure) {
	if f.done {
		return
	}
	switch f.kind {
	case history.ActivityScheduled:
		f.x.emit(history.Event{Kind: history.ActivityCancelled, Ref: f.id})
	case history.TimerCreated:
		f.x.emit(history.Event{Kind: history.TimerCancelled, Ref: f.id})
	case history.ChildStarted:
		f.x.emit(history.Event{Kind: history.ChildCancelled, Ref: f.id})
	case history.EntityLockRequested:
		f.x.emit(history.Event{Kind: history.EntityUnlocked, Ref: f.id})
	}
	if f.inbox != nil {
		f.inbox.leave(f)
	}
	f.settle(nil, why)
	if f.kind == history.EntityCalled { // it cannot be taken back: its answer comes
		f.x.futures[f.id] = f
	}
}

// inbox keeps events of one name, in order, until code receives them. Of events and waiting one is always
// empty: an event that finds a waiter is delivered at once, and a receiver that finds an event does not wait.
type inbox struct {
	events  []received
	waiting []*Future
}

// received is an event that was raised: its ID in history and its payload.
type received struct {
	id   int32
	data []byte
}

func (x *Execution) inbox(name string) *inbox {
	in := x.inboxes[name]
	if in == nil {
		in = &inbox{}
		if x.inboxes == nil {
			x.inboxes = map[string]*inbox{}
		}
		x.inboxes[name] = in
	}
	return in
}

// deliver gives an event to who has waited longest, or keeps it.
func (in *inbox) deliver(e received) {
	if len(in.waiting) > 0 {
		f := in.waiting[0]
		in.waiting = in.waiting[1:]
		f.answer = e.id
		f.settle(e.data, nil)
		return
	}
	in.events = append(in.events, e)
}

func (in *inbox) leave(f *Future) {
	in.waiting = slices.DeleteFunc(in.waiting, func(w *Future) bool { return w == f })
}

// Unreceived returns what reached the execution and its code has not seen: events that
// nobody has received, those of each name in order, and a request to cancel it. They go
// along when the execution continues as a new one.
func (x *Execution) Unreceived() []history.Event {
	var events []history.Event
	for _, name := range slices.Sorted(maps.Keys(x.inboxes)) {
		for _, e := range x.inboxes[name].events {
			events = append(events, history.Event{Kind: history.EventReceived, Name: name, Data: e.data})
		}
	}
	if x.unseen != nil {
		events = append(events, history.Event{Kind: history.CancelRequested, Name: x.unseen.Name})
	}
	return events
}

// Awaits reports whether the code waits for an event of that name.
func (x *Execution) Awaits(name string) bool {
	in := x.inboxes[name]
	return in != nil && len(in.waiting) > 0
}

// Awaited is an event that the code waits for.
type Awaited struct {
	// Name is the name of the event, and Schema what was set with SetSchema.
	Name   string
	Schema string

	// Since is the time of the turn in which the code began to wait.
	Since time.Time
}

// Awaited returns the events that the code waits for, in the order of their names, and those with
// the same name in the order in which they are served.
func (x *Execution) Awaited() []Awaited {
	var all []Awaited
	for name, in := range x.inboxes {
		for _, f := range in.waiting {
			all = append(all, Awaited{Name: name, Schema: f.schema, Since: f.since})
		}
	}
	slices.SortStableFunc(all, func(a, b Awaited) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Open returns the IDs of the events whose activities, timers, children, calls of entities and requests for
// locks are not answered yet, in order.
func (x *Execution) Open() []int32 {
	var ids []int32
	for id := range x.futures {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
