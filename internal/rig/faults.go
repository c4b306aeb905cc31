package rig

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/storetest"
)

func isFault(err error) bool { return errors.Is(err, storetest.ErrFault) }

// Hook is called before and after a call to a store.
type Hook func(method string, after bool)

// Hooked is a store with a hook around Commit, Claim, Renew, Release, Get and List. Other
// than the plan of a faulty store, a hook may take its time. What is sent to the store
// arrives there in the end, also if who has sent it has given up. Stats has no hook: it is
// how the store's time is asked for, under a lock, and who waits for a lock keeps virtual
// time from passing.
type Hooked struct {
	store.Store
	Hook Hook
}

var _ store.Store = (*Hooked)(nil)

func (h *Hooked) around(method string) func() {
	h.Hook(method, false)
	return func() { h.Hook(method, true) }
}

// Commit commits between two calls of the hook.
func (h *Hooked) Commit(ctx context.Context, tx *store.Tx) error {
	defer h.around("Commit")()
	return h.Store.Commit(context.WithoutCancel(ctx), tx)
}

// Claim claims between two calls of the hook.
func (h *Hooked) Claim(ctx context.Context, req store.ClaimRequest) ([]store.Claim, error) {
	defer h.around("Claim")()
	return h.Store.Claim(ctx, req)
}

// Renew renews between two calls of the hook.
func (h *Hooked) Renew(ctx context.Context, d time.Duration, leases []store.Lease) ([]store.Lease, error) {
	defer h.around("Renew")()
	return h.Store.Renew(context.WithoutCancel(ctx), d, leases)
}

// Release releases between two calls of the hook.
func (h *Hooked) Release(ctx context.Context, r store.Release) error {
	defer h.around("Release")()
	return h.Store.Release(context.WithoutCancel(ctx), r)
}

// Get reads between two calls of the hook.
func (h *Hooked) Get(ctx context.Context, key store.RecordKey) (store.Record, error) {
	defer h.around("Get")()
	return h.Store.Get(ctx, key)
}

// List reads between two calls of the hook.
func (h *Hooked) List(ctx context.Context, q store.Query) (store.Page, error) {
	defer h.around("List")()
	return h.Store.List(ctx, q)
}

// NthCall returns a hook that calls do at the nth call, before it or after.
func NthCall(n int, after bool, do func()) Hook {
	var calls atomic.Int64
	return func(_ string, isAfter bool) {
		if isAfter == after && calls.Add(1) == int64(n) {
			do()
		}
	}
}

// Delays returns a hook that holds each call up for a random while, and counts commits.
func Delays(seed uint64, most time.Duration, commits *atomic.Int64) Hook {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 0))
	return func(method string, after bool) {
		mu.Lock()
		wait := time.Duration(rnd.Int64N(int64(most)))
		mu.Unlock()
		if method == "Commit" && after {
			commits.Add(1)
		}
		<-time.After(wait)
	}
}

// Freezer is a hook that freezes a process: from one call on, none gets through until Thaw
// is closed.
type Freezer struct {
	Frozen chan struct{} // closed when it has come to that call
	Thaw   chan struct{}

	mu   sync.Mutex
	left int // calls until then
	is   func(method string, after bool) bool
}

// FreezeAt returns a hook that freezes at the nth call that is one of those.
func FreezeAt(n int, is func(method string, after bool) bool) *Freezer {
	return &Freezer{left: n, is: is, Frozen: make(chan struct{}), Thaw: make(chan struct{})}
}

// Hook is the hook.
func (f *Freezer) Hook(method string, after bool) {
	f.mu.Lock()
	if f.left > 0 && f.is(method, after) {
		if f.left--; f.left == 0 {
			close(f.Frozen)
		}
	}
	frozen := f.left == 0
	f.mu.Unlock()
	if frozen {
		<-f.Thaw
	}
}

// Survive runs a scenario, and while as soon as the process is frozen, which wakes up when while
// returns. It reports whether it froze before the scenario was over.
func (f *Freezer) Survive(scenario, while func()) (froze bool) {
	froze = during(scenario, f.Frozen, func() {
		while()
		close(f.Thaw)
	})
	if !froze {
		close(f.Thaw)
	}
	return froze
}

