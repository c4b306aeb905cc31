package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// lease is how long a key belongs to a process that is not heard of. It is short, so that
// the tests are.
const lease = 2 * time.Second

// slack is how much longer than the lease it may take until what a lost process has left
// is taken up, on a machine that is busy. A fleet that waits for another lease than the
// one that it was given, thirty seconds, is found out.
const slack = 8 * time.Second

// fleet is some processes on one database, and the load on them.
type fleet struct {
	t      *testing.T
	rnd    *rand.Rand
	url    string // of the database with the ledger
	place  string // the URL of the store
	dir    string
	ledger *ledger

	store  store.Store
	client *abide.Client
	timers *timer.Service

	roster    sync.RWMutex // is held by who has a process do something
	processes []*process
	started   int // processes, ever

	mu        sync.Mutex
	orders    map[int]string       // versions by number
	due       map[string]time.Time // of timers
	cancelled map[string]bool
	outage    time.Duration // the longest that the database was away for
	latest    time.Duration // how late the latest thing was that came
}

// newFleet returns a fleet without processes on a new database of a server.
func newFleet(t *testing.T, server *testenv.PostgresServer) *fleet {
	t.Helper()
	database := server.Database(t)
	return newFleetOn(t, database, database)
}

// newFleetOn returns a fleet without processes on a store, with its ledger in a database.
func newFleetOn(t *testing.T, place, database string) *fleet {
	t.Helper()
	f := newFleetClosed(t, place, database)
	var err error
	if f.store, err = store.Open(t.Context(), f.place); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.store.Close(); err != nil {
			t.Error(err)
		}
	})
	f.client = abide.NewClient(f.store, nil)
	if f.timers, err = timer.New(timer.Config{Store: f.store, SinksOf: func(string) []string { return []string{sinkName} }}); err != nil {
		t.Fatal(err)
	}
	return f
}

// newFleetClosed returns a fleet without processes on a store that only one of them can open.
func newFleetClosed(t *testing.T, place, database string) *fleet {
	t.Helper()
	f := &fleet{
		t: t, rnd: rand.New(rand.NewPCG(testenv.Seed(t), 0)), url: database, place: place, dir: t.TempDir(),
		orders: map[int]string{}, due: map[string]time.Time{}, cancelled: map[string]bool{},
	}
	var err error
	if f.ledger, err = openLedger(t.Context(), f.url, "test"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.ledger.pool.Close)
	if _, err := f.ledger.pool.Exec(t.Context(), ledgerSchema); err != nil {
		t.Fatal(err)
	}
	return f
}

// setup returns that of a process to come, which is like all others.
func (f *fleet) setup(change func(*setup)) setup {
	f.started++
	name := fmt.Sprintf("process-%d", f.started)
	s := setup{Name: name, Store: f.place, Ledger: f.url, Sink: f.sink(name), Lease: lease, Versions: []string{"1"}}
	if change != nil {
		change(&s)
	}
	return s
}

// sink returns the file that a process publishes to.
func (f *fleet) sink(process string) string { return filepath.Join(f.dir, process) }

// add adds a process.
func (f *fleet) add(change func(*setup)) *process {
	f.t.Helper()
	p := startProcess(f.t, f.setup(change))
	f.processes = append(f.processes, p)
	return p
}

// any returns one of the processes by chance, and its place.
func (f *fleet) any() (int, *process) {
	i := f.rnd.IntN(len(f.processes))
	return i, f.processes[i]
}

// stopAll stops all processes as an operator does.
func (f *fleet) stopAll() {
	f.t.Helper()
	for _, p := range f.processes {
		p.stop()
	}
	f.processes = nil
}

// insist does something that can be done twice until it is known to be done: the database
// may be away.
func (f *fleet) insist(what string, do func(ctx context.Context) error) {
	f.t.Helper()
	var err error
	if !until(func() bool {
		ctx, cancel := context.WithTimeout(f.t.Context(), 5*time.Second)
		defer cancel()
		err = do(ctx)
		return err == nil
	}) {
		f.t.Errorf("%s: %v", what, err)
	}
}

// tenants are whose timers there are.
var tenants = []string{"acme", "globex", "initech"}

// order starts an order, schedules a timer and approves the order, which may happen before
// it is started.
func (f *fleet) order(number int, start func(number int) (version string)) {
	f.t.Helper()
	early := number%3 == 0
	if early {
		f.approve(number)
	}
	version := start(number)
	f.mu.Lock()
	f.orders[number] = version
	f.mu.Unlock()
	f.schedule(number)
	if !early {
		f.approve(number)
	}
}

// start starts an order of version 1 from here.
func (f *fleet) start(number int) string {
	f.insist("start "+orderID(number), func(ctx context.Context) error { return startOrder(ctx, f.client, number, "1") })
	return "1"
}

