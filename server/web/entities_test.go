package web_test

import (
	"log/slog"
	"testing"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
)

var (
	basket = abide.NewEntity[map[string]int]("basket")
	put    = abide.NewOperation(basket, "put", func(_ abide.EntityContext, b *map[string]int, what string) (int, error) {
		if *b == nil {
			*b = map[string]int{}
		}
		(*b)[what]++
		return len(*b), nil
	})
	packing = abide.NewOrchestration("packing", func(ctx abide.Context, _ abide.None) (abide.None, error) {
		unlock, err := abide.Lock(ctx, basket.ID("7"))
		if err != nil {
			return abide.None{}, err
		}
		defer unlock()
		_, err = approved.Wait(ctx)
		return abide.None{}, err
	})
	filling = abide.NewOrchestration("filling", func(ctx abide.Context, what string) (int, error) { return put.Call(ctx, "7", what) })
)

// TestEntitiesOnThePage: the page lists entities, and shows the state of one, who has locked it and what waits for the
// lock; an instance shows that it waits for an entity.
func TestEntitiesOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e, err := abide.New(w.store, abide.Config{Register: []abide.Definition{basket, packing, filling}, Unlisted: true, Logger: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	defer e.Close()
	check.OK(t, put.Send(t.Context(), e, "7", "apples"))
	entity := func(is func(abide.EntityInfo) bool) {
		t.Helper()
		check.Eventually(t, "the entity is as it should be", func() bool {
			info, err := e.Entity(t.Context(), abide.Ref{ID: "@basket@7"})
			return err == nil && is(info)
		})
	}
	entity(func(i abide.EntityInfo) bool { return i.State != nil })
	_, err = packing.Start(t.Context(), e, abide.None{}, abide.ID("packing-1"))
	check.OK(t, err)
	entity(func(i abide.EntityInfo) bool { return i.LockedBy == "packing-1" })
	_, err = filling.Start(t.Context(), e, "pears", abide.ID("filling-1"))
	check.OK(t, err)
	entity(func(i abide.EntityInfo) bool { return i.Backlog == 1 })
	w.contains(w.see("/entities?prefix=@basket"), "@basket@7</a>", "packing-1", "apples")
	w.contains(w.see("/entities?prefix=@other"), "There are no such entities")
	w.contains(w.see("/entities/default/@basket@7"), "/instances/default/packing-1", "&#34;apples&#34;: 1", "call of put", "/instances/default/filling-1")
	w.contains(w.see("/instances/default/filling-1"), ">entity</span> <a href=", "operation <strong>put</strong>", "Operation put of @basket@7 called")
}
