package abide_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/store"
)

var (
	tenantGo   = abide.NewEvent[string]("go")
	tenantKid  = abide.NewOrchestration("kid", func(ctx abide.Context, _ string) (string, error) { return tenantGo.Wait(ctx) })
	tenantFlow = abide.NewOrchestration("flow", func(ctx abide.Context, child string) (string, error) {
		if child != "" {
			return tenantKid.Call(ctx, "", abide.ID(child))
		}
		if err := abide.Sleep(ctx, 100*time.Hour, abide.Named("late")); err != nil {
			return "", err
		}
		return tenantGo.Wait(ctx)
	})
)

// TestAnEmptyTenantIsTheDefaultOne: both name the same instance in every call, and results have
// the name.
func TestAnEmptyTenantIsTheDefaultOne(t *testing.T) {
	onStage(t, []abide.Definition{tenantFlow, tenantKid}, func(s *stage) {
		ctx := s.month()
		i, err := tenantFlow.Start(ctx, s, "", abide.ID("a"), abide.Tenant(abide.DefaultTenant))
		s.check(err)
		same(s, "the handle's", i.Ref(), abide.Ref{Tenant: "default", ID: "a"})
		same(s, "another handle's", tenantFlow.Instance(s, "a", abide.Tenant("default")).Ref(), abide.Ref{Tenant: "default", ID: "a"})
		ref := abide.Ref{Tenant: "default", ID: "a"}
		s.wait(time.Second)
		info, err := s.Get(ctx, ref)
		s.check(err)
		same(s, "what comes out", info.Ref, abide.Ref{Tenant: "default", ID: "a"})
		info, err = s.Get(ctx, abide.Ref{ID: "a"})
		s.check(err)
		same(s, "by no tenant", info.Ref, ref)
		stored, err := s.store.Get(ctx, store.RecordKey{Kind: "instance", ID: "a"})
		s.check(err)
		same(s, "what is stored", stored.Version, info.Revision)

		started, err := tenantFlow.Start(ctx, s, "", abide.ID("a"))
		s.check(err)
		same(s, "it exists", started.Existed(), true)

		info, err = s.WaitChange(ctx, ref, info.Revision-1)
		s.check(err)
		same(s, "awaited", info.Status, abide.Running)
		waits, err := s.Waits(ctx, ref)
		s.check(err)
		same(s, "waits", len(waits), 1)
		history, err := s.History(ctx, ref, 0)
		s.check(err)
		same(s, "history of", history.Ref, abide.Ref{Tenant: "default", ID: "a"})
		s.check(s.Suspend(ctx, ref, "why"))
		s.wait(time.Second)
		s.check(s.Resume(ctx, ref))
		s.check(s.MoveTimer(ctx, ref, "late", time.Now()))
		fork, err := s.Fork(ctx, ref, 2, "fork")
		s.check(err)
		same(s, "fork", fork, abide.Ref{Tenant: "default", ID: "fork"})
		s.check(s.Cancel(ctx, abide.Ref{Tenant: "default", ID: "fork"}, "why"))
		_, err = s.WaitEnd(ctx, abide.Ref{Tenant: "default", ID: "fork"})
		s.check(err)
		s.check(tenantGo.Raise(ctx, s, "a", "done", abide.Tenant("default")))
		got, err := i.Result(ctx)
		s.check(err)
		same(s, "result", got, "done")
		s.check(s.Restart(ctx, ref))
		s.check(s.Terminate(ctx, ref, "why"))
		_, err = s.WaitEnd(ctx, ref)
		s.check(err)
		s.check(s.Delete(ctx, ref))
		if _, err := s.Get(ctx, ref); !errors.Is(err, abide.ErrNotFound) {
			s.Errorf("it is still there: %v", err)
		}
	})
}

