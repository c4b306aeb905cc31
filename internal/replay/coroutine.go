package replay

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/abidehq/abide/history"
)

// coroutine is a stack of the code that runs until it waits. The package comment has its states. resume and
// stop are those of iter.Pull, and are called by the execution; suspend is the yield of the same pair, and is
// called on the coroutine's own stack.
type coroutine struct {
	number  int // in the order in which they were made
	resume  func() (struct{}, bool)
	stop    func()
	suspend func(struct{}) bool
	woken   bool // it is among the runnable ones
	ended   bool
	waits   *waits // for what; nil if it does not
}

// PanicError is a panic of the code.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns what the panic said.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// spawn makes a coroutine that runs f, and puts it behind those that are to run.
func (x *Execution) spawn(f func()) {
	x.spawned++
	co := &coroutine{number: x.spawned}
	co.resume, co.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			co.ended = true
			x.current = nil // also if the code has ended its goroutine
			// What panics after the end are deferred functions of code that is being stopped.
			if v := recover(); v != nil && !x.ended && !x.closed {
				_ = x.fail(&PanicError{Value: v, Stack: debug.Stack()})
			}
		}()
		co.suspend = yield
		f()
	})
	x.alive[co] = struct{}{}
	x.wake(co)
}

// wake puts a coroutine behind those that are to run.
func (x *Execution) wake(co *coroutine) {
	if !co.woken && !co.ended {
		co.woken = true
		x.runnable = append(x.runnable, co)
	}
}

// run runs the coroutines until all of them wait, or the turn is full. It is the scheduler: first in, first
// out, and no coroutine is interrupted. A panic of one fails the execution, and the others are stopped.
func (x *Execution) run() {
	for len(x.runnable) > 0 && x.err == nil && !x.ended && !x.full {
		co := x.runnable[0]
		x.runnable = x.runnable[1:]
		co.woken = false
		x.current = co
		co.resume()
		x.current = nil
		if co.ended {
			delete(x.alive, co)
		}
	}
	if x.err != nil || x.ended {
		x.stopAll()
	}
}

// wait suspends the coroutine that runs until it is woken.
func (x *Execution) wait(what waits) {
	x.mustNotBeInStep()
	co := x.current
	if x.closed || (co == nil && (x.ended || x.err != nil)) {
		x.leave()
	}
	if co == nil {
		panic(errOutside)
	}
	co.waits = &what
	if !co.suspend(struct{}{}) {
		runtime.Goexit()
	}
	co.waits = nil
}

// errOutside is what code panics with that waits where nobody can wake it.
var errOutside = errors.New("replay: the context of an orchestration was used outside of it, such as in a goroutine")

// waits is what a coroutine waits for: some of the futures, or the next turn if there
// are none.
type waits struct {
	any     bool // one of them is enough
	futures []*Future
}

// String returns it in words.
func (w *waits) String() string {
	if len(w.futures) == 0 {
		return "the next turn"
	}
	names := make([]string, len(w.futures))
	for i, f := range w.futures {
		names[i] = f.String()
	}
	list := strings.Join(names, ", ")
	if w.any {
		return "one of " + list
	}
	return list
}

// yield ends the coroutine's part in this turn: it goes on in the next one.
func (x *Execution) yield() {
	x.emit(history.Event{Kind: history.TurnYielded})
	x.yielded = append(x.yielded, x.current)
	x.wait(waits{})
}

// breathe ends the turn if it is full. The coroutine goes on in the next one, before any
// other: to the code it is as if it had not stopped, but for the time.
func (x *Execution) breathe() {
	if x.replaying() {
		if h := x.peek(history.TurnYielded); h == nil || h.Name != history.Full {
			return
		}
	} else if x.live.Full == nil || !x.live.Full(x.produced) {
		return
	}
	co := x.current
	if co == nil {
		panic(errOutside)
	}
	x.emit(history.Event{Kind: history.TurnYielded, Name: history.Full})
	x.full, co.woken = true, true
	x.runnable = slices.Insert(x.runnable, 0, co)
	x.wait(waits{})
}

// mustLive stops code that does something although its execution has ended: a deferred
// function, while the code is being stopped.
func (x *Execution) mustLive() {
	x.mustNotBeInStep()
	if x.ended || x.closed || x.err != nil {
		x.leave()
	}
}

// mustNotBeInStep makes the execution fail if a step does what only the orchestration may.
// It panics, as the step may have called from a goroutine of its own.
func (x *Execution) mustNotBeInStep() {
	if x.inStep.Load() {
		_ = x.fail(ErrInStep)
		panic(ErrInStep)
	}
}

// ErrInStep is the error of a step that does what only the orchestration may do: when
// the turn is replayed the step is not run, and it would not be done.
var ErrInStep = errors.New("replay: a step uses the context of the orchestration; it must use its own, and nothing else of Abide")

// stopWith makes the execution fail from within the code.
func (x *Execution) stopWith(err error) {
	_ = x.fail(err)
	x.leave()
}

// leave does not return to the code: its deferred functions run, and nothing else. The
// stack is unwound with Goexit, as code could recover from a panic and go on. Goexit ends
// the goroutine that resumed the coroutine too, so a coroutine that was resumed for its
// part in a turn is suspended here and unwound by stopAll.
func (x *Execution) leave() {
	if co := x.current; co != nil {
		co.suspend(struct{}{})
	}
	runtime.Goexit()
}

// stopAll ends all coroutines, one after the other, and returns when the deferred
// functions of their code have returned.
func (x *Execution) stopAll() {
	for _, co := range x.inOrder() {
		delete(x.alive, co)
		co.end()
	}
	x.runnable = nil
}

// end unwinds the stack of a coroutine, on a goroutine of its own: see leave.
func (co *coroutine) end() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		co.stop()
	}()
	<-done
}

// inOrder returns the coroutines that have not ended, in the order in which they were
// made.
func (x *Execution) inOrder() []*coroutine {
	if len(x.alive) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Keys(x.alive), func(a, b *coroutine) int { return a.number - b.number })
}

// Waiting returns what the code waits for, in words, a line for each coroutine.
func (x *Execution) Waiting() []string {
	var waits []string
	for _, co := range x.inOrder() {
		if co.waits != nil {
			waits = append(waits, co.waits.String())
		}
	}
	return waits
}
