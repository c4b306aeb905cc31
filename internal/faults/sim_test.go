package faults_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/history"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

// TestSimulation has a random program of what people do run against a few orchestrations,
// on engines whose calls fail at random and which are killed at random. Then nothing
// fails any more, and all that can end must do so.
func TestSimulation(t *testing.T) {
	t.Parallel()
	runs := 10
	if testenv.Long() {
		runs = 2000
	}
	seed := testenv.Seed(t)
	for run := range runs {
		simulate(t, seed+uint64(run))
		if t.Failed() {
			t.Fatalf("the simulation with seed %d has failed: make it a case of TestSimulationSeeds", seed+uint64(run))
		}
	}
}

// TestSimulationSeeds are seeds with which the simulation has failed once.
func TestSimulationSeeds(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 6305378391901523656} {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { simulate(t, seed) })
	}
}

// sim is a simulation.
type sim struct {
	*world
	rnd     *rand.Rand
	flows   *simFlows
	engines [2]*abide.Engine
	stores  [2]*storetest.Faulty
	ids     map[string]*simInstance
	next    int // of the events
	program []string
}

// simInstance is what must be true of an instance since it was last started or deleted.
type simInstance struct {
	raised  []int
	started bool
	ending  string // it was told to end, and how
}

func simulate(t *testing.T, seed uint64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		flows := newSimFlows()
		s := &sim{
			world: newWorld(t, flows.serve()...), flows: flows,
			rnd: rand.New(rand.NewPCG(seed, 0)), ids: map[string]*simInstance{},
		}
		defer func() {
			if t.Failed() {
				t.Logf("seed %d:\n%s", seed, strings.Join(s.program, "\n"))
			}
		}()
		for i := range 5 {
			s.ids[strconv.Itoa(i)] = &simInstance{}
		}
		for i := range s.engines {
			s.open(i)
		}
		for range 60 {
			s.act()
			pass(time.Duration(s.rnd.IntN(4)*s.rnd.IntN(1000)) * time.Millisecond)
			if s.rnd.IntN(4) == 0 {
				synctest.Wait()
				s.check()
			}
		}
		s.live()
	})
}

// open starts an engine in place of another one, which is killed.
func (s *sim) open(i int) {
	if s.engines[i] != nil {
		s.stores[i].Kill()
		stop(s.engines[i])
	}
	s.stores[i] = storetest.NewFaulty(s.store, failOnceIn(20, s.rnd))
	s.engines[i] = s.engine(s.stores[i], quick, func(c *abide.Config) { c.CacheSize = 3 })
}

func (s *sim) note(format string, args ...any) {
	s.program = append(s.program, fmt.Sprintf("%8v  %s", time.Since(s.begun), fmt.Sprintf(format, args...)))
}

// act does one thing.
func (s *sim) act() {
	id := strconv.Itoa(s.rnd.IntN(len(s.ids)))
	switch n := s.rnd.IntN(20); {
	case n < 5:
		s.start(id)
	case n < 12:
		for range 1 + s.rnd.IntN(3) {
			s.raise(id, s.next)
			s.next++
		}
	case n == 12:
		i := s.rnd.IntN(len(s.engines))
		s.note("engine %d is killed", i)
		s.open(i)
	case n == 13:
		s.end("delete", id)
	case n == 14:
		s.end("restart", id)
	default:
		s.tell(n)
	}
}

// start starts a collector, or a parent under an ID of its own.
func (s *sim) start(id string) {
	if s.rnd.IntN(4) == 0 {
		_, err := s.flows.parent.Start(s.t.Context(), s.client, 1+s.rnd.IntN(4))
		s.do(err)
		s.note("start a parent")
		return
	}
	opts := []abide.StartOption{abide.ID(id)}
	if s.rnd.IntN(3) == 0 {
		opts = append(opts, abide.StartAfter(time.Duration(s.rnd.IntN(5))*time.Second))
	}
	replace := s.rnd.IntN(2) == 0
	if replace {
		opts = append(opts, abide.ReplaceEnded())
	}
	i, err := s.flows.collector.Start(s.t.Context(), s.client, simState{}, opts...)
	s.note("start %s, replace %v: %v", id, replace, err)
	switch was := s.ids[id]; {
	case replace && errors.Is(err, abide.ErrExists):
	case err != nil:
		s.t.Fatal(err)
	case i.Existed():
	case was.started: // it was there, and had ended
		s.ids[id] = &simInstance{started: true}
	default:
		was.started = true // what was raised before waits for it
	}
}

func (s *sim) raise(id string, v int) {
	s.do(numbered.Raise(s.t.Context(), s.client, id, v, abide.Unchecked()))
	if v != stopValue {
		s.ids[id].raised = append(s.ids[id].raised, v)
	}
	s.note("raise %d for %s", v, id)
}

// end deletes or restarts an instance, if it has ended.
func (s *sim) end(verb, id string) {
	ref := abide.Ref{ID: id}
	info, err := s.client.Get(s.t.Context(), ref)
	var inherited []int // what a restart begins with
	if err == nil && info.Status.Ended() {
		s.checkInstance(info)
		inherited = s.inherited(ref)
	}
	if verb == "delete" {
		err = s.client.Delete(s.t.Context(), ref)
	} else {
		err = s.client.Restart(s.t.Context(), ref)
	}
	s.note("%s %s: %v", verb, id, err)
	switch {
	case err == nil && verb == "restart":
		s.ids[id] = &simInstance{started: true, raised: inherited}
	case err == nil:
		s.ids[id] = &simInstance{}
	case !errors.Is(err, abide.ErrState) && !errors.Is(err, abide.ErrNotFound) && !errors.Is(err, abide.ErrConflict):
		s.t.Fatal(err)
	}
}

