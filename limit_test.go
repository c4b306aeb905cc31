package abide_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide"
)

// TestLimits runs activities, instances and children under limits of the API.
func TestLimits(t *testing.T) {
	two := abide.NewLimit("two", abide.Concurrency(2))
	perUser := abide.NewLimit("per-user", abide.Concurrency(1), abide.PerKey())
	rate := abide.NewLimit("rate", abide.Rate(2, time.Second).Burst(1))
	var now, most atomic.Int32
	work := abide.NewActivity("work", func(context.Context, string) (string, error) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-time.After(time.Second)
		now.Add(-1)
		return "done", nil
	}, abide.Under(two))
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, user string) (string, error) {
		return work.Call(ctx, user, abide.UnderKey(perUser, user), abide.Under(rate), abide.Priority(3))
	})
	parent := abide.NewOrchestration("parent", func(ctx abide.Context, n int) (int, error) {
		var all []abide.Awaitable
		for i := range n {
			all = append(all, flow.Go(ctx, fmt.Sprint("user-", i%3), abide.Under(two), abide.Priority(i)))
		}
		return n, abide.Join(ctx, all...)
	})
	onStage(t, []abide.Definition{work, flow, parent}, func(s *stage) {
		start := time.Now()
		expect(s, parent, 6, 6)
		if most.Load() > 2 || time.Since(start) < 3*time.Second {
			t.Errorf("%d were under way at a time, and all took %v", most.Load(), time.Since(start))
		}
		limits, err := s.Limits(s.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, l := range limits {
			names = append(names, l.Name)
		}
		if got := strings.Join(names, " "); got != "per-user rate two" {
			t.Errorf("limits: %s", got)
		}
		if r := limits[1].Rule(); r != (abide.LimitRule{Rate: 2, Per: time.Second, Burst: 1}) {
			t.Errorf("rule: %+v", r)
		}
	})
}

func TestLimitsThatAreNotValid(t *testing.T) {
	keyed := abide.NewLimit("keyed", abide.Concurrency(1), abide.PerKey())
	flow := abide.NewOrchestration("flow", func(abide.Context, abide.None) (abide.None, error) { return abide.None{}, nil })
	onStage(t, []abide.Definition{flow}, func(s *stage) {
		for _, tc := range []struct {
			opt   abide.StartOption
			words string
		}{
			{abide.Under(abide.NewLimit("none")), "neither"},
			{abide.Under(abide.NewLimit("zero", abide.Concurrency(0))), "neither"},
			{abide.Under(abide.NewLimit("less", abide.Rate(0, time.Second))), "rate"},
			{abide.Under(abide.NewLimit("much", abide.Concurrency(1<<40))), "10000"},
			{abide.Under(keyed), "no key"},
			{abide.UnderKey(abide.NewLimit("unkeyed", abide.Concurrency(1)), "k"), "no keys"},
			{abide.Under(nil), "empty"},
			{abide.Priority(101), "-100 to 100"},
		} {
			_, err := flow.Start(s.Context(), s, abide.None{}, tc.opt)
			if !errors.Is(err, abide.ErrInvalid) || !strings.Contains(err.Error(), tc.words) {
				t.Errorf("error %v, want one about %q", err, tc.words)
			}
		}
	})
}
