package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/abidehq/abide"
)

// What clients and flows know of the entities. A box keeps what was put into it; some of it is passed on to the box
// "sum".
var (
	boxKeys = []string{"x", "y", "z"}
	sumKey  = "sum"
	put     = abide.OperationNamed[item, int]("box", "put")
	mover   = abide.OrchestrationNamed[int, int]("mover")
)

// item is what is put into a box. Each sender counts its own items from 0, or takes growing numbers.
type item struct {
	From string
	N    int
	Due  time.Time // before which it must not arrive
}

// box is the state of an entity.
type box struct {
	Got    []item
	Passed int // how many of them were passed on
}

// refused is the number of an item that a box does not take.
const refused = -1

// operation is one attempt at an operation.
type operation struct {
	p    *process
	key  string
	ctx  context.Context //nolint:containedctx // tells whether the attempt was told to stop
	over bool
}

// signals is what clients were told of the items of one sender.
type signals struct {
	keys  map[int]string // by number
	sure  []int          // in order; acknowledged
	maybe []int          // with an unknown outcome
	busy  bool
}

func (w *world) boxes(p *process) *abide.Entity[box] {
	e := abide.NewEntity[box]("box")
	abide.NewOperation(e, put.Name(), func(ctx abide.EntityContext, b *box, in item) (int, error) { return w.runPut(ctx, p, b, in) })
	return e
}