// inherited returns what the last execution of a collector had got from the one before.
func (s *sim) inherited(ref abide.Ref) []int {
	h, err := s.client.History(s.t.Context(), ref, 0)
	s.do(err)
	for i := range h.Events {
		if e := &h.Events[i]; e.Kind == history.ExecutionStarted {
			var in simState
			s.do(s.client.Codec().Decode(e.Data, &in))
			return in.Got
		}
	}
	return nil
}

// tell tells one of all instances something.
func (s *sim) tell(n int) {
	all := s.all()
	if len(all) == 0 {
		return
	}
	ref := all[s.rnd.IntN(len(all))].Ref
	ctx := s.t.Context()
	var verb string
	var err error
	switch n {
	case 15:
		verb, err = "suspend", s.client.Suspend(ctx, ref, "")
	case 16:
		verb, err = "resume", s.client.Resume(ctx, ref)
	case 17:
		verb, err = "cancel", s.client.Cancel(ctx, ref, "")
	case 18:
		verb, err = "terminate", s.client.Terminate(ctx, ref, "")
	default:
		verb, err = "move timer", s.client.MoveTimer(ctx, ref, "nap", time.Now().Add(time.Duration(s.rnd.IntN(30))*time.Second))
	}
	s.note("%s %s: %v", verb, ref.ID, err)
	if err != nil && !errors.Is(err, abide.ErrState) && (verb != "move timer" || !errors.Is(err, abide.ErrNotFound)) {
		s.t.Fatal(err)
	}
	if i := s.ids[ref.ID]; i != nil && err == nil && (verb == "cancel" || verb == "terminate") {
		i.ending = verb
	}
}

// live is the time in which nothing fails any more.
func (s *sim) live() {
	s.note("nothing fails from here on")
	for _, f := range s.stores {
		f.Plan(nil)
	}
	resume := func() {
		for _, info := range s.all() {
			if info.Status == abide.Stalled && !strings.HasPrefix(info.Reason, "poison") {
				s.t.Errorf("instance %v has stalled: %s\n%s", info.Ref, info.Reason, s.dump(info.Ref.ID))
			}
			if info.Status == abide.Suspended || info.Status == abide.Stalled {
				// A request that waited may have ended it since it was listed.
				if err := s.client.Resume(s.t.Context(), info.Ref); !errors.Is(err, abide.ErrState) {
					s.do(err)
				}
			}
		}
	}
	pass(unit)
	for range 3 { // what goes on may be suspended by a message that has waited
		resume()
		pass(2 * unit)
	}
	for _, info := range s.all() {
		i := s.ids[info.Ref.ID]
		switch {
		case i != nil && i.ending != "" && !info.Status.Ended():
			s.t.Errorf("%s of %v was lost: it is %s\n%s", i.ending, info.Ref, info.Status, s.dump(info.Ref.ID))
		case i != nil && !info.Status.Ended():
			s.raise(info.Ref.ID, stopValue)
		}
	}
	pass(2 * unit)
	for _, info := range s.all() {
		if !info.Status.Ended() {
			s.t.Errorf("instance %v has not ended: it is %s %s\n%s", info.Ref, info.Status, info.Reason, s.dump(info.Ref.ID))
		}
		s.checkInstance(info)
	}
	s.check()
	s.checkQuiet()
	s.checkNoLosses()
}

// checkInstance checks what an instance that has ended has got.
func (s *sim) checkInstance(info abide.Info) {
	s.t.Helper()
	switch info.Orchestration {
	case "collector":
		got, _, err := simGot.Get(info)
		if err != nil {
			s.t.Fatal(err)
		}
		raised := s.ids[info.Ref.ID].raised
		if len(got) > len(raised) || !slices.Equal(got, raised[:len(got)]) {
			s.t.Errorf("%v, which is %s, has got %v, and was raised %v\n%s", info.Ref, info.Status, got, raised, s.dump(info.Ref.ID))
		}
		if n := result(info); info.Status == abide.Completed && n != strconv.Itoa(len(raised)) { // it was told to stop after all of them
			s.t.Errorf("%v has got %s of %d events\n%s", info.Ref, n, len(raised), s.dump(info.Ref.ID))
		}
	case "parent":
		if info.Status != abide.Completed {
			return
		}
		told, err := abide.ResultOf[[]string](info)
		s.do(err)
		for _, line := range told {
			id, out, _ := strings.Cut(line, " ")
			child, err := s.client.Get(s.t.Context(), abide.Ref{ID: id})
			s.do(err)
			if (child.Status == abide.Completed) != (out == "slept") {
				s.t.Errorf("parent %v was told that child %s %s, which is %s", info.Ref, id, out, child.Status)
			}
		}
	}
}

// checkNoLosses checks that nothing is in quarantine but what nobody was there for.
func (s *sim) checkNoLosses() {
	page, err := s.store.List(s.t.Context(), store.Query{Kind: store.KindQuarantine})
	s.do(err)
	for _, r := range page.Records {
		if r.Status != store.ReasonExpired {
			s.t.Errorf("in quarantine, %s: %s of %s", r.Status, r.Tags[store.TagMessage], r.Tags[store.TagKey])
		}
	}
}
