// Package roots has what is orchestration code, and what is not.
package roots

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/abidehq/abide"
)

// A named function, and what it calls.

var (
	_ = abide.NewOrchestration("named", named)
	_ = abide.NewActivity("activity", activity)
)

func named(ctx abide.Context, in int) (int, error) {
	return first(in), nil
}

func first(in int) int { return second(in) + second(in) }

func second(in int) int {
	time.Sleep(1) // want `time.Sleep uses the wall clock: use abide.Sleep \(in orchestration "named", through first -> second\)`
	if in > 0 {
		return first(in - 1)
	}
	return 0
}

// An activity does what it wants.
func activity(ctx context.Context, in int) (int, error) {
	return onlyActivities(), os.Remove("x")
}

func onlyActivities() int { return time.Now().Second() }

// A method value, and a method that it calls.

type service struct{ now func() time.Time }

func (s *service) run(ctx abide.Context, in int) (int, error) { return s.tick(), nil }

func (s *service) tick() int {
	return time.Now().Second() // want `\(in orchestration "method", through service.tick\)$`
}

const methodName = "method"

func setUp() {
	s := &service{now: time.Now}
	_ = abide.NewOrchestration(methodName, s.run)
	_ = abide.NewOrchestration("expression", func(ctx abide.Context, in int) (int, error) {
		_ = os.Getenv("A") // want `\(in orchestration "expression"\)$`
		return 0, nil
	})
}

// Variables that hold functions.

var flow = func(ctx abide.Context, in int) (int, error) {
	_ = os.Getenv("B") // want `\(in orchestration "variable"\)$`
	return helper(), nil
}

var helper = func() int {
	return time.Now().Second() // want `\(in orchestration "variable"\)$`
}

var _ = abide.NewOrchestration("variable", flow)

func local() {
	f := named
	f = func(ctx abide.Context, in int) (int, error) {
		_ = os.Getenv("C") // want `\(in orchestration "local"\)$`
		return 0, nil
	}
	_ = abide.NewOrchestration("local", f)
}

// A name that is not a constant is shown as it is written. Who registers an
// orchestration does not call it: there is no fact about the function.

func Register(prefix string) {
	_ = abide.NewOrchestration(prefix+"x", func(ctx abide.Context, in int) (int, error) {
		_ = os.Getenv("D") // want `\(in orchestration "prefix \+ \\"x\\""\)$`
		return 0, nil
	})
}

// Generic functions.

func loop[T any](ctx abide.Context, in T) (T, error) { return in, wait[T]() }

func wait[T any]() error {
	time.Sleep(1) // want `\(in orchestration "generic", through wait\)$`
	return nil
}

type box[T any] struct{}

func (b box[T]) open() {
	_ = os.Getenv("E") // want `\(in unpack, which takes an abide.Context, through box.open\)$`
}

func (b box[T]) close() {
	_ = os.Getenv("O") // want `\(in unpack, which takes an abide.Context, through box.close\)$`
}

func unpack(ctx abide.Context) {
	box[int]{}.open()
	last := box[string]{}.close
	last()
}

var _ = abide.NewOrchestration("generic", loop[string])

// Functions that take a Context, wherever they are registered.

func taking(ctx abide.Context) {
	_ = os.Getenv("F") // want `\(in taking, which takes an abide.Context\)$`
}

func making() func(abide.Context, int) (int, error) {
	_ = os.Getenv("not an orchestration")
	return func(ctx abide.Context, in int) (int, error) {
		_ = os.Getenv("G") // want `\(in a function that takes an abide.Context\)$`
		return 0, nil
	}
}

var _ = abide.NewOrchestration("made", making())

// A long chain is shortened.

func long(ctx abide.Context) { a() }

func a() { b() }
func b() { c() }
func c() { d() }
func d() { e() }
func e() { f() }
func f() { g() }
func g() { h() }
func h() {
	_ = os.Getenv("N") // want `through a -> b -> c -> d -> … -> g -> h\)$`
}

// Closures within an orchestration, and steps, which are none of it.

func closures(ctx abide.Context, in []int) (int, error) {
	nested := func() {
		_ = os.Getenv("H") // want `\(in closures, which takes an abide.Context\)$`
	}
	nested()
	slices.SortFunc(in, compare)
	_ = abide.Go(ctx, func(ctx abide.Context) (int, error) {
		_ = os.Getenv("I") // want `os.Getenv depends on`
		return 0, nil
	})
	_ = abide.RunSaga(ctx, func(saga *abide.Saga) error {
		_ = os.Getenv("L") // want `os.Getenv depends on`
		saga.Undo(func(ctx abide.Context) error {
			_ = os.Getenv("M") // want `os.Getenv depends on`
			return nil
		})
		return nil
	})
	defer func() {
		_ = os.Getenv("J") // want `os.Getenv depends on`
	}()
	_ = service{now: func() time.Time {
		return time.Now() // want `time.Now uses the wall clock`
	}}

	_, _ = abide.Step(ctx, "literal", func(context.Context) (int, error) {
		inner := func() int { return time.Now().Second() }
		return inner(), os.Remove("x")
	})
	step := func(context.Context) (time.Time, error) { return time.Now(), nil }
	_, _ = abide.Step(ctx, "variable", step)
	_, _ = abide.Step(ctx, "function", sideEffect)
	_, _ = myStep(ctx, func(context.Context) (int, error) { return 0, os.Remove("x") })
	_ = abide.NewActivity("inside", func(_ context.Context, in int) (int, error) { return 0, os.Remove("x") })

	// But a step's function that is called as any other is a part of the caller.
	_, _ = called(context.Background())
	return 0, nil
}

func compare(a, b int) int {
	_ = os.Getenv("K") // want `\(in closures, which takes an abide.Context, through compare\)$`
	return a - b
}

func sideEffect(context.Context) (int, error) { return 0, os.Remove("x") }

func called(context.Context) (int, error) {
	return 0, os.Remove("x") // want `\(in closures, which takes an abide.Context, through called\)$`
}

func myStep[T any](ctx abide.Context, f func(context.Context) (T, error)) (T, error) {
	return abide.Step(ctx, "mine", f)
}
