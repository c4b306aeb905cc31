package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"
)

// errFault is the error of a call that the scheduler made to fail. It matches none of the
// store's sentinels: its caller cannot know whether the call happened.
var errFault = errors.New("sim: injected fault")

// maxSteps bounds a run: a process that calls the store without ever pausing would keep
// virtual time from passing.
const maxSteps = 30_000

// world is a store, the processes on it, and the scheduler of their calls.
type world struct {
	t     *testing.T
	rnd   *rand.Rand // used by the scheduler's goroutine alone
	store store.Store
	clock *storeClock
	begun time.Time
	seed  uint64

	faults     faults
	trace      []string
	digest     hash.Hash64 // of all that was granted
	steps      int
	extraSlots int // of processes, beyond their limit: a break

	mu      sync.Mutex
	calls   []*call
	late    []*call        // whose callers have given up, and which happen all the same
	last    map[int]string // labels of the last calls, by goroutine
	changes map[string]int64
	due     []dueTime
	arrived chan struct{} // has an item if a call has arrived since it was emptied

	procs []*process
	ledger
}

// faults says how often calls fail and are held: one in so many; 0 means never.
type faults struct {
	failOneIn int
	holdOneIn int
	holdFor   time.Duration // at most
}

// dueTime is a time of the store's clock at which keys of a queue may become ready.
type dueTime struct {
	at    time.Time
	queue string
}

// compareCalls orders calls by what they are, where they come from, and what their goroutines
// called before. Of those that do not differ, the one of the older goroutine comes first: on
// one processor, goroutines are numbered in the order in which they were made.
func compareCalls(a, b *call) int {
	return cmp.Or(
		cmp.Compare(a.label, b.label), slices.Compare(a.stack[:], b.stack[:]),
		cmp.Compare(a.before, b.before), cmp.Compare(a.goroutine, b.goroutine),
	)
}

// goroutine returns the number of the goroutine that calls it.
func goroutine() int {
	var text [64]byte
	fields := bytes.Fields(text[:runtime.Stack(text[:], false)])
	n, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		panic(err)
	}
	return n
}

// call is a call that waits at a gate.
type call struct {
	proc  *process
	label string
	grant chan verdict
	apply func(ctx context.Context) // what the call does, once its caller is gone

	stack     [16]uintptr // of its caller
	goroutine int
	before    string // the label of the last call of the goroutine

	// A call with topics can find nothing, and is granted again when the counter of
	// one of them has grown since it looked, or its time is up.
	topic string
	seen  int64
	until time.Time

	held     time.Time // it is not granted before
	decided  bool      // that it is not held again
	survives bool      // it happens although its caller has given up
}

// verdict is what the scheduler decides about a call.
type verdict int

const (
	happens verdict = iota
	failsBefore
	failsAfter
)

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 1)), begun: time.Now(),
		digest: fnv.New64a(), last: map[int]string{}, changes: map[string]int64{}, arrived: make(chan struct{}, 1), clock: &storeClock{},
	}
	w.store = memstore.New(memstore.Options{Clock: w.clock})
	w.ledger.init(w)
	return w
}

// storeClock is the clock of the store: that of the bubble, and some.
type storeClock struct {
	mu    sync.Mutex
	ahead time.Duration
}

// Now returns the store's time.
func (c *storeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

// AfterFunc calls f after d of the bubble's time.
func (*storeClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }

// jump sets the clock forward.
func (c *storeClock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// note adds a line to the trace.
func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%9.3f  ", time.Since(w.begun).Seconds())+fmt.Sprintf(format, args...))
}

// submit has a call wait for the scheduler.
func (w *world) submit(c *call) {
	if c.goroutine == 0 { // or it is tried again
		runtime.Callers(2, c.stack[:])
		c.goroutine = goroutine()
	}
	w.mu.Lock()
	c.before, w.last[c.goroutine] = w.last[c.goroutine], c.label
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	select {
	case w.arrived <- struct{}{}:
	default:
	}
}

// withdraw takes a call back whose caller gives up. It returns false if it was granted.
func (w *world) withdraw(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.calls, c)
	if i < 0 {
		return false
	}
	w.calls = slices.Delete(w.calls, i, i+1)
	if c.survives && !c.proc.dead {
		i, _ := slices.BinarySearchFunc(w.late, c, compareCalls)
		w.late = slices.Insert(w.late, i, c)
	}
	return true
}

// changed notes that keys of a queue, or records, may have become ready.
func (w *world) changed(topics ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range topics {
		w.changes[t]++
	}
}

// changesAt notes that keys of a queue become ready at a time of the store's clock.
func (w *world) changesAt(queue string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = append(w.due, dueTime{at, queue})
}