// Gate is a hook that holds calls up while it is shut. The zero value is open.
type Gate struct {
	mu   sync.Mutex
	open chan struct{} // nil if it is open
}

// Hook is the hook.
func (g *Gate) Hook(string, bool) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open != nil {
		<-open
	}
}

// Shut shuts the gate, and returns what opens it. A gate that is shut stays as it is.
func (g *Gate) Shut() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open != nil {
		return func() {}
	}
	wait := make(chan struct{})
	g.open = wait
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.open = nil
		close(wait)
	}
}

// Sometimes returns a plan that has calls fail once in so many times, before or after their
// effect; with 0 it has none fail.
func Sometimes(seed uint64, once int) func(storetest.Call) storetest.Fault {
	rnd := rand.New(rand.NewPCG(seed, 0))
	return func(storetest.Call) storetest.Fault {
		if once == 0 || rnd.IntN(once) > 0 {
			return storetest.NoFault
		}
		return storetest.FailBefore + storetest.Fault(rnd.IntN(2))
	}
}

// FaultAtEveryCall runs a scenario without a fault, and then once for each call that it
// has made to the store: that call fails, before it has its effect or after.
func FaultAtEveryCall(t *testing.T, run func(t *testing.T, plan func(storetest.Call) storetest.Fault) (calls int)) {
	t.Helper()
	calls := run(t, nil)
	if calls < 20 {
		t.Fatalf("%d calls are too few to be the scenario", calls)
	}
	for name, fault := range map[string]storetest.Fault{"before": storetest.FailBefore, "after": storetest.FailAfter} {
		for k := 1; k <= calls; k++ {
			t.Run(fmt.Sprintf("%s %d", name, k), func(t *testing.T) {
				run(t, func(c storetest.Call) storetest.Fault {
					if c.N == k {
						return fault
					}
					return storetest.NoFault
				})
			})
		}
	}
}

// AtEveryCall runs a scenario in which something happens at the kth call to the store, or
// right after it: for k = 1, 2, … until run reports that it did not come to so many calls.
func AtEveryCall(t *testing.T, run func(t *testing.T, k int, after bool) (reached bool)) {
	t.Helper()
	for _, after := range []bool{false, true} {
		for k, more := 1, true; more; k++ {
			more = false // also if run ends the test
			t.Run(fmt.Sprintf("after %v %d", after, k), func(t *testing.T) { more = run(t, k, after) })
		}
	}
}

// Mortal is the store of a process that dies during a scenario: from then on all calls fail.
type Mortal struct {
	*storetest.Faulty
	dead chan struct{}
}

// NewMortal returns the store of a process that dies when kill is called. When is given kill, and
// returns the hook that calls it at a call to the store, or nil if something else does. The hook
// is below what fails, so that a call can have had its effect without the process hearing of it.
// Dying, if not nil, is called when the store is dead, before another process can take over.
func NewMortal(st store.Store, dying func(), when func(kill func()) Hook) *Mortal {
	m := &Mortal{dead: make(chan struct{})}
	hook := when(sync.OnceFunc(func() {
		m.Kill()
		if dying != nil {
			dying()
		}
		close(m.dead)
	}))
	if hook != nil {
		st = &Hooked{Store: st, Hook: hook}
	}
	m.Faulty = storetest.NewFaulty(st, nil)
	return m
}

// Survive runs a scenario, and takeOver as soon as the process has died. It reports whether it
// died before the scenario was over.
func (m *Mortal) Survive(scenario, takeOver func()) (died bool) {
	return during(scenario, m.dead, takeOver)
}

// during runs a scenario, and then as soon as happened is closed. It reports whether that was
// before the scenario was over.
func during(scenario func(), happened <-chan struct{}, then func()) (reached bool) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-happened:
			reached = true
			then()
		case <-over:
		}
	}()
	scenario()
	close(over)
	<-done
	return reached
}
