package shardstore_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/shardstore"
)

// gate holds the calls of a process while it is suspended. One that is never resumed is dead.
type gate struct {
	mu      sync.Mutex
	resumed chan struct{} // nil if it is not suspended
}

func (g *gate) suspend() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.resumed == nil {
		g.resumed = make(chan struct{})
	}
}

func (g *gate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.resumed)
	g.resumed = nil
}

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	resumed := g.resumed
	g.mu.Unlock()
	if resumed == nil {
		return nil
	}
	select {
	case <-resumed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gated is a shard of a process that can be suspended.
type gated struct {
	*memstore.Process
	gate *gate
}

func (g *gated) Commit(ctx context.Context, tx *store.Tx) error {
	if err := g.gate.pass(ctx); err != nil {
		return err
	}
	return g.Process.Commit(ctx, tx)
}

func (g *gated) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	if err := g.gate.pass(ctx); err != nil {
		return store.Record{}, err
	}
	return g.Process.Get(ctx, key)
}

func (g *gated) Take(ctx context.Context, things []store.Thing) (store.Cargo, error) {
	if err := g.gate.pass(ctx); err != nil {
		return store.Cargo{}, err
	}
	return g.Process.Take(ctx, things)
}

// gatedMover starts a move of a tenant in a process that is suspended as soon as the tenant is closed, and
// returns when it is.
func gatedMover(t *testing.T, f *fleet, tenant, to string) (g *gate, moved <-chan error) {
	t.Helper()
	g = &gate{}
	var shards []shardstore.Shard
	for i, st := range f.stores {
		shards = append(shards, shardstore.Shard{Name: string(rune('a' + i)), Store: &gated{st.Process(), g}})
	}
	mover, err := shardstore.New(t.Context(), shards, shardstore.Options{Clock: base.System{}, Mover: true})
	ok(t, err)
	t.Cleanup(func() { ok(t, mover.Close()) })
	closed, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		ended <- mover.Move(t.Context(), shardstore.OneTenant(tenant), to, func(at shardstore.Progress) {
			if at.Stage == shardstore.Closed {
				once.Do(func() { g.suspend(); close(closed) })
			}
		})
	}()
	<-closed
	return g, ended
}

// TestATenantWhoseMoverDiedIsOpenedSoon: the mover does not write its progress any more.
func TestATenantWhoseMoverDiedIsOpenedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		p := f.process()
		const tenant = "acme"
		fill(t, p.Store, tenant, 10)
		g, ended := gatedMover(t, f, tenant, other(p.Store, tenant))
		begun := base.System{}.Now()
		ok(t, p.Commit(t.Context(), record(tenant, "waited"))) // until the tenant is open
		if waited := (base.System{}).Now().Sub(begun); waited < 5*time.Second || waited > 8*time.Second {
			t.Errorf("the tenant was closed for %v, want 5 to 8 s", waited)
		}
		g.resume() // so that the bubble ends
		ok(t, <-ended)
	})
}

// TestASuspendedMoverGoesOn: the tenant was opened again meanwhile, and has changed. The mover copies that,
// and closes it once more.
func TestASuspendedMoverGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		p := f.process()
		const tenant = "acme"
		fill(t, p.Store, tenant, 10)
		to := other(p.Store, tenant)
		g, moved := gatedMover(t, f, tenant, to)
		ok(t, p.Commit(t.Context(), record(tenant, "waited")))
		g.resume()
		ok(t, <-moved)
		synctest.Wait()
		c := contents(t, f.stores[to[0]-'a'], tenant)
		if d := p.Directory(); d.Of(tenant) != to || d.Move != nil || len(c.Records) != 11 {
			t.Errorf("the tenant is on %s with %d records, want 11, and the move is %+v", d.Of(tenant), len(c.Records), d.Move)
		}
	})
}

// deaf is a shard that does not tell a process of changes once it has been silenced.
type deaf struct {
	*memstore.Process
	silent *atomic.Bool
}

func (d *deaf) Await(ctx context.Context, key store.RecordKey, after int64) (store.Record, error) {
	r, err := d.Process.Await(ctx, key, after)
	if d.silent.Load() {
		<-ctx.Done()
		return store.Record{}, ctx.Err()
	}
	return r, err
}

// TestAProcessThatIsNotToldOfTheSwitchFindsOut: the mover may have died before it has told anybody.
func TestAProcessThatIsNotToldOfTheSwitchFindsOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		silent := &atomic.Bool{}
		p := open(t, base.System{},
			shardstore.Shard{Name: "a", Store: &deaf{f.stores[0].Process(), silent}}, shardstore.Shard{Name: "b", Store: &deaf{f.stores[1].Process(), silent}})
		const tenant = "acme"
		to := other(p, tenant)
		begun := base.System{}.Now()
		ok(t, f.process().Move(t.Context(), shardstore.OneTenant(tenant), to, func(at shardstore.Progress) {
			if at.Stage == shardstore.Closed {
				synctest.Wait()
				silent.Store(true)
			}
		}))
		if took := (base.System{}).Now().Sub(begun); p.Directory().Of(tenant) != to || took > 3*time.Second {
			t.Errorf("after %v the process takes the tenant to be on %s", took, p.Directory().Of(tenant))
		}
	})
}
