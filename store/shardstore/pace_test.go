package shardstore_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/shardstore"
)

// laborious is a shard on which each batch of a move takes a while.
type laborious struct {
	*memstore.Process
	worked *time.Duration
}

func (l laborious) Replace(ctx context.Context, guard store.Guard, things []store.Thing, c store.Cargo) ([]store.Mark, error) {
	const batch = 200 * time.Millisecond
	*l.worked += batch
	<-soon(batch)
	return l.Process.Replace(ctx, guard, things, c)
}

// TestAMoveRests for as much of the time as its pace says.
func TestAMoveRests(t *testing.T) {
	t.Parallel()
	for _, pace := range []float64{0, 0.1, 0.25, 1} {
		t.Run(fmt.Sprint("pace ", pace), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 2)
				p := f.process()
				const tenant = "acme"
				for i := range 2000 {
					ok(t, p.Commit(t.Context(), record(tenant, fmt.Sprint(i))))
				}
				var worked time.Duration
				mover, err := shardstore.New(t.Context(), []shardstore.Shard{
					{Name: "a", Store: laborious{f.stores[0].Process(), &worked}}, {Name: "b", Store: laborious{f.stores[1].Process(), &worked}},
				}, shardstore.Options{Clock: base.System{}, Mover: true, Pace: pace})
				ok(t, err)
				defer func() { ok(t, mover.Close()) }()
				begun := base.System{}.Now()
				ok(t, mover.Move(t.Context(), shardstore.OneTenant(tenant), other(p.Store, tenant), nil))
				took := base.System{}.Now().Sub(begun)
				if pace == 0 {
					pace = shardstore.DefaultPace
				}
				if share := worked.Seconds() / took.Seconds(); share < pace*0.95 || share > pace*1.05 {
					t.Errorf("it worked for %v of %v, a share of %.2f, want %.2f", worked, took, share, pace)
				}
			})
		})
	}
}

// TestAPaceIsAShare of the time.
func TestAPaceIsAShare(t *testing.T) {
	t.Parallel()
	for _, pace := range []float64{-0.1, 1.1} {
		_, err := shardstore.New(t.Context(), []shardstore.Shard{{Name: "a", Store: memstore.New(memstore.Options{})}}, shardstore.Options{Pace: pace})
		is(t, err, store.ErrInvalid)
	}
}
