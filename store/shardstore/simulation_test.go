package shardstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/shardstore"
)

// TestSimulation moves slots in a large installation, in virtual time: a shard is drained, and one is added
// and gets its share, while every process writes, and some are slow, suspended or dead. The store is
// the real one, over stores in memory behind a model of a network. Nothing that was acknowledged is lost
// or there twice, no tenant is left behind, and what a change of the directory costs is bounded.
func TestSimulation(t *testing.T) {
	t.Parallel()
	processes, shards := 60, 30
	if testenv.Long() {
		processes, shards = 1000, 100
	}
	begun := base.System{}.Now()
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, processes, shards)
		s.step("drain", 100*time.Millisecond, s.drain)
		s.step("add a shard and rebalance", 100*time.Millisecond, s.rebalance)
		s.step("move with a slow process", 2*time.Second, s.moveSlowly)
		s.step("move without a process that counts as dead after a minute", 100*time.Millisecond, s.moveWithoutOne)
		s.step("move with a process that is suspended while the slot is closed", 5*time.Second, s.moveSuspended)
		s.end()
	})
	t.Logf("%d processes, %d shards: simulated in %v", processes, shards, base.System{}.Now().Sub(begun).Round(time.Second))
}

// simulation is a world in which processes write while slots are moved.
type simulation struct {
	*world
	mover   *shardstore.Store
	added   string // the shard that is not in the directory in the beginning
	writers []*writer
	stop    context.CancelFunc
	running sync.WaitGroup
}

func newSimulation(t *testing.T, processes, shards int) *simulation {
	s := &simulation{world: newWorld(t, shards+1)}
	s.added = s.machines[shards].name
	ok(t, s.open(1, shardstore.Options{}).store.Close())
	s.hosts = make([]*host, processes)
	var opening sync.WaitGroup
	for i := range s.hosts {
		opening.Go(func() { s.hosts[i] = s.open(0, shardstore.Options{}) })
	}
	opening.Wait()
	s.mover = s.open(0, shardstore.Options{Mover: true}).store
	if t.Failed() {
		t.FailNow()
	}
	s.load()
	return s
}

// load starts a writer in each process, and a call that waits for a claim.
func (s *simulation) load() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	for i, h := range s.hosts {
		w := &writer{host: h, key: store.Key{Queue: "q", Tenant: fmt.Sprint("tenant-", i), Name: "log"}}
		s.writers = append(s.writers, w)
		random := rand.New(rand.NewPCG(19, uint64(i))) //nolint:gosec // it is to be repeatable
		most := time.Second
		if i < 4 {
			most = 10 * time.Millisecond // so that those that are disturbed write when their slots are moved
		}
		s.running.Go(func() {
			w.write(ctx, func() time.Duration { return time.Duration(random.Int64N(int64(most))) })
		})
		s.running.Go(func() {
			if _, err := h.store.Claim(ctx, request(1, 10*time.Hour)); ctx.Err() == nil {
				s.t.Errorf("claim: %v", err)
			}
		})
	}
	<-soon(5 * time.Second)
}

// step does something, during which no slot may be closed for longer than a limit, and logs what it cost.
func (s *simulation) step(name string, limit time.Duration, do func() error) {
	s.t.Helper()
	s.costs, s.closed = costs{}, nil
	for _, w := range s.writers {
		w.begin()
	}
	for _, m := range s.machines {
		m.queued()
	}
	version, begun := s.mover.Directory().Version, base.System{}.Now()
	ok(s.t, do())
	took := base.System{}.Now().Sub(begun)
	changes := s.mover.Directory().Version - version
	<-soon(5 * time.Second) // what follows a change counts too
	s.t.Logf("%s: %v, %d changes of the directory", name, took.Round(time.Millisecond), changes)
	s.report(version, changes)
	if longest := slices.Max(s.closed); longest > limit {
		s.t.Errorf("%s: a slot was closed for %v, want at most %v", name, longest, limit)
	}
	if took < 10*time.Second { // otherwise what processes do once a minute counts too
		s.checkCosts(changes)
	}
}

// checkCosts compares the calls for changes of the directory with how many processes and shards there are: each
// process may make some, and each shard get some, but not each process with each shard.
func (s *simulation) checkCosts(changes int64) {
	s.t.Helper()
	calls := s.reads.Load() + s.wakes.Load() + s.acks.Load() + s.puts.Load()
	if limit := changes * int64(5*len(s.hosts)+5*len(s.machines)); calls > limit {
		s.t.Errorf("%d calls for %d changes of the directory, want at most %d", calls, changes, limit)
	}
	if again := s.polls.Load() + s.waits.Load(); again > 0 {
		s.t.Errorf("waiting claims were made again: %d calls", again)
	}
}

