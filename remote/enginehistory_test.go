package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
)

func TestWaitsHistoryAndFork(t *testing.T) {
	broken := abide.NewActivity("broken", func(context.Context, abide.None) (abide.None, error) {
		return abide.None{}, errors.New("no paper")
	}, abide.Retry(0).Backoff(time.Hour, 1, time.Hour))
	child := abide.NewOrchestration("child", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		return abide.None{}, abide.Sleep(ctx, 24*time.Hour)
	})
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		return abide.None{}, abide.Join(ctx, broken.Go(ctx, abide.None{}),
			abide.NewTimer(ctx, 12*time.Hour, abide.Named("lunch")), child.Go(ctx, abide.None{}, abide.ID("c")))
	})
	loop := abide.NewOrchestration("loop", func(ctx abide.Context, n int) (int, error) {
		if err := abide.Sleep(ctx, time.Minute); err != nil || n == 3 {
			return n, err
		}
		return n, abide.ContinueAsNew(ctx, n+1)
	})
	both(t, []abide.Definition{flow, child, broken, loop}, func(s *stage) {
		i, err := flow.Start(s.Context(), s, abide.None{})
		check.OK(s.T, err)
		rig.Pass(90 * time.Minute)
		waits, err := s.Waits(s.Context(), i.Ref())
		check.OK(s.T, err)
		there, err := s.engine.Waits(s.Context(), i.Ref())
		check.OK(s.T, err)
		check.Equal(s.T, "waits", fmt.Sprint(waits), fmt.Sprint(there))
		check.Equal(s.T, "number of waits", len(waits), 3)
		check.Equal(s.T, "the error", waits[0].Err.Error(), "no paper")
		_, err = i.Fork(s.Context(), 1<<40, "")
		check.Error(s.T, err, abide.ErrInvalid, "events 1 to")
		fork, err := i.Fork(s.Context(), 3, "fork")
		check.OK(s.T, err)
		check.Equal(s.T, "fork", fork.Ref(), abide.Ref{Tenant: abide.DefaultTenant, ID: "fork"})
		_, err = i.Fork(s.Context(), 3, "fork")
		check.Error(s.T, err, abide.ErrExists, "fork")
		rig.Pass(time.Minute)
		h, err := i.History(s.Context())
		check.OK(s.T, err)
		local, err := s.engine.History(s.Context(), i.Ref(), 0)
		check.OK(s.T, err)
		check.Equal(s.T, "history", text(s, h), text(s, local))

		l, err := loop.Start(s.Context(), s, 1, abide.ID("l"))
		check.OK(s.T, err)
		_, err = l.Result(s.month())
		check.OK(s.T, err)
		for _, execution := range []int{0, 2, 3} {
			h, err := s.History(s.Context(), l.Ref(), execution)
			check.OK(s.T, err)
			local, err := s.engine.History(s.Context(), l.Ref(), execution)
			check.OK(s.T, err)
			check.Equal(s.T, "history", text(s, h), text(s, local))
			if execution == 0 {
				execution = 3
			}
			check.Equal(s.T, "execution", h.Execution, execution)
		}
		_, err = s.History(s.Context(), l.Ref(), 1)
		check.Error(s.T, err, abide.ErrNotFound, "execution 3")
		_, err = s.History(s.Context(), l.Ref(), -1)
		check.Equal(s.T, "an error", err != nil, true)
	})
}

func text(s *stage, v any) string {
	s.Helper()
	data, err := json.Marshal(v)
	check.OK(s.T, err)
	return string(data)
}

// TestLongHistoriesHaveAllEvents: they come in several pages.
func TestLongHistoriesHaveAllEvents(t *testing.T) {
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (int, error) {
		n := 0
		for range 9 {
			s, err := abide.Step(ctx, "big", func(context.Context) (string, error) { return strings.Repeat("x", 1<<20), nil })
			if err != nil {
				return 0, err
			}
			n += len(s)
		}
		return n, nil
	})
	both(t, []abide.Definition{flow}, func(s *stage) {
		i, err := flow.Start(s.Context(), s, abide.None{})
		check.OK(s.T, err)
		n, err := i.Result(s.month())
		check.OK(s.T, err)
		check.Equal(s.T, "bytes", n, 9<<20)
		h, err := i.History(s.Context())
		check.OK(s.T, err)
		ids := make([]int, len(h.Events))
		for i := range h.Events {
			ids[i] = int(h.Events[i].ID)
		}
		check.Equal(s.T, "in order", slices.IsSorted(ids) && ids[0] == 1 && ids[len(ids)-1] == len(ids), true)
		local, err := s.engine.History(s.Context(), i.Ref(), 0)
		check.OK(s.T, err)
		check.Equal(s.T, "history", text(s, h) == text(s, local), true)
	})
}

func TestQuarantineOfEvents(t *testing.T) {
	event := abide.NewEvent[string]("e")
	flow := abide.NewOrchestration("flow", func(ctx abide.Context, _ abide.None) (string, error) { return event.Wait(ctx) })
	both(t, []abide.Definition{flow}, func(s *stage) {
		for _, tenant := range []string{"", "acme"} {
			for _, id := range []string{"one", "two", "three"} {
				check.OK(s.T, event.Raise(s.Context(), s, id, "for "+id, abide.Tenant(tenant), abide.KeepFor(time.Minute)))
			}
		}
		rig.Pass(time.Hour)
		i, err := flow.Start(s.Context(), s, abide.None{}, abide.ID("other"))
		check.OK(s.T, err)
		rig.Pass(time.Hour)
		var all []abide.Quarantined
		f := abide.QuarantineFilter{Limit: 2}
		for {
			page, err := s.Quarantine(s.Context(), f)
			check.OK(s.T, err)
			all = append(all, page.Messages...)
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
		}
		check.Equal(s.T, "quarantined", len(all), 6)
		local, err := s.engine.Quarantine(s.Context(), abide.QuarantineFilter{})
		check.OK(s.T, err)
		check.Equal(s.T, "messages", text(s, all), text(s, local.Messages))
		ours, err := s.Quarantine(s.Context(), abide.QuarantineFilter{Tenant: new("acme")})
		check.OK(s.T, err)
		check.Equal(s.T, "quarantined of a tenant", len(ours.Messages), 3)
		for _, q := range ours.Messages {
			if q.Key == "one" {
				check.OK(s.T, s.Discard(s.Context(), q.Tenant, q.ID))
				check.Error(s.T, s.Discard(s.Context(), q.Tenant, q.ID), abide.ErrNotFound)
			}
			if q.Key == "two" {
				check.OK(s.T, s.Redrive(s.Context(), q.Tenant, q.ID))
			}
		}
		for _, q := range all {
			if q.Tenant == abide.DefaultTenant && q.Key == "three" {
				check.OK(s.T, s.Redrive(s.Context(), "default", q.ID))
			}
		}
		for id, tenant := range map[string]string{"two": "acme", "three": "default"} {
			j, err := flow.Start(s.Context(), s, abide.None{}, abide.ID(id), abide.Tenant(tenant))
			check.OK(s.T, err)
			got, err := j.Result(s.month())
			check.OK(s.T, err)
			check.Equal(s.T, "result", got, "for "+id)
		}
		check.OK(s.T, i.Terminate(s.Context(), ""))
	})
}
