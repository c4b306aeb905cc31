package remote_test

import (
	"errors"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/check"
)

// TestLimits: a client of a server starts under limits and changes them as an engine does.
func TestLimits(t *testing.T) {
	one := abide.NewLimit("one", abide.Concurrency(1))
	rate := abide.NewLimit("rate", abide.Rate(100, time.Second), abide.PerKey())
	sleeps := abide.NewOrchestration("sleeps", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		return abide.None{}, abide.Sleep(ctx, time.Hour)
	})
	both(t, []abide.Definition{sleeps}, func(s *stage) {
		begun := time.Now()
		first, err := sleeps.Start(s.month(), s, abide.None{}, abide.ID("a"), abide.Under(one), abide.UnderKey(rate, "ann"), abide.Priority(4))
		check.OK(s.T, err)
		<-time.After(time.Second)
		second, err := sleeps.Start(s.month(), s, abide.None{}, abide.ID("b"), abide.Under(one), abide.Tenant("default"))
		check.OK(s.T, err)
		<-time.After(time.Second)
		info, err := s.Get(s.month(), first.Ref())
		check.OK(s.T, err)
		check.Equal(s.T, "limits", info.Limits, []history.Limit{{Name: "one", Concurrency: 1}, {Name: "rate", Keyed: true, Key: "ann", Rate: 100, Per: time.Second, Burst: 10}})
		check.Equal(s.T, "priority", info.Priority, 4)
		check.Equal(s.T, "the first is admitted", info.Admitted, true)
		info, err = s.Get(s.month(), second.Ref())
		check.OK(s.T, err)
		check.Equal(s.T, "the second is admitted", info.Admitted, false)
		waits, err := s.Waits(s.month(), second.Ref())
		check.OK(s.T, err)
		if len(waits) != 1 || waits[0].Limit == nil || *waits[0].Limit != (abide.LimitWait{Limit: "one", Since: waits[0].Since, Ahead: 0}) || waits[0].Kind != history.ExecutionStarted {
			s.Errorf("waits: %+v", waits)
		}
		list, err := s.Limits(s.month(), "")
		check.OK(s.T, err)
		if len(list) != 2 || list[0].Tenant != "default" || list[0].Name != "one" || list[0].InUse != 1 || list[0].Waiting != 1 || !list[0].Keys[0].Oldest.Equal(waits[0].Since) || !list[1].PerKey {
			s.Errorf("limits: %+v", list)
		}
		info2, err := s.ChangeLimit(abide.WithActor(s.month(), "ann"), "", "one", abide.LimitChange{Set: &abide.LimitRule{Rate: 50, Per: time.Minute}, Paused: new(true)})
		check.OK(s.T, err)
		if info2.Rule() != (abide.LimitRule{Rate: 50, Per: time.Minute, Burst: 1}) || !info2.Paused || *info2.Declared != (abide.LimitRule{Concurrency: 1}) || info2.ChangedAt.IsZero() {
			s.Errorf("changed: %+v", info2)
		}
		_, err = s.ChangeLimit(s.month(), "", "one", abide.LimitChange{Unset: true, Revision: list[0].Revision})
		check.Equal(s.T, "conflict", errors.Is(err, abide.ErrConflict), true)
		info2, err = s.ChangeLimit(s.month(), "", "one", abide.LimitChange{Unset: true, Paused: new(false), Revision: info2.Revision})
		check.OK(s.T, err)
		check.Equal(s.T, "rule", info2.Rule(), abide.LimitRule{Concurrency: 1})
		for _, paused := range []bool{true, false} {
			info2, err = s.ChangeLimit(s.month(), "", "one", abide.LimitChange{Paused: &paused})
			check.OK(s.T, err)
			check.Equal(s.T, "paused", info2.Paused, paused)
		}
		for _, what := range []struct {
			name   string
			change abide.LimitChange
			want   error
		}{
			{"none", abide.LimitChange{Unset: true}, abide.ErrNotFound},
			{"none", abide.LimitChange{Paused: new(true)}, abide.ErrNotFound},
			{"one", abide.LimitChange{}, abide.ErrInvalid},
			{"one", abide.LimitChange{Set: &abide.LimitRule{Concurrency: -1}}, abide.ErrInvalid},
			{"", abide.LimitChange{Unset: true}, abide.ErrInvalid},
			{"a/b", abide.LimitChange{Unset: true}, abide.ErrInvalid},
		} {
			if _, err := s.ChangeLimit(s.month(), "", what.name, what.change); !errors.Is(err, what.want) {
				s.Errorf("change of %q to %+v: %v", what.name, what.change, err)
			}
		}
		_, err = s.Limit(s.month(), "other", "one")
		check.Equal(s.T, "another tenant has it", errors.Is(err, abide.ErrNotFound), true)
		_, err = second.Result(s.month())
		check.OK(s.T, err)
		if took := time.Since(begun); took < 2*time.Hour {
			s.Errorf("both ended after %v", took)
		}
	})
}