func (f *fleet) approve(number int) {
	f.insist("approve "+orderID(number), func(ctx context.Context) error {
		return approved.Raise(ctx, f.client, orderID(number), 3*number, abide.ID("once"))
	})
}

// schedule schedules a timer, once: one that is there was scheduled by an attempt that
// nobody has heard of. Some are cancelled, if it is not too late.
func (f *fleet) schedule(number int) {
	tenant, key := tenants[number%len(tenants)], fmt.Sprintf("timer-%d", number)
	var at time.Time
	f.insist("schedule "+key, func(ctx context.Context) error {
		set, err := f.timers.Schedule(ctx, timer.Request{
			Tenant: tenant, Key: key, Delay: time.Duration(number%20) * 100 * time.Millisecond, IfAbsent: true,
		})
		if errors.Is(err, timer.ErrExists) {
			set, err = f.timers.Get(ctx, tenant, key)
		}
		at = set.DueAt
		return err
	})
	cancelled := false
	if number%5 == 4 {
		f.insist("cancel "+key, func(ctx context.Context) error {
			_, err := f.timers.Cancel(ctx, tenant, key)
			if cancelled = err == nil; errors.Is(err, timer.ErrState) {
				return nil // it has fired
			}
			return err
		})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.due[key] = at
	if cancelled {
		f.cancelled[key] = true
	}
}

// mostOpen is how many orders are open at a time: a machine that is slow gets less to do,
// and is not buried in it.
const mostOpen = 40

// load starts orders at a steady pace in the background, until it is stopped: that returns
// when all of them have ended.
func (f *fleet) load(every time.Duration, start func(number int) string) (stop func()) {
	ending, ended := make(chan struct{}), make(chan struct{})
	var orders sync.WaitGroup
	open := make(chan struct{}, mostOpen)
	go func() {
		defer close(ended)
		for number := 0; ; number++ {
			select {
			case <-ending:
				return
			case open <- struct{}{}:
			}
			orders.Go(func() {
				f.order(number, start)
				f.await(number)
				<-open
			})
			pause(every)
		}
	}()
	return func() {
		close(ending)
		<-ended
		orders.Wait()
	}
}

// await waits until an order has ended, or has stalled.
func (f *fleet) await(number int) {
	f.insist("await "+orderID(number), func(ctx context.Context) error {
		for revision := int64(0); ; {
			info, err := f.client.WaitChange(ctx, abide.Ref{ID: orderID(number)}, revision)
			if err != nil || info.Status.Ended() || info.Status == abide.Stalled {
				return err
			}
			revision = info.Revision
		}
	})
}

// now returns the store's time.
func (f *fleet) now() time.Time {
	var now time.Time
	f.insist("ask for the time", func(ctx context.Context) error {
		stats, err := f.store.Stats(ctx)
		now = stats.Now
		return err
	})
	return now
}

// pass waits until so much time has passed, by the store's clock.
func (f *fleet) pass(d time.Duration) {
	f.t.Helper()
	if end := f.now().Add(d); !until(func() bool { return !f.now().Before(end) }) {
		f.t.Errorf("%v does not pass", d)
	}
}

// effects returns how many effects the world has seen.
func (f *fleet) effects() int {
	n := 0
	f.insist("count effects", func(ctx context.Context) error {
		var err error
		n, err = f.ledger.count(ctx)
		return err
	})
	return n
}

// progress waits until the world has seen some more effects: the fleet is at work.
func (f *fleet) progress(more int) {
	f.t.Helper()
	if want := f.effects() + more; !until(func() bool { return f.effects() >= want }) {
		f.t.Fatal("the fleet makes no progress")
	}
}

// without does something that the database is away for, and notes how long that took.
func (f *fleet) without(do func()) {
	began := time.Now()
	do()
	f.outage = max(f.outage, time.Since(began))
}

// wantWork waits until a process has begun something that it had not begun before.
func (f *fleet) wantWork(p *process) {
	f.t.Helper()
	begun := func() int {
		n := 0
		f.insist("count attempts", func(ctx context.Context) error {
			var err error
			n, err = f.ledger.begun(ctx, p.setup.Name)
			return err
		})
		return n
	}
	if before := begun(); !until(func() bool { return begun() > before }) {
		f.t.Errorf("%s does nothing any more", p.setup.Name)
	}
}

// wantTakenOver checks that the faults have hit something: a process went on with what
// another one had begun.
func (f *fleet) wantTakenOver() {
	f.t.Helper()
	n, err := f.ledger.takenOver(f.t.Context())
	check.OK(f.t, err)
	if n == 0 {
		f.t.Error("nothing was taken over from a process that was lost")
	}
	f.t.Logf("%d attempts were taken over", n)
}
