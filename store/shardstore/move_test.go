package shardstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
	"github.com/abidehq/abide/store/shardstore"
)

// fleet is several processes on the same stores in memory.
type fleet struct {
	t      testing.TB
	stores []*memstore.Store
}

func newFleet(t testing.TB, shards int) *fleet {
	f := &fleet{t: t}
	for range shards {
		f.stores = append(f.stores, memstore.New(memstore.Options{}))
	}
	return f
}

// process is one of them.
type process struct {
	*shardstore.Store
	parts []*memstore.Process // of the shards
}

// process opens the store for another process.
func (f *fleet) process() *process {
	f.t.Helper()
	p := &process{}
	var shards []shardstore.Shard
	for i, st := range f.stores {
		p.parts = append(p.parts, st.Process())
		shards = append(shards, shardstore.Shard{Name: string(rune('a' + i)), Store: p.parts[i]})
	}
	p.Store = open(f.t, base.System{}, shards...)
	return p
}

// other returns a shard that a tenant is not on.
func other(s *shardstore.Store, tenant string) string {
	names := s.Directory().Shards
	return names[(slices.Index(names, s.Directory().Of(tenant))+1)%len(names)]
}

// contents returns all that a store holds of a tenant.
func contents(t testing.TB, s store.Movable, tenant string) store.Cargo {
	t.Helper()
	var things []store.Thing
	ok(t, s.Outline(t.Context(), []string{tenant}, func(m store.Mark) error {
		if m.Record.Kind != store.KindShards {
			things = append(things, m.Thing)
		}
		return nil
	}))
	c, err := s.Take(t.Context(), things)
	ok(t, err)
	return c
}

// fill puts something of everything for a tenant: keys with logs, messages that are visible now, soon and
// in a year, messages without a route, records, and a claim, which it returns.
func fill(t testing.TB, s *shardstore.Store, tenant string, n int) store.Claim {
	t.Helper()
	year := base.System{}.Now().Add(365 * 24 * time.Hour)
	for i := range n {
		key := store.Key{Queue: "q", Tenant: tenant, Name: fmt.Sprint("key-", i)}
		ok(t, s.Commit(t.Context(), &store.Tx{
			Append: []store.Append{{Key: key, Tag: uint64(i + 1), Route: "r", Entries: [][]byte{[]byte("one"), []byte("two")}}},
			Put: []store.Message{
				{Key: key, ID: "later", VisibleAt: year, Body: []byte("later")},
				{Key: store.Key{Queue: "q", Tenant: tenant, Name: fmt.Sprint("ready-", i)}, ID: "m", Route: "ready " + tenant, Body: []byte("now")},
				{Key: store.Key{Queue: "q", Tenant: tenant, Name: fmt.Sprint("lost-", i)}, ID: "m", TTL: time.Hour},
			},
			PutRecords: []store.PutRecord{{Record: store.Record{
				Key: store.RecordKey{Kind: "k", Tenant: tenant, ID: fmt.Sprint("record-", i)}, Status: "on", Tags: map[string]string{"a": "b"}, Body: []byte("body"), Time: noon,
			}}},
		}))
	}
	claims, err := s.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"ready " + tenant}, Max: 1, Lease: time.Hour, Owner: "who"})
	ok(t, err)
	return claims[0]
}

