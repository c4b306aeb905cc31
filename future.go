package abide

import (
	"errors"
	"time"

	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/engine"
	"github.com/abidehq/abide/internal/replay"
)

// Awaitable is what an orchestration can wait for: a [Future] or a [Timer].
type Awaitable interface {
	pending() *replay.Future
	failure(ctx Context) error
}

// Future is the pending result of an activity, a child or a coroutine, or a pending event.
type Future[T any] struct {
	f      *replay.Future
	result func(ctx Context) (T, error) // of f, when it is known
	cancel func()                       // instead of cancelling f
}

var _ Awaitable = (*Future[int])(nil)

// Get waits until the future is ready, and returns its value or error.
func (f *Future[T]) Get(ctx Context) (T, error) {
	ctx.c.Wait(f.f)
	return f.result(ctx)
}

// Ready reports whether Get returns without waiting.
func (f *Future[T]) Ready() bool { return f.f.Done() }

// Cancel cancels the activity, child or wait for an event: Get returns [ErrCancelled]. An
// activity that is running has its context cancelled, and its result is discarded; a child is
// asked to cancel. A future that is ready stays as it is. The future of a coroutine cancels what
// the coroutine waits for, and Get returns what its function returns.
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

// newFuture returns a future whose value is in history; wrap adds to an error what failed.
func newFuture[T any](f *replay.Future, of thing, wrap func(*history.Failure) error) *Future[T] {
	return &Future[T]{f: f, result: func(ctx Context) (T, error) {
		data, failure := f.Result()
		if failure != nil {
			var zero T
			return zero, wrap(failure)
		}
		v, err := decode[T](ctx.env.codec, data)
		if err != nil {
			ctx.stallPayload(f.Answer(), of.kind, of, err)
		}
		return v, nil
	}}
}

// Select waits until one of its arguments is ready and returns its index. If several are ready,
// it is the one that was ready first. The others stay pending; cancel those that are no longer
// needed: the future of an event that is not cancelled takes the next event. A cancelled future
// or timer is ready, so check what Get or Wait returns. Nil arguments are ignored; without any
// other argument Select returns -1.
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

// pending returns the future behind a, or nil.
func pending(a Awaitable) *replay.Future {
	if a == nil {
		return nil
	}
	return a.pending()
}

// Join waits until all arguments are ready and returns their errors, joined in the order of the
// arguments. Nil arguments are ignored.
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

// All waits until all futures are ready and returns their values in the order of the arguments.
// If some failed, it returns their errors, joined, beside the values of the others.
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

// Go runs f as a coroutine. Coroutines of an instance run one at a time and switch only where
// they wait, so they need no locks.
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

// Timer is a durable timer. It survives restarts and never fires early.
type Timer struct{ f *replay.Future }

var _ Awaitable = (*Timer)(nil)

// NewTimer creates a timer that fires after d, at once if d is not positive.
func NewTimer(ctx Context, d time.Duration, opts ...TimerOption) *Timer {
	return NewTimerAt(ctx, ctx.c.Now().Add(d), opts...)
}

// NewTimerAt creates a timer that fires at a time, at once if that has passed.
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

// maxYear is the latest year for which a timer can be set.
const maxYear = 9000

// Wait waits until the timer has fired. It returns [ErrCancelled] if the timer was cancelled.
func (t *Timer) Wait(ctx Context) error {
	ctx.c.Wait(t.f)
	_, failure := t.f.Result()
	return errorOf(failure)
}

// At returns the time at which the timer fires or has fired.
func (t *Timer) At() time.Time { return t.f.At() }

// Fired reports whether the timer has fired.
func (t *Timer) Fired() bool {
	_, failure := t.f.Result()
	return t.f.Done() && failure == nil
}

// Move changes when the timer fires. It returns false if the timer has fired already or was
// cancelled.
func (t *Timer) Move(ctx Context, at time.Time) bool {
	if at.Year() > maxYear {
		ctx.stallf("limit: a timer is moved to %v; up to the year %d is allowed", at, maxYear)
	}
	return ctx.c.Move(t.f, at)
}

// Cancel cancels the timer.
func (t *Timer) Cancel(ctx Context) { ctx.c.Cancel(t.f) }

func (t *Timer) pending() *replay.Future {
	if t == nil {
		return nil
	}
	return t.f
}

func (t *Timer) failure(ctx Context) error { return t.Wait(ctx) }

// Sleep waits for d. It returns [ErrCancelled] if the instance or the scope of ctx is cancelled
// meanwhile.
func Sleep(ctx Context, d time.Duration, opts ...TimerOption) error {
	return NewTimer(ctx, d, opts...).Wait(ctx)
}

// SleepUntil waits until a time. It returns [ErrCancelled] as [Sleep] does.
func SleepUntil(ctx Context, at time.Time, opts ...TimerOption) error {
	return NewTimerAt(ctx, at, opts...).Wait(ctx)
}

// timeoutError returns an error that matches [ErrTimeout], with a message.
func timeoutError(message string) error {
	return &Error{Type: engine.TypeTimeout, Message: message}
}