// TestDefaultTenantOfChildren is that of their parent, and of lists.
func TestDefaultTenantOfChildren(t *testing.T) {
	onStage(t, []abide.Definition{tenantFlow, tenantKid}, func(s *stage) {
		ctx := s.month()
		parent, err := tenantFlow.Start(ctx, s, "kid", abide.ID("parent"), abide.Tenant("default"))
		s.check(err)
		_, err = tenantFlow.Start(ctx, s, "", abide.ID("other"), abide.Tenant("acme"))
		s.check(err)
		s.wait(time.Second)
		for _, tenant := range []string{"", "default"} {
			page, err := s.List(ctx, abide.Filter{Tenant: &tenant})
			s.check(err)
			var ids []string
			for _, info := range page.Instances {
				ids = append(ids, info.Ref.String())
			}
			if slices.Sort(ids); !slices.Equal(ids, []string{`"kid"`, `"parent"`}) {
				s.Errorf("instances of the tenant %q: %v", tenant, ids)
			}
		}
		all, err := s.List(ctx, abide.Filter{})
		s.check(err)
		same(s, "all instances", len(all.Instances), 3)
		s.check(tenantGo.Raise(ctx, s, "kid", "done", abide.Tenant("default")))
		got, err := parent.Result(ctx)
		s.check(err)
		same(s, "result", got, "done")
	})
}

// TestDefaultTenantInQuarantine includes what timers and actions have under that name, on
// pages of any size.
func TestDefaultTenantInQuarantine(t *testing.T) {
	onStage(t, nil, func(s *stage) {
		ctx := s.month()
		count := map[string]int{"": 5, "default": 4, "acme": 2}
		for tenant, n := range count {
			for i := range n {
				m := store.Message{Key: store.Key{Queue: "q", Tenant: tenant, Name: fmt.Sprint(i)}, ID: "m"}
				s.check(s.store.Commit(ctx, &store.Tx{PutRecords: []store.PutRecord{store.Quarantine(m, "r", "why", time.Now())}}))
			}
		}
		walk := func(tenant *string, limit int) (all []abide.Quarantined) {
			filter := abide.QuarantineFilter{Tenant: tenant, Limit: limit}
			for range 20 {
				page, err := s.Quarantine(ctx, filter)
				s.check(err)
				if limit > 0 && len(page.Messages) > limit {
					s.Errorf("%d on a page of %d", len(page.Messages), limit)
				}
				if len(page.Messages) == 0 && filter.Cursor != "" {
					s.Errorf("an empty page of %d", limit)
				}
				all = append(all, page.Messages...)
				if filter.Cursor = page.Next; page.Next == "" {
					return all
				}
			}
			s.Fatal("no end")
			return nil
		}
		for _, tenant := range []string{"", "default"} {
			for limit := range 11 {
				if got := walk(&tenant, limit); len(got) != 9 {
					s.Errorf("%d messages of the tenant %q, on pages of %d; want 9", len(got), tenant, limit)
				}
			}
			if _, err := s.Quarantine(ctx, abide.QuarantineFilter{Tenant: &tenant, Limit: -1}); !errors.Is(err, abide.ErrInvalid) {
				s.Errorf("a negative limit: %v", err)
			}
			if _, err := s.Quarantine(ctx, abide.QuarantineFilter{Tenant: &tenant, Limit: -1, Cursor: "d"}); !errors.Is(err, abide.ErrInvalid) {
				s.Errorf("a negative limit after a cursor: %v", err)
			}
		}
		same(s, "all", len(walk(nil, 3)), 11)
		acme := "acme"
		same(s, "of another tenant", len(walk(&acme, 1)), 2)
		tenant := "default"
		for i, m := range walk(&tenant, 0) {
			if i%2 == 0 {
				s.check(s.Redrive(ctx, "default", m.ID))
			} else {
				s.check(s.Discard(ctx, "default", m.ID))
			}
		}
		same(s, "what is left", len(walk(&tenant, 0)), 0)
		refuses(s.T, s.Redrive(ctx, "default", "none"), abide.ErrNotFound)
		refuses(s.T, s.Discard(ctx, "default", "none"), abide.ErrNotFound)
		same(s, "what is left of another tenant", len(walk(&acme, 0)), 2)
	})
}