// TestMoveBringsEverything of a tenant, exactly as it is, leases included, and leaves nothing behind.
func TestMoveBringsEverything(t *testing.T) {
	t.Parallel()
	for _, bySlot := range []bool{false, true} {
		t.Run(fmt.Sprint("slot ", bySlot), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 3)
				p, q := f.process(), f.process()
				const tenant = "acme"
				claim := fill(t, p.Store, tenant, 20)
				fill(t, p.Store, "beta", 3)
				from, to := p.Directory().Of(tenant), other(p.Store, tenant)
				before := contents(t, f.stores[from[0]-'a'], tenant)
				unit := shardstore.OneTenant(tenant)
				if bySlot {
					unit = shardstore.OneSlot(shardstore.SlotOf(tenant))
				}
				var last shardstore.Progress
				ok(t, p.Move(t.Context(), unit, to, func(p shardstore.Progress) { last = p }))

				after := contents(t, f.stores[to[0]-'a'], tenant)
				if before.Sum() != after.Sum() || len(after.Leases) != 1 || len(after.Messages) != 60 {
					t.Errorf("moved %d keys, %d messages, %d records and %d leases; there were %d, %d, %d and %d",
						len(after.Keys), len(after.Messages), len(after.Records), len(after.Leases), len(before.Keys), len(before.Messages), len(before.Records), len(before.Leases))
				}
				left := contents(t, f.stores[from[0]-'a'], tenant)
				if len(left.Keys)+len(left.Records) > 0 {
					t.Errorf("%d keys and %d records are left behind", len(left.Keys), len(left.Records))
				}
				if d := p.Directory(); d.Of(tenant) != to || d.Move != nil || last.Stage != shardstore.Cleaning {
					t.Errorf("the tenant is on %s, the move is %v, the last progress %v", d.Of(tenant), d.Move, last)
				}
				// The claim goes on, in either process.
				synctest.Wait()
				ok(t, q.Commit(t.Context(), &store.Tx{Finish: []store.Finish{{Lease: claim.Lease()}}}))
				n, err := q.Count(t.Context(), store.Query{Kind: "k"}, 100)
				if err != nil || n != 23 {
					t.Errorf("counted %d records, %v; want 23", n, err)
				}
				// And back.
				ok(t, q.Move(t.Context(), unit, from, nil))
				synctest.Wait()
				if d := p.Directory(); d.Of(tenant) != from || len(d.Tenants) != 0 {
					t.Errorf("the tenant is on %s, and %v are apart", d.Of(tenant), d.Tenants)
				}
			})
		})
	}
}

// TestASuspendedProcessCannotCommitToWhatWasMoved: it counted as dead, so the move went on without it,
// and its commit arrives on the source after that.
func TestASuspendedProcessCannotCommitToWhatWasMoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		mover := f.process()
		const tenant = "acme"
		from, to := mover.Directory().Of(tenant), other(mover.Store, tenant)
		source := f.stores[from[0]-'a']
		suspended := source.Process()
		ok(t, suspended.Acknowledge(t.Context(), mover.Directory().Version))
		ok(t, suspended.Commit(t.Context(), record(tenant, "before")))

		moved := make(chan error)
		go func() { moved <- mover.Move(t.Context(), shardstore.OneTenant(tenant), to, nil) }()
		<-soon(30 * time.Second) // of virtual time: the move waits for the process
		if d := mover.Directory(); d.Of(tenant) != from || d.Move == nil || d.Move.Stage != shardstore.Copying {
			t.Fatalf("the move went on without the process: %+v", d.Move)
		}
		suspended.Dead()
		ok(t, <-moved)
		is(t, suspended.Commit(t.Context(), record(tenant, "after")), store.ErrFenced)
		c := contents(t, f.stores[to[0]-'a'], tenant)
		if len(c.Records) != 1 {
			t.Errorf("the target has %d records, want that of before", len(c.Records))
		}
	})
}

// TestAProcessThatWasTakenForDeadGoesOn: it reads the directory, acknowledges it, and its commits go
// through, to where the tenant is now.
func TestAProcessThatWasTakenForDeadGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		p := f.process()
		for _, part := range p.parts {
			part.Dead()
		}
		for i := range 20 {
			ok(t, p.Commit(t.Context(), record(fmt.Sprint("tenant-", i), "r")))
		}
	})
}

// TestAUnitThatStaysClosedIsOpenedAgain: its mover died, and any process sees to it.
func TestAUnitThatStaysClosedIsOpenedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		p := f.process()
		const tenant = "acme"
		to := other(p.Store, tenant)
		ok(t, p.Commit(t.Context(), put(tenant, "k")))
		stop := errors.New("killed")
		ctx, kill := context.WithCancelCause(t.Context())
		mover := f.process()
		go func() {
			_ = mover.Move(ctx, shardstore.OneTenant(tenant), to, func(at shardstore.Progress) {
				if at.Stage == shardstore.Closed {
					<-ctx.Done() // it hangs while the tenant is closed
				}
			})
		}()
		for d := p.Directory(); d.Move == nil || d.Move.Stage != shardstore.Closed; d = p.Directory() {
			<-soon(time.Millisecond)
		}
		// What is claimed meanwhile is not delivered, and no attempt is counted.
		claimed := make(chan []store.Claim)
		go func() {
			claims, err := p.Claim(t.Context(), store.ClaimRequest{Queue: "q", Routes: []string{"r"}, Max: 1, Lease: 2 * time.Second, Wait: time.Hour})
			ok(t, err)
			claimed <- claims
		}()
		begun := base.System{}.Now()
		ok(t, p.Commit(t.Context(), record(tenant, "waited"))) // until the tenant is open
		if claims := <-claimed; len(claims) != 1 || claims[0].Messages[0].Attempt != 1 {
			t.Errorf("claimed %+v, want the first attempt", claims)
		} else {
			ok(t, p.Release(t.Context(), store.Release{Lease: claims[0].Lease()}))
		}
		if waited := (base.System{}).Now().Sub(begun); waited < 25*time.Second || waited > 40*time.Second {
			t.Errorf("the tenant was closed for %v, want about 30 s", waited)
		}
		if d := p.Directory(); d.Of(tenant) == to || d.Move == nil || d.Move.Stage != shardstore.Copying {
			t.Errorf("the tenant is on %s, and the move %+v", d.Of(tenant), d.Move)
		}
		// Who moves it next takes over.
		ok(t, p.Move(t.Context(), shardstore.OneTenant(tenant), to, nil))
		kill(stop)
		synctest.Wait()
		if c := contents(t, f.stores[to[0]-'a'], tenant); p.Directory().Of(tenant) != to || len(c.Records) != 1 {
			t.Errorf("the tenant is on %s with %d records", p.Directory().Of(tenant), len(c.Records))
		}
	})
}

