package workers_test

import (
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
)

// TestEntityOfAWorker: a worker runs the operations of entities, and the state is kept when another one takes over.
func TestEntityOfAWorker(t *testing.T) {
	t.Parallel()
	counter := abide.NewEntity[int]("counter")
	add := abide.NewOperation(counter, "add", func(_ abide.EntityContext, sum *int, n int) (int, error) {
		*sum += n
		return *sum, nil
	})
	twice := abide.NewOrchestration("twice", func(ctx abide.Context, n int) (int, error) {
		if _, err := add.Call(ctx, "a", n); err != nil {
			return 0, err
		}
		return add.Call(ctx, "a", n)
	})
	h := newHost(t)
	first := h.work(nil, counter, twice)
	run, err := twice.Start(soon(t), first, 2)
	check.OK(t, err)
	sum, err := run.Result(soon(t))
	check.OK(t, err)
	check.Equal(t, "sum", sum, 4)
	check.OK(t, first.Close())
	second := h.work(nil, counter, twice)
	run, err = twice.Start(soon(t), second, 3)
	check.OK(t, err)
	sum, err = run.Result(soon(t))
	check.OK(t, err)
	check.Equal(t, "sum after the other worker", sum, 10)
}
