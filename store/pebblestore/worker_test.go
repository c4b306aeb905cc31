package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/store"
)

// workload is a number of workers on one store. Each of them does one step after
// another with keys and records of its own, so that what the store holds of it is
// always what it held after one of its steps: after a crash, after the last one that
// was acknowledged, or after one that was begun since. With that, a step is wholly
// there or wholly absent, and nothing else is there.
type workload struct {
	clock     *base.Manual
	workers   []*worker
	sharedLen atomic.Int64 // of the log to which all append, as far as is known; -1 if it is not
}

func newWorkload(clock *base.Manual, workers int, seed uint64) *workload {
	l := &workload{clock: clock}
	l.sharedLen.Store(-1)
	for i := range workers {
		w := &worker{load: l, name: fmt.Sprintf("w%d", i), tenant: []string{"acme", "beta", ""}[i%3], rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
		w.start([]snapshot{newSnapshot(newHolding())}, 0)
		l.workers = append(l.workers, w)
	}
	return l
}

const (
	turns = "turns"
	kind  = "order"
)

var sharedKey = store.Key{Queue: turns, Name: "shared"}

// worker does one step after another.
type worker struct {
	load   *workload
	name   string
	tenant string
	rnd    *rand.Rand
	number int // of the next step, over all runs

	held map[string]store.Claim // by the name of the key

	mu    sync.Mutex
	steps []snapshot // what the store holds after each step of this run
	acked int        // the last step that was acknowledged
}

// snapshot is what a store holds of a worker after a step.
type snapshot struct {
	holding *holding
	dump    string
}

func newSnapshot(h *holding) snapshot { return snapshot{h, h.dump()} }

// start begins a run in which the store holds what it held after step i.
func (w *worker) start(steps []snapshot, i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps, w.acked, w.held = []snapshot{steps[i]}, 0, map[string]store.Claim{}
}

// last returns the index of the last step that was acknowledged.
func (w *worker) last() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acked
}

// since returns what the store may hold if it holds at least step i.
func (w *worker) since(i int) []snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.steps[i:])
}

// now returns what the store holds.
func (w *worker) now() *holding { return w.steps[w.acked].holding }

// begin notes what the store holds if the step that begins succeeds.
func (w *worker) begin(next *holding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps = append(w.steps[:w.acked+1], newSnapshot(next))
}

// end notes how the step ended that began last.
func (w *worker) end(ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ok {
		w.acked++
	} else {
		w.steps = w.steps[:w.acked+1]
	}
}

func (w *worker) key(name string) store.Key {
	return store.Key{Queue: turns, Tenant: w.tenant, Name: w.name + "-" + name}
}

func (w *worker) recordKey(id string) store.RecordKey {
	return store.RecordKey{Kind: kind, Tenant: w.tenant, ID: w.name + "-" + id}
}

// keys are all keys that a worker has. The one without a route gets none when
// something is put to it, only now and then.
var keyNames = []string{"a", "b", "c", "d", "e", noRoute}

const noRoute = "noroute"

var recordNames = []string{"r1", "r2", "r3"}

// routes are those of the worker's keys.
func (w *worker) routes() []string { return []string{w.name + "-main", w.name + "-other"} }

// violation is an error that a store must not make.
type violation struct{ error }

func violates(format string, args ...any) error { return violation{fmt.Errorf(format, args...)} }

// run does steps until there were enough, the store ends, or it does something that
// it must not do. An error that is not a violation is the store's own.
func (w *worker) run(ctx context.Context, s *Store, steps int) error {
	for range steps {
		w.load.clock.Advance(time.Millisecond)
		w.number++
		if err := w.step(ctx, s); err != nil {
			return fmt.Errorf("%s, step %d: %w", w.name, w.number, err)
		}
	}
	return nil
}

func (w *worker) step(ctx context.Context, s *Store) error {
	if w.rnd.IntN(3) > 0 {
		if err := w.claim(ctx, s); err != nil {
			return err
		}
	}
	if len(w.held) > 0 && w.rnd.IntN(6) == 0 {
		return w.release(ctx, s)
	}
	if w.load.sharedLen.Load() < 0 {
		page, err := s.ReadLog(ctx, sharedKey, 0)
		if err != nil {
			return err
		}
		w.load.sharedLen.Store(int64(page.Length))
	}
	b := newBuilder(w)
	b.fill()
	next := w.now().clone()
	next.apply(b.tx, b.delivered, w.number)
	w.begin(next)
	err := s.Commit(ctx, b.tx)
	return w.outcome(err, b)
}