// TestMoversTakeOver: of two that move the same tenant, the first one ends with an error, and changes
// nothing any more.
func TestMoversTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		p, first := f.process(), f.process()
		const tenant = "acme"
		fill(t, p.Store, tenant, 10)
		to := other(p.Store, tenant)
		resume, reached := make(chan struct{}), make(chan struct{})
		var once sync.Once
		ended := make(chan error)
		go func() {
			ended <- first.Move(t.Context(), shardstore.OneTenant(tenant), to, func(at shardstore.Progress) {
				if at.Stage == shardstore.Copying && at.Of > 0 {
					once.Do(func() { close(reached); <-resume })
				}
			})
		}()
		<-reached
		is(t, p.Move(t.Context(), shardstore.OneTenant("beta"), "a", nil), shardstore.ErrMove)
		ok(t, p.Move(t.Context(), shardstore.OneTenant(tenant), to, nil))
		sum := contents(t, f.stores[to[0]-'a'], tenant)
		close(resume)
		if err := <-ended; err == nil {
			t.Error("the first mover ended without an error")
		}
		now := contents(t, f.stores[to[0]-'a'], tenant)
		if sum.Sum() != now.Sum() {
			t.Error("the first mover changed something after the second had finished")
		}
	})
}

// TestDrainEmptiesAShard, and the store goes on without it having anything.
func TestDrainEmptiesAShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3)
		p := f.process()
		var tenants []string
		for i := range 30 {
			tenants = append(tenants, fmt.Sprint("tenant-", i))
			ok(t, p.Commit(t.Context(), record(tenants[i], "r")))
		}
		ok(t, p.Move(t.Context(), shardstore.OneTenant(tenants[0]), other(p.Store, tenants[0]), nil))
		ok(t, p.Drain(t.Context(), "b", nil))
		for _, tenant := range tenants {
			if p.Directory().Of(tenant) == "b" {
				t.Errorf("%s is still on b", tenant)
			}
			if _, err := p.Get(t.Context(), store.RecordKey{Kind: "k", Tenant: tenant, ID: "r"}); err != nil {
				t.Errorf("%s: %v", tenant, err)
			}
		}
		var left []string
		ok(t, f.stores[1].Tenants(t.Context(), func(tenant string) error {
			left = append(left, tenant)
			return nil
		}))
		if !slices.Equal(left, []string{""}) { // which has the directory
			t.Errorf("b has %q", left)
		}
	})
}

// TestAShardIsRemoved when it has nothing any more, also if the directory was changed there.
func TestAShardIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 2)
		p, q := f.process(), f.process()
		ok(t, p.Commit(t.Context(), record("acme", "r")))
		is(t, p.RemoveShard(t.Context(), "a"), store.ErrInvalid)
		ok(t, p.Drain(t.Context(), "a", nil))
		ok(t, p.RemoveShard(t.Context(), "a"))
		synctest.Wait()
		if d := q.Directory(); d.Home != "b" || !slices.Equal(d.Shards, []string{"b"}) {
			t.Errorf("the shards are %v, the home is %s", d.Shards, d.Home)
		}
		ok(t, q.AddShard(t.Context(), "a")) // and it is changed on the other one from then on
		synctest.Wait()
		if d := p.Directory(); d.Home != "b" || !slices.Equal(d.Shards, []string{"a", "b"}) {
			t.Errorf("the shards are %v, the home is %s", d.Shards, d.Home)
		}
		only := open(t, base.System{}, shardstore.Shard{Name: "b", Store: f.stores[1].Process()}, shardstore.Shard{Name: "a", Store: f.stores[0].Process()})
		if _, err := only.Get(t.Context(), store.RecordKey{Kind: "k", Tenant: "acme", ID: "r"}); err != nil {
			t.Error(err)
		}
	})
}