// report logs what changes of the directory after a version cost.
func (s *simulation) report(version, changes int64) {
	each := func(n int64) string { return fmt.Sprintf("%.0f", float64(n)/float64(changes)) }
	var queue time.Duration
	for _, m := range s.machines {
		queue = max(queue, m.queued())
	}
	var waited []time.Duration
	for _, w := range s.writers {
		if took := w.begin(); !w.host.isDisturbed() {
			waited = append(waited, took...)
		}
	}
	s.t.Logf("  a slot is closed %d times, for %s", len(s.closed), quantiles(s.closed))
	s.t.Logf("  a change is known to a process after %s", quantiles(s.spread(version)))
	s.t.Logf("  %d commits of undisturbed processes take %s", len(waited), quantiles(waited))
	s.t.Logf("  calls for a change: %s reads, %s notifications, %s acknowledgements, %s puts, of which %s conflict",
		each(s.reads.Load()), each(s.wakes.Load()), each(s.acks.Load()), each(s.puts.Load()), each(s.conflicts.Load()))
	s.t.Logf("  longest queue of a server: %v", queue)
}

// spread returns how long versions of the directory took to reach each process.
func (s *simulation) spread(after int64) (took []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for version, v := range s.versions {
		for _, d := range v.took {
			if version > after {
				took = append(took, d)
			}
		}
	}
	return took
}

// slotsOf returns the slots of each shard.
func (s *simulation) slotsOf() map[string][]int {
	slots := map[string][]int{}
	for slot, on := range s.mover.Directory().Slots {
		slots[on] = append(slots[on], slot)
	}
	return slots
}

// drain drains a shard in the middle.
func (s *simulation) drain() error {
	name := s.machines[len(s.machines)/2].name
	err := s.mover.Drain(s.t.Context(), name, nil)
	if left := s.slotsOf()[name]; len(left) > 0 {
		s.t.Errorf("shard %s still has slots %v", name, left)
	}
	return err
}

// rebalance adds a shard and moves slots there, from the shard that has most, until it has its share.
func (s *simulation) rebalance() error {
	err := s.mover.AddShard(s.t.Context(), s.added)
	for err == nil && len(s.slotsOf()[s.added]) < shardstore.Slots/len(s.machines) {
		err = s.moveOne()
	}
	return err
}

// moveOne moves a slot to the added shard, from the shard that has most slots; one with tenants, if there is
// one.
func (s *simulation) moveOne() error {
	slots, most := s.slotsOf(), ""
	for _, m := range s.machines {
		if m.name != s.added && len(slots[m.name]) > len(slots[most]) {
			most = m.name
		}
	}
	slot := slots[most][0]
	for _, w := range s.writers {
		if s.mover.Directory().Of(w.key.Tenant) == most {
			slot = shardstore.SlotOf(w.key.Tenant)
		}
	}
	return s.mover.Move(s.t.Context(), shardstore.OneSlot(slot), s.added, nil)
}

// moveOf moves the slot to which a process writes to another shard.
func (s *simulation) moveOf(process int) error {
	tenant := s.writers[process].key.Tenant
	return s.mover.Move(s.t.Context(), shardstore.OneSlot(shardstore.SlotOf(tenant)), other(s.mover, tenant), nil)
}

// moveSlowly moves a slot to which a process writes that has a slow connection.
func (s *simulation) moveSlowly() error {
	s.hosts[1].setSlow(true)
	defer s.hosts[1].setSlow(false)
	return s.moveOf(1)
}

// absence is for how long a process is suspended that counts as dead.
const absence = 10 * time.Minute

// moveWithoutOne moves a slot to which a process wrote that does not answer, and whose rows are still there.
func (s *simulation) moveWithoutOne() error {
	s.hosts[2].suspend(absence)
	return s.moveOf(2)
}

// moveSuspended moves a slot to which a process writes, which is suspended when the slot is closed, for longer
// than a slot may be.
func (s *simulation) moveSuspended() error {
	var once sync.Once
	s.mu.Lock()
	s.reached = func(stage shardstore.Stage) {
		if stage == shardstore.Closed {
			once.Do(func() { s.hosts[3].suspend(20 * time.Second) })
		}
	}
	s.mu.Unlock()
	return s.moveOf(3)
}

// end stops the processes, and checks that everything is there, once.
func (s *simulation) end() {
	s.stop()
	s.running.Wait() // also for the process that counts as dead, which comes back and finishes its commit
	total := 0
	for _, w := range s.writers {
		w.check(s.mover)
		total += w.acked
	}
	s.t.Logf("%d commits acknowledged", total)
	for _, m := range s.machines {
		ok(s.t, m.Tenants(s.t.Context(), func(tenant string) error {
			if on := s.mover.Directory().Of(tenant); tenant != "" && on != m.name {
				s.t.Errorf("shard %s has %s, which is on %s", m.name, tenant, on)
			}
			return nil
		}))
	}
	for _, h := range s.hosts {
		ok(s.t, h.store.Close())
	}
	ok(s.t, s.mover.Close())
}
