package shardstore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/shardstore"
)

// slow is a shard whose commits wait until they are let through.
type slow struct {
	*memstore.Process
	through chan struct{}
}

func (s *slow) Commit(ctx context.Context, tx *store.Tx) error {
	if len(tx.Put) > 0 {
		<-s.through
	}
	return s.Process.Commit(ctx, tx)
}

// TestAMoveWaitsForCommitsUnderWay: a process acknowledges a directory when what goes by an earlier one has
// ended, or a commit could arrive on the source after the last copy.
func TestAMoveWaitsForCommitsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		through := make(chan struct{})
		p := open(t, base.System{},
			shardstore.Shard{Name: "a", Store: &slow{f.stores[0].Process(), through}}, shardstore.Shard{Name: "b", Store: &slow{f.stores[1].Process(), through}})
		mover := f.process()
		const tenant = "acme"
		from, to := p.Directory().Of(tenant), other(p, tenant)
		committed, moved := make(chan error), make(chan error)
		go func() { committed <- p.Commit(t.Context(), put(tenant, "k")) }()
		synctest.Wait()
		go func() { moved <- mover.Move(t.Context(), shardstore.OneTenant(tenant), to, nil) }()
		<-soon(time.Minute)
		if d := mover.Directory(); d.Of(tenant) != from {
			t.Error("the tenant was moved while a commit was under way")
		}
		close(through)
		ok(t, <-committed)
		ok(t, <-moved)
		if c := contents(t, f.stores[to[0]-'a'], tenant); len(c.Messages) != 1 {
			t.Errorf("the target has %d messages, want the one that was committed", len(c.Messages))
		}
	})
}
