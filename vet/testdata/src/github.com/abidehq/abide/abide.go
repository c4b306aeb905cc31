// Package abide is a stub with the signatures that the analysis knows.
package abide

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

type Context struct{ turn *int }

type (
	RegisterOption func()
	CallOption     func()
)

type Orchestration[In, Out any] struct {
	f func(Context, In) (Out, error)
}

func NewOrchestration[In, Out any](name string, f func(Context, In) (Out, error), opts ...RegisterOption) *Orchestration[In, Out] {
	return &Orchestration[In, Out]{f}
}

func (o *Orchestration[In, Out]) Call(ctx Context, in In) (out Out, err error) { return o.f(ctx, in) }

func (o *Orchestration[In, Out]) Start(ctx context.Context, c Client, in In) error { return nil }

type Activity[In, Out any] struct{}

func NewActivity[In, Out any](name string, f func(context.Context, In) (Out, error), opts ...RegisterOption) *Activity[In, Out] {
	return nil
}

func (a *Activity[In, Out]) Call(ctx Context, in In, opts ...CallOption) (out Out, err error) {
	return out, nil
}

func (a *Activity[In, Out]) Go(ctx Context, in In, opts ...CallOption) *Future[Out] { return nil }

type Future[T any] struct{}

func (f *Future[T]) Get(ctx Context) (v T, err error) { return v, nil }

func (f *Future[T]) Cancel(ctx Context) {}

type Client interface{}

type Saga struct{}

func (s *Saga) Undo(f func(ctx Context) error) {}

func RunSaga(ctx Context, f func(saga *Saga) error) error { return f(nil) }

type Event[T any] struct{}

func NewEvent[T any](name string) *Event[T] { return nil }

func (e *Event[T]) Wait(ctx Context, opts ...CallOption) (v T, err error) { return v, nil }

func Step[T any](ctx Context, name string, f func(context.Context) (T, error), opts ...CallOption) (T, error) {
	return f(context.Background())
}

func Go[T any](ctx Context, f func(Context) (T, error)) *Future[T] { return nil }

func Named(name string) CallOption { return nil }

func Sleep(ctx Context, d time.Duration, opts ...CallOption) error {
	time.Sleep(d) // inside of the package anything goes
	return nil
}

func Now(ctx Context) time.Time { return time.Now() }

func NewID(ctx Context) string { return "" }

func Rand(ctx Context) *rand.Rand { return nil }

func Logger(ctx Context) *slog.Logger { return slog.Default() }

func Select(ctx Context, cases ...any) int { return 0 }

func Join(ctx Context, futures ...any) error { return nil }