// runPut puts an item into a box, and returns its place there.
func (w *world) runPut(ctx abide.EntityContext, p *process, b *box, in item) (int, error) {
	run := w.beginOperation(ctx, p, ctx.ID().Key)
	defer w.endOperation(run)
	d := time.Duration(w.chance(3, "puts %v", in)) * 300 * time.Millisecond
	if w.chance(12, "long put %v", in) == 0 { // longer than a lease
		d += 2 * lease
	}
	if err := after(ctx, d); err != nil {
		return 0, err
	}
	if p.gone() {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	if ctx.Now().Before(in.Due) {
		w.problem("%s got the item %v, which is due at %v, at %v", ctx.ID(), in, in.Due, ctx.Now())
	}
	b.Got = append(b.Got, in)
	if ctx.ID().Key != sumKey && w.chance(3, "passes on %v", in) == 0 {
		if err := put.SignalFrom(ctx, sumKey, item{From: "box " + ctx.ID().Key, N: b.Passed}); err != nil {
			return 0, err
		}
		b.Passed++
	}
	if in.N == refused {
		return 0, errors.New("the box does not take it")
	}
	return len(b.Got) - 1, nil
}

// beginOperation notes an attempt: no other one of the entity may be under way.
func (l *ledger) beginOperation(ctx context.Context, p *process, key string) *operation {
	run := &operation{p: p, key: key, ctx: ctx}
	l.book.Lock()
	defer l.book.Unlock()
	for _, other := range l.operations {
		if other.key == key && active(other.ctx, other.p, other.over) && !p.gone() && !l.jumped {
			l.problemLocked("operations of %s run in %v and in %v at the same time", key, other.p, p)
		}
	}
	if !p.gone() {
		l.operations = append(l.operations, run)
	}
	return run
}

func (l *ledger) endOperation(r *operation) {
	l.book.Lock()
	defer l.book.Unlock()
	r.over = true
}

// runMover puts items into two boxes, by signals and calls, and with some kinds while it has locked both. It returns
// how many.
func (w *world) runMover(ctx abide.Context, kind int) (int, error) {
	self := abide.Self(ctx).ID
	one, two := boxKeys[kind%3], boxKeys[(kind+1)%3]
	n := 0
	next := func() item { n++; return item{From: self, N: n - 1} }
	put.Signal(ctx, one, next())
	future := put.Go(ctx, two, next())
	if _, err := put.Call(ctx, one, next()); err != nil {
		return n, err
	}
	if _, err := future.Get(ctx); err != nil {
		return n, err
	}
	var failed *abide.EntityError
	if _, err := put.Call(ctx, two, item{From: self, N: refused}); !errors.As(err, &failed) {
		return n, fmt.Errorf("an item that is refused: %w", err)
	}
	if kind%2 == 0 {
		put.Signal(ctx, one, next())
		return n, nil
	}
	unlock, err := abide.Lock(ctx, abide.EntityID{Name: "box", Key: two}, abide.EntityID{Name: "box", Key: one})
	if err != nil {
		return n, err
	}
	if kind != 5 { // which leaves it to its end
		defer unlock()
	}
	var places []int
	for _, key := range []string{one, two, one, two} {
		place, err := put.Call(ctx, key, next())
		if err != nil {
			return n, err
		}
		if places = append(places, place); len(places) == 2 {
			if err := w.nap(ctx, time.Second); err != nil {
				return n, err
			}
		}
	}
	if places[2] != places[0]+1 || places[3] != places[1]+1 {
		w.problem("%s had %s and %s locked, and its items were put at %v", self, one, two, places)
	}
	return n, nil
}

// signal puts an item into a box as a client: once, until it has succeeded, or later.
func (g *program) signal() {
	key := boxKeys[g.rnd.IntN(len(boxKeys))]
	sender := []string{"client", "stubborn", "late"}[g.rnd.IntN(3)]
	in := item{From: sender, N: g.next}
	g.next++
	delay := time.Duration(1+g.rnd.IntN(8000)) * time.Millisecond
	g.book.Lock()
	s := g.signals[sender]
	if s == nil {
		s = &signals{keys: map[int]string{}}
		g.signals[sender] = s
	}
	busy := s.busy
	s.busy = s.busy || sender != "late" // whose items have no order
	g.book.Unlock()
	if busy {
		return
	}
	opts := []abide.SignalOption{}
	switch sender {
	case "stubborn":
		opts = append(opts, abide.ID(fmt.Sprint("item ", in.N)))
	case "late":
		in.Due = g.clock.Now().Add(delay).Truncate(time.Millisecond)
		opts = append(opts, abide.DelayUntil(in.Due))
	}
	g.ask(fmt.Sprintf("put %v into %s", in, key), func(ctx context.Context) {
		var err error
		if sender == "stubborn" {
			g.insist(fmt.Sprintf("put %v", in), func(ctx context.Context) error { return put.Send(ctx, g.api, key, in, opts...) })
		} else {
			err = put.Send(ctx, g.api, key, in, opts...)
		}
		g.book.Lock()
		defer g.book.Unlock()
		s.busy, s.keys[in.N] = false, key
		if err == nil {
			s.sure = append(s.sure, in.N)
		} else {
			s.maybe = append(s.maybe, in.N)
		}
	})
}

// checkEntities checks that each item was put once, in the order of its sender, and that nothing is locked or waits.
func (g *program) checkEntities() {
	arrived := map[string]map[string][]int{} // the numbers of items, by sender and key, in order
	passed := map[string]int{}
	direct := abide.NewClient(g.store, nil)
	page, err := direct.Entities(context.Background(), abide.EntityFilter{Empty: true})
	if err != nil {
		g.problem("list entities: %v", err)
	}
	for i := range page.Entities {
		info := &page.Entities[i]
		if info.LockedBy != "" || info.Backlog > 0 {
			g.problem("%s is locked by %q, and %d operations wait", info.Ref.ID, info.LockedBy, info.Backlog)
		}
		key := strings.TrimPrefix(info.Ref.ID, "@box@")
		var b box
		if err := direct.Codec().Decode(info.State, &b); err != nil {
			g.problem("%s: %v", info.Ref.ID, err)
		}
		passed["box "+key] = b.Passed
		for _, in := range b.Got {
			if arrived[in.From] == nil {
				arrived[in.From] = map[string][]int{}
			}
			arrived[in.From][key] = append(arrived[in.From][key], in.N)
		}
	}
	for _, sender := range slices.Sorted(maps.Keys(arrived)) {
		g.checkItems(sender, arrived[sender])
	}
	for _, sender := range slices.Sorted(maps.Keys(passed)) {
		if got := arrived[sender][sumKey]; len(got) != passed[sender] {
			g.problem("%s has passed on %d items, of which %v arrived", sender, passed[sender], got)
		}
	}
	for _, sender := range slices.Sorted(maps.Keys(g.signals)) {
		g.checkSignals(sender, g.signals[sender], arrived[sender])
	}
	for _, id := range slices.Sorted(maps.Keys(g.instances)) {
		if t := g.instances[id]; t.kind == "mover" && t.moved > 0 {
			if got := slices.Sorted(items(arrived[id])); len(got) != t.moved || got[len(got)-1] != t.moved-1 {
				g.problem("%s has put %d items, of which %v arrived", id, t.moved, got)
			}
		}
	}
}

// items returns the numbers of items of all keys.
func items(byKey map[string][]int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for _, list := range byKey {
			for _, n := range list {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// checkItems checks that the items of a sender were put once, into one box, and in order.
func (g *program) checkItems(sender string, byKey map[string][]int) {
	all := slices.Sorted(items(byKey))
	if slices.Contains(all, refused) {
		g.problem("an item of %s was put that was refused", sender)
	}
	if len(slices.Compact(slices.Clone(all))) != len(all) {
		g.problem("an item of %s was put twice: %v", sender, byKey)
	}
	for key, got := range byKey {
		if sender != "late" && !slices.IsSorted(got) {
			g.problem("the items of %s were put into %s in the order %v", sender, key, got)
		}
	}
}

// checkSignals checks that what clients have put has arrived where it was put.
func (g *program) checkSignals(sender string, s *signals, byKey map[string][]int) {
	for key, got := range byKey {
		for _, n := range got {
			if s.keys[n] != key {
				g.problem("the item %d of %s was put into %s, and was for %q", n, sender, key, s.keys[n])
			}
		}
	}
	for _, n := range s.sure {
		if !slices.Contains(byKey[s.keys[n]], n) {
			g.problem("the item %d of %s never arrived in %s", n, sender, s.keys[n])
		}
	}
}
