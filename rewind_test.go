package abide_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/abidehq/abide"
)

// TestRewind: an instance that has failed of an activity goes on under its ID, and what has succeeded does
// not run again.
func TestRewind(t *testing.T) {
	var reserved, charged atomic.Int32
	reserve := abide.NewActivity("reserve", func(context.Context, int) (int, error) { return int(reserved.Add(1)), nil })
	charge := abide.NewActivity("charge", func(_ context.Context, n int) (int, error) {
		if charged.Add(1) == 1 {
			return 0, abide.Final(errors.New("the bank is closed"))
		}
		return 10 * n, nil
	})
	order := abide.NewOrchestration("order", func(ctx abide.Context, in int) (int, error) {
		n, err := reserve.Call(ctx, in)
		if err != nil {
			return 0, err
		}
		return charge.Call(ctx, n)
	})
	onStage(t, []abide.Definition{order, reserve, charge}, func(s *stage) {
		i, err := order.Start(s.Context(), s.Engine, 1, abide.ID("order-1"))
		s.check(err)
		if _, err := i.Result(s.month()); err == nil {
			s.Fatal("it has not failed")
		}
		s.check(i.Rewind(s.Context(), "the bank is open again"))
		got, err := i.Result(s.month())
		s.check(err)
		same(s, "result", got, 10)
		same(s, "reservations", reserved.Load(), 1)
		refuses(s.T, i.Rewind(s.Context(), ""), abide.ErrState, "completed")
		refuses(s.T, s.Rewind(s.Context(), abide.Ref{}, ""), abide.ErrInvalid)
	})
}
