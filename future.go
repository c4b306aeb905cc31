package abide

import (
	"errors"
	"time"

	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/history"
	"github.com/abidehq/abide/internal/replay"
)

// Awaitable is something that an orchestration can wait for: a [Future] or a [Timer].
type Awaitable interface {
	pending() *replay.Future
	failure(ctx Context) error
}

// Future is something that will be known: the result of an activity, of a child, of a
// coroutine, or an event.
type Future[T any] struct {
	f      *replay.Future
	result func(ctx Context) (T, error) // of f, when it is known
	cancel func()                       // instead of cancelling f
}

var _ Awaitable = (*Future[int])(nil)

// Get waits until it is known, and returns it.
func (f *Future[T]) Get(ctx Context) (T, error) {
	ctx.c.Wait(f.f)
	return f.result(ctx)
}

// Ready reports whether it is known, so that Get does not wait.
func (f *Future[T]) Ready() bool { return f.f.Done() }

// Cancel gives it up: Get returns [ErrCancelled]. What is known already stays known. Of a
// coroutine it cancels what that waits for, and Get returns what the function makes of it.
func (f *Future[T]) Cancel(ctx Context) {
	if f.cancel != nil {
		f.cancel()
		return
	}
	ctx.c.Cancel(f.f)
}

func (f *Future[T]) pending() *replay.Future {
	if f == nil {
		return nil
	}
	return f.f
}

func (f *Future[T]) failure(ctx Context) error {
	_, err := f.Get(ctx)
	return err
}

// newFuture returns a future whose value is in history; wrap says of an error what it
// is of.
func newFuture[T any](f *replay.Future, of thing, wrap func(*history.Failure) error) *Future[T] {
	return &Future[T]{f: f, result: func(ctx Context) (T, error) {
		data, failure := f.Result()
		if failure != nil {
			var zero T
			return zero, wrap(failure)
		}
		v, err := decode[T](ctx.env.codec, data)
		if err != nil {
			ctx.stallf("%v does not fit its type: %v", of, err)
		}
		return v, nil
	}}
}

// Select waits until one of several things is known, and returns its index. Of several
// that are known it is the one that was known first. The others go on; cancel them if
// they are of no use any more: an event's future that is not cancelled takes the next
// event. What was cancelled counts as known, so look at what Get or Wait of it returns.
// A nil one is passed over; without anything to wait for Select returns -1.
func Select(ctx Context, of ...Awaitable) int {
	var futures []*replay.Future
	var index []int
	for i, a := range of {
		if f := pending(a); f != nil {
			futures, index = append(futures, f), append(index, i)
		}
	}
	if len(futures) == 0 {
		return -1
	}
	return index[ctx.c.WaitAny(futures...)]
}

// pending returns what is waited for, or nil if there is nothing.
func pending(a Awaitable) *replay.Future {
	if a == nil {
		return nil
	}
	return a.pending()
}

// Join waits until all is known, and returns all errors, joined, in the order of the
// arguments. Nil ones are passed over.
func Join(ctx Context, all ...Awaitable) error {
	var errs []error
	for _, a := range all {
		if pending(a) == nil {
			continue
		}
		if err := a.failure(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// All waits until all is known, and returns it in the order of the arguments. If there
// are errors it returns them, joined, and what is known is there all the same.
func All[T any](ctx Context, futures ...*Future[T]) ([]T, error) {
	results := make([]T, len(futures))
	var errs []error
	for i, f := range futures {
		v, err := f.Get(ctx)
		if err != nil {
			errs = append(errs, err)
		}
		results[i] = v
	}
	if len(errs) == 1 {
		return results, errs[0]
	}
	return results, errors.Join(errs...)
}

// Go runs f beside the code that calls it. The two take turns where they wait, never
// elsewhere, so they need no locks.
func Go[T any](ctx Context, f func(ctx Context) (T, error)) *Future[T] {
	scope, cancel := ctx.c.WithScope()
	promise, settle := ctx.c.Promise("")
	var result T
	var err error
	ctx.c.Go(func(*replay.Context) {
		result, err = f(Context{c: scope, env: ctx.env})
		scope.Leave()
		settle()
	})
	return &Future[T]{
		f:      promise,
		result: func(Context) (T, error) { return result, err },
		cancel: func() { cancel("") },
	}
}

// Timer is a time that will come.
type Timer struct{ f *replay.Future }

var _ Awaitable = (*Timer)(nil)

// NewTimer sets a timer. It never fires early; one whose time has passed fires at once.
func NewTimer(ctx Context, d time.Duration, opts ...TimerOption) *Timer {
	return NewTimerAt(ctx, ctx.c.Now().Add(d), opts...)
}

// NewTimerAt sets a timer for a time.
func NewTimerAt(ctx Context, at time.Time, opts ...TimerOption) *Timer {
	var o timerOptions
	for _, opt := range opts {
		opt.timer(&o)
	}
	if o.name != "" {
		ctx.check("timer", o.name)
	}
	if at.Year() > maxYear {
		ctx.stallf("limit: a timer is set for %v; up to the year %d is allowed", at, maxYear)
	}
	return &Timer{ctx.c.Timer(o.name, at)}
}

// maxYear bounds the time of a timer.
const maxYear = 9000

// Wait waits until the timer has fired, or was cancelled: then it returns
// [ErrCancelled].
func (t *Timer) Wait(ctx Context) error {
	ctx.c.Wait(t.f)
	_, failure := t.f.Result()
	return errorOf(failure)
}

// At returns when it fires, or fired.
func (t *Timer) At() time.Time { return t.f.At() }

// Fired reports whether it has fired.
func (t *Timer) Fired() bool {
	_, failure := t.f.Result()
	return t.f.Done() && failure == nil
}

// Move gives a timer that has not fired another time, and reports whether it came in
// time to do so.
func (t *Timer) Move(ctx Context, at time.Time) bool {
	if at.Year() > maxYear {
		ctx.stallf("limit: a timer is moved to %v; up to the year %d is allowed", at, maxYear)
	}
	return ctx.c.Move(t.f, at)
}

// Cancel takes the timer back.
func (t *Timer) Cancel(ctx Context) { ctx.c.Cancel(t.f) }

func (t *Timer) pending() *replay.Future {
	if t == nil {
		return nil
	}
	return t.f
}

func (t *Timer) failure(ctx Context) error { return t.Wait(ctx) }

// Sleep waits. It returns [ErrCancelled] if the instance, or the scope of ctx, is
// cancelled meanwhile.
func Sleep(ctx Context, d time.Duration, opts ...TimerOption) error {
	return NewTimer(ctx, d, opts...).Wait(ctx)
}

// SleepUntil waits until a time has come.
func SleepUntil(ctx Context, at time.Time, opts ...TimerOption) error {
	return NewTimerAt(ctx, at, opts...).Wait(ctx)
}

// timeoutError is an [ErrTimeout] with words of its own.
func timeoutError(message string) error {
	return &Error{Type: engine.TypeTimeout, Message: message}
}
