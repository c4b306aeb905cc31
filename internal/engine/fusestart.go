package engine

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/abidehq/abide/store"
)

// firstStart is an instance that is about to be started.
type firstStart struct {
	info  *Info
	body  *body // of its start message
	newID bool  // no instance can have its ID
}

// firstTurns runs the first turns of instances that are about to be started, and returns those that can
// be committed with the starts: nil for each of which the code is not here, calls a step, or has not
// returned within fuseWithin of the first. Each of them is to be passed to finishFirst in the end, unless
// it is committed by itself. As part of another commit they start no children.
func (f *fuser) firstTurns(starts []*firstStart, part bool) []*turn {
	none := make([]*turn, len(starts))
	now, known := f.times.now(f.e.clock.Now())
	if f.e.cfg.Unfused || !known || !slices.ContainsFunc(starts, f.startsHere) || !f.begin() {
		return none
	}
	run := &firstRun{turns: none, d: &delivery{result: make(chan error, 2)}}
	f.mu.Lock()
	f.watch(run.d, nil)
	f.mu.Unlock()
	f.pool.Do(func() {
		defer f.end()
		for i, s := range starts {
			if !run.begin(i) {
				return
			}
			if !f.startsHere(s) || !f.wants(s.info.Route()) {
				continue
			}
			if t := f.firstTurn(s, now, part); t != nil && !run.ready(t) {
				f.e.closers.end(t.in)
				return
			}
		}
		if run.d.taken.CompareAndSwap(false, true) {
			run.d.result <- nil
		}
	})
	err := <-run.d.result
	turns, at := run.end()
	if s := starts[at]; err != nil && s != nil {
		f.avoid(s.info.Route())
	}
	return turns
}

// startsHere reports whether the code of an instance is here.
func (f *fuser) startsHere(s *firstStart) bool {
	return s != nil && len(s.info.Limits) == 0 && f.e.RunsFor(s.info.Tenant) && f.e.Serves(s.info.Route()) && f.e.builds.startsHere(s.info)
}

// firstRun is the turns of firstTurns, which are run by one goroutine and taken by another, that does not
// wait for them for ever.
type firstRun struct {
	d *delivery // of which the result is that the turns are ready, or late

	mu    sync.Mutex
	turns []*turn
	at    int // of the one that runs
	ended bool
}

// begin notes which turn is run next, and reports whether it should be.
func (r *firstRun) begin(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = i
	return !r.ended
}

// ready adds the turn that has run. It returns false if that is too late.
func (r *firstRun) ready(t *turn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	r.turns[r.at] = t
	return true
}

// end returns the turns that are ready, and which one was run last. What becomes ready from now on is
// late.
func (r *firstRun) end() (turns []*turn, at int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	return r.turns, r.at
}

// firstTurn runs the first turn of an instance that is about to be started. It returns nil if the turn
// cannot be committed with the start.
func (f *fuser) firstTurn(s *firstStart, now time.Time, part bool) *turn {
	d := newDelivery(s.info.Ref, idStart, s.body)
	d.message.PutAt = now
	info := *s.info
	if f.e.cfg.Pins[info.Route()] != Follow {
		info.Build = f.e.cfg.Build
	}
	t := f.newTurn(&instance{info: info, tag: info.run}, info.Ref.key(), now)
	t.fused, t.fresh, t.newID = []*delivery{d}, true, s.newID
	err := t.work([]message{d.message})
	if err == nil && (len(t.entries) == 0 || part && len(t.children) > 0) {
		err = errNotFused
	}
	if err != nil {
		_ = f.finish(t, err)
		return nil
	}
	t.putNext()
	t.answerParent()
	if part {
		t.putAnswer()
	}
	return t
}

// finishFirst ends a turn of firstTurns that was prepared, whose commit had that result.
func (f *fuser) finishFirst(t *turn, err error) {
	if err == nil {
		t.settle()
	}
	_ = f.finish(t, err)
}

// startFused starts an instance together with its first turn. It returns errNotFused if nothing was
// started, and the conflict if there is an instance with that ID.
func (f *fuser) startFused(s *firstStart) (ended bool, err error) {
	t := f.firstTurns([]*firstStart{s}, false)[0]
	if t == nil {
		return false, errNotFused
	}
	err = t.commit()
	if result := f.finish(t, err); !errors.Is(err, store.ErrConflict) {
		err = result
	}
	return err == nil && t.ends, err
}