// TestMovesUnderLoad: processes append to logs and count what was acknowledged, while tenants are moved
// to and fro. Nothing is lost, and nothing is there twice.
func TestMovesUnderLoad(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	mover := f.process()
	tenants := []string{"acme", "beta", "globex", ""}
	l := newLoad(t, f, 3, tenants)
	for i := range 24 {
		tenant := tenants[i%len(tenants)]
		unit := shardstore.OneTenant(tenant)
		if i%3 == 0 {
			unit = shardstore.OneSlot(shardstore.SlotOf(tenant))
		}
		to := mover.Directory().Shards[i%3]
		if err := mover.Move(t.Context(), unit, to, nil); err != nil {
			t.Fatal(err)
		}
	}
	l.stop()
	l.check(mover.Store)
}

// load is processes that work on a store: each worker claims a key, appends an entry to its log, and puts
// the next message, in one commit. So each entry is the outcome of one claim, and the log of a key has as
// many entries as commits were acknowledged, or one more for each of which the outcome is unknown.
type load struct {
	t       testing.TB
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	acked map[store.Key]int
}

func newLoad(t testing.TB, f *fleet, processes int, tenants []string) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{t: t, cancel: cancel, acked: map[store.Key]int{}}
	for i := range processes {
		p := f.process()
		for _, tenant := range tenants {
			key := store.Key{Queue: "load", Tenant: tenant, Name: fmt.Sprint("key-", i)}
			ok(t, p.Commit(ctx, &store.Tx{Put: []store.Message{{Key: key, ID: "0", Route: "load"}}}))
		}
		for range 2 {
			l.running.Go(func() { l.work(ctx, p.Store) })
		}
	}
	return l
}

func (l *load) work(ctx context.Context, s *shardstore.Store) {
	for ctx.Err() == nil {
		claims, err := s.Claim(ctx, store.ClaimRequest{Queue: "load", Routes: []string{"load"}, Max: 3, Lease: time.Minute, Wait: time.Second})
		if err != nil {
			if ctx.Err() == nil {
				l.t.Errorf("claim: %v", err)
			}
			return
		}
		for i := range claims {
			l.turn(s, &claims[i])
		}
	}
}

// turn commits what a claim leads to. Nobody else has the key, so that it must go through.
func (l *load) turn(s *shardstore.Store, c *store.Claim) {
	next := fmt.Sprint(c.LogLength + 1)
	err := s.Commit(context.Background(), &store.Tx{
		Finish: []store.Finish{{Lease: c.Lease()}},
		Append: []store.Append{{Key: c.Key, At: c.LogLength, Entries: [][]byte{[]byte(next)}}},
		Put:    []store.Message{{Key: c.Key, ID: next}},
	})
	if err != nil {
		l.t.Errorf("commit to %v: %v", c.Key, err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[c.Key]++
}

func (l *load) stop() {
	l.cancel()
	l.running.Wait()
}

// check compares the logs with what was acknowledged.
func (l *load) check(s *shardstore.Store) {
	l.t.Helper()
	total := 0
	for _, key := range slices.SortedFunc(maps.Keys(l.acked), func(a, b store.Key) int { return strings.Compare(a.String(), b.String()) }) {
		page, err := s.ReadLog(l.t.Context(), key, 0)
		ok(l.t, err)
		if page.Length != l.acked[key] {
			l.t.Errorf("the log of %v has %d entries, and %d commits were acknowledged", key, page.Length, l.acked[key])
		}
		pending, err := s.Pending(l.t.Context(), key, 0)
		if err != nil || len(pending) != 1 {
			l.t.Errorf("%v has %d pending messages, %v; want one", key, len(pending), err)
		}
		total += page.Length
	}
	if total < 1000 {
		l.t.Errorf("only %d commits were made", total)
	}
	l.t.Logf("%d commits", total)
}