// outcome notes how a commit ended. After an error that says nothing, the outcome is
// not known, and the worker ends.
func (w *worker) outcome(err error, b *builder) error {
	switch {
	case err == nil:
		w.end(true)
		for name := range b.ended {
			delete(w.held, name)
		}
		if b.shared {
			w.load.sharedLen.Store(int64(b.sharedAt) + 1)
		}
		return nil
	case errors.Is(err, store.ErrConflict) && b.shared:
		w.end(false)
		w.load.sharedLen.Store(-1)
		return nil
	case errors.Is(err, store.ErrFull):
		w.end(false)
		return err
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrClaimLost), errors.Is(err, store.ErrInvalid):
		return violation{err}
	}
	return err
}

// claim claims some keys, and checks that it got what it should.
func (w *worker) claim(ctx context.Context, s *Store) error {
	claims, err := s.Claim(ctx, store.ClaimRequest{
		Queue: turns, Routes: w.routes(), Max: 1 + w.rnd.IntN(4), MaxMessages: w.rnd.IntN(4), Lease: time.Hour,
	})
	if err != nil {
		return err
	}
	for _, c := range claims {
		k := w.now().keys[c.Key.Name]
		if k == nil || c.Route != k.route || c.LogLength != len(k.log) || c.LogTag != k.tag {
			return violates("claimed %v with route %q and a log of %d with tag %d, want %+v", c.Key, c.Route, c.LogLength, c.LogTag, k)
		}
		if _, ok := w.held[c.Key.Name]; ok {
			return violates("claimed %v, which is leased", c.Key)
		}
		if len(c.Messages) > len(k.messages) {
			return violates("claimed %v with %d messages, and it has %d", c.Key, len(c.Messages), len(k.messages))
		}
		for i, m := range c.Messages {
			if want := k.messages[i]; m.ID != want.id || string(m.Body) != want.body || band(m.VisibleAt.UnixMilli()) != "now" {
				return violates("claimed %v with message %d %s at %v: %s, want %s at %s: %s", c.Key, i, m.ID, m.VisibleAt, brief(string(m.Body)), want.id, band(want.at), brief(want.body))
			}
		}
		w.held[c.Key.Name] = c
	}
	return nil
}

// release gives up a claim, with a delay or without.
func (w *worker) release(ctx context.Context, s *Store) error {
	name := w.pick(slices.Sorted(maps.Keys(w.held)))
	c := w.held[name]
	r := store.Release{Lease: c.Lease(), Uncounted: w.rnd.IntN(2) == 0}
	if w.rnd.IntN(2) == 0 {
		r.After = releaseDelay(w.number)
	}
	next := w.now().clone()
	if r.After > 0 {
		next.release(name, ids(c), w.number)
	}
	w.begin(next)
	if err := s.Release(ctx, r); err != nil {
		if errors.Is(err, store.ErrClaimLost) {
			return violation{err}
		}
		if errors.Is(err, store.ErrFull) {
			w.end(false)
		}
		return err
	}
	w.end(true)
	delete(w.held, name)
	return nil
}

func ids(c store.Claim) []string {
	var ids []string
	for _, m := range c.Messages {
		ids = append(ids, m.ID)
	}
	return ids
}

func (w *worker) pick(names []string) string { return names[w.rnd.IntN(len(names))] }

// resync reads what the store holds after an error with an unknown outcome, and continues
// from there.
func (w *worker) resync(ctx context.Context, s *Store) error {
	got, err := w.read(ctx, s)
	if err != nil {
		return err
	}
	steps := w.since(w.last())
	i := slices.IndexFunc(steps, func(s snapshot) bool { return s.dump == got })
	if i < 0 {
		return violates("%s: %s", w.name, mismatch(got, steps))
	}
	held := w.held
	w.start(steps, i)
	for name, c := range held { // what is still leased is given back, if it is
		if err := s.Release(ctx, store.Release{Lease: c.Lease()}); err != nil && !errors.Is(err, store.ErrClaimLost) {
			return fmt.Errorf("release %s: %w", name, err)
		}
	}
	return nil
}

// runAll runs all workers at once, and returns their errors.
func (l *workload) runAll(ctx context.Context, s *Store, steps int) []error {
	errs := make([]error, len(l.workers))
	var wg sync.WaitGroup
	for i, w := range l.workers {
		wg.Go(func() { errs[i] = w.run(ctx, s, steps) })
	}
	wg.Wait()
	return errs
}