// run takes steps until done reports true, or until a time has come.
func (w *world) run(until time.Time, done func() bool) {
	for time.Now().Before(until) && !w.t.Failed() {
		synctest.Wait()
		if done != nil && done() {
			return
		}
		if w.steps++; w.steps > maxSteps {
			w.problem("the world does not come to rest: %d steps", maxSteps)
			return
		}
		if !w.step() {
			w.pass(until)
		}
	}
}

// step grants one call, and reports whether there was one.
func (w *world) step() bool {
	w.mu.Lock()
	w.wakeDue()
	now := time.Now()
	if i := slices.IndexFunc(w.late, func(c *call) bool { return !now.Before(c.held) }); i >= 0 {
		c := w.late[i]
		w.late = slices.Delete(w.late, i, i+1)
		w.mu.Unlock()
		w.note("%s happens after its caller gave up", c.label)
		c.apply(context.Background())
		return true
	}
	var ready []*call
	for _, c := range w.calls {
		if w.isReady(c, now) {
			ready = append(ready, c)
		}
	}
	if len(ready) == 0 {
		w.mu.Unlock()
		return false
	}
	slices.SortStableFunc(ready, compareCalls)
	c := ready[w.rnd.IntN(len(ready))]
	v, hold := w.decide(c)
	if hold > 0 {
		c.held, c.decided = now.Add(hold), true
		w.mu.Unlock()
		w.note("%s is held for %v", c.label, hold)
		return true
	}
	w.calls = slices.Delete(w.calls, slices.Index(w.calls, c), slices.Index(w.calls, c)+1)
	w.mu.Unlock()
	fmt.Fprintln(w.digest, time.Since(w.begun), len(ready), c.label, v)
	if c.topic == "" || v != happens {
		w.note("%s%s", c.label, [...]string{"", " fails", " happens and fails"}[v])
	}
	c.grant <- v
	return true
}

// isReady reports whether a call can be granted. The world's lock is held.
func (w *world) isReady(c *call, now time.Time) bool {
	if now.Before(c.held) || now.Before(c.proc.frozenUntil) {
		return false
	}
	return c.topic == "" || c.seen < w.changes[c.topic] || !now.Before(c.until)
}

// decide draws the fate of a call.
func (w *world) decide(c *call) (verdict, time.Duration) {
	oneIn := func(n int) bool { return n > 0 && w.rnd.IntN(n) == 0 }
	if !c.decided && oneIn(w.faults.holdOneIn) {
		c.survives = w.rnd.IntN(2) == 0
		return happens, time.Duration(1+w.rnd.Int64N(int64(w.faults.holdFor/time.Millisecond))) * time.Millisecond
	}
	if !oneIn(w.faults.failOneIn) {
		return happens, 0
	}
	return failsBefore + verdict(w.rnd.IntN(2)), 0
}

// wakeDue counts a change for what has become due. The world's lock is held.
func (w *world) wakeDue() {
	now := w.clock.Now()
	w.due = slices.DeleteFunc(w.due, func(d dueTime) bool {
		if d.at.After(now) {
			return false
		}
		w.changes[d.queue]++
		return true
	})
}

// pass lets time pass until a call arrives or one that waits may be granted.
func (w *world) pass(until time.Time) {
	w.mu.Lock()
	next := until
	earlier := func(t time.Time) {
		if t.After(time.Now()) && t.Before(next) {
			next = t
		}
	}
	for _, c := range w.calls {
		earlier(c.held)
		earlier(c.proc.frozenUntil)
		if c.topic != "" {
			earlier(c.until)
		}
	}
	for _, c := range w.late {
		earlier(c.held)
	}
	ahead := time.Until(w.clock.Now())
	for _, d := range w.due {
		earlier(d.at.Add(-ahead))
	}
	w.mu.Unlock()
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.arrived:
	}
}

// abandon grants all waiting calls of a process that has died: each happens, or not, and
// its caller, which is gone, learns nothing.
func (w *world) abandon(p *process) {
	w.mu.Lock()
	p.dead = true
	var orphans []*call
	w.calls = slices.DeleteFunc(w.calls, func(c *call) bool {
		if c.proc == p {
			orphans = append(orphans, c)
		}
		return c.proc == p
	})
	w.mu.Unlock()
	slices.SortStableFunc(orphans, compareCalls)
	for _, c := range orphans {
		v := failsBefore
		if c.topic == "" && w.rnd.IntN(2) == 0 {
			v = failsAfter
		}
		c.grant <- v
		synctest.Wait()
	}
}

// story returns the trace for a failure's report.
func (w *world) story() string {
	const most = 4000
	lines := w.trace
	if len(lines) > most {
		lines = lines[len(lines)-most:]
	}
	return strings.Join(lines, "\n")
}
