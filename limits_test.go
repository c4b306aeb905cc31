package abide_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// TestLeastLimits: on a store that takes no more than programs need, an orchestration may do more at
// once than a commit holds, and receive more than that.
func TestLeastLimits(t *testing.T) {
	t.Parallel()
	s := memstore.New(memstore.Options{Limits: store.LeastLimits()})
	t.Cleanup(func() { _ = s.Close() })
	const many = 9_000
	large := strings.Repeat("x", 1_000)
	measure := abide.NewActivity("measure", func(_ context.Context, text string) (int, error) { return len(text), nil })
	word := abide.NewEvent[string]("word")
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, n int) (int, error) {
		futures := make([]*abide.Future[int], n)
		for i := range futures {
			futures[i] = measure.Go(ctx, large)
		}
		sizes, err := abide.All(ctx, futures...)
		if err != nil {
			return 0, err
		}
		sum := 0
		for _, size := range sizes {
			sum += size
		}
		for range n {
			text, err := word.Wait(ctx)
			if err != nil {
				return 0, err
			}
			sum += len(text)
		}
		return sum, nil
	})
	e, err := abide.New(s, abide.Config{Register: []abide.Definition{flow, measure}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	i, err := flow.Start(t.Context(), e, many)
	if err != nil {
		t.Fatal(err)
	}
	for range many {
		if err := word.Raise(t.Context(), e, i.ID(), large); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := i.Result(t.Context()); err != nil || got != 2*many*len(large) {
		t.Errorf("the result is %d, %v; want %d", got, err, 2*many*len(large))
	}
}

// TestStoreThatTakesTooLittle: an engine refuses it, and says what is needed.
func TestStoreThatTakesTooLittle(t *testing.T) {
	t.Parallel()
	l := store.LeastLimits()
	l.TxOps--
	_, err := abide.New(memstore.New(memstore.Options{Limits: l}), abide.Config{})
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(store.LeastLimits().TxOps, " are needed")) {
		t.Errorf("%v, want that more is needed", err)
	}
}
