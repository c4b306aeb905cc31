package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/cli"
	"github.com/abidehq/abide/internal/testenv"

	_ "github.com/abidehq/abide/remote" // abide: URLs
)

// runServer is what a server does: abide serve, until it is told to stop.
func (w *worker) runServer(ctx context.Context) error {
	for _, variable := range os.Environ() { // those of tests are not among the keys of a server's configuration
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "ABIDE_") {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	ended := make(chan error, 1)
	go func() {
		code := cli.Main(append([]string{"serve"}, w.Serve...), strings.NewReader(""), os.Stderr, os.Stderr)
		if code != 0 {
			ended <- fmt.Errorf("abide serve: exit code %d", code)
		}
		close(ended)
	}()
	for !accepts(ctx, w.Store) {
		if err := base.Sleep(ctx, base.System{}, 10*time.Millisecond); err != nil {
			return err
		}
		select {
		case err := <-ended:
			return err
		default:
		}
	}
	fmt.Println("ready")
	if err := w.obey(ctx, nil, ended); err != nil {
		return err
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		return err
	}
	return <-ended
}

// accepts reports whether somewhere connections are accepted.
func accepts(ctx context.Context, addr string) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was written
	return true
}

// runRemote is what a worker does that has servers instead of a store.
func (w *worker) runRemote(ctx context.Context) error {
	slots := w.Slots
	if slots == 0 {
		slots = atOnce
	}
	e, err := abide.Open(ctx, abide.Config{
		Store: w.Store, Register: append(w.serve(), holds, hold), Logger: w.log, LeaseDuration: w.Lease, Retention: -1,
		MaxTurns: slots, MaxActivities: slots, WorkerName: w.Name,
	})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	if err := w.obey(ctx, e.Client, nil); err != nil {
		return err
	}
	drain, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return e.Shutdown(drain)
}

// network is a fleet whose workers have servers instead of a store.
type network struct {
	*fleet
	addrs []string // where the servers take workers
}

// newNetwork starts servers on a database, and connects the client of the fleet to them.
func newNetwork(t *testing.T, servers int) *network {
	t.Helper()
	return newNetworkOf(t, newFleet(t, testenv.Postgres(t)), servers)
}

// newNetworkOf starts servers on the store of a fleet, and connects its client to them.
func newNetworkOf(t *testing.T, f *fleet, servers int) *network {
	t.Helper()
	n := &network{fleet: f}
	for range servers {
		n.addrs = append(n.addrs, freeAddr(t))
		n.processes = append(n.processes, n.startServer(len(n.addrs)-1))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := abide.Open(ctx, abide.Config{Store: n.urlOf(), Logger: slog.New(slog.DiscardHandler), Unlisted: true})
	check.OK(t, err)
	t.Cleanup(func() { _ = e.Close() }) // its servers may be gone
	n.client = e.Client
	return n
}

// freeAddr returns an address on which nothing listens: that of a server that is started again.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	defer l.Close()
	return l.Addr().String()
}

// urlOf returns the URL of all servers.
func (n *network) urlOf() string { return "abide://" + strings.Join(n.addrs, ",") }

// startServer starts the server of an address.
func (n *network) startServer(i int) *process {
	n.t.Helper()
	return startProcess(n.t, n.setup(func(s *setup) {
		s.Store = n.addrs[i]
		s.Serve = []string{"--store", n.place, "--addr", "127.0.0.1:0", "--worker-addr", n.addrs[i], "--log-level", "warn", "--set", "instances.max_activities=500"}
	}))
}

// startRemote starts a worker.
func (n *network) startRemote(change func(*setup)) *process {
	n.t.Helper()
	return startProcess(n.t, n.setup(func(s *setup) {
		s.Store = n.urlOf()
		if change != nil {
			change(s)
		}
	}))
}

// kill kills a process, and starts another one in its place.
func (n *network) kill(i int) {
	n.t.Helper()
	n.processes[i].kill()
	if i < len(n.addrs) {
		n.processes[i] = n.startServer(i)
	} else {
		n.processes[i] = n.startRemote(nil)
	}
}

// TestKilledServersAndWorkers kills two servers and their four workers by chance, one or two at a time, while
// they are at work, and starts others in their places. Each order ends once, with the right result.
func TestKilledServersAndWorkers(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2)
	for range 4 {
		n.processes = append(n.processes, n.startRemote(nil))
	}
	orders, kills := rounds(150, 5_000), rounds(6, 150)
	began := time.Now()
	finish := n.take(orders)
	killed := map[bool]int{}
	for k := range kills {
		want := (k + 1) * orders * len(stepsOf["1"]) / (kills + 2)
		if !until(func() bool { return n.effects() >= want }) {
			t.Fatalf("the fleet makes no progress: %d effects of %d", n.effects(), want)
		}
		for range 1 + n.rnd.IntN(4)/3 {
			i := n.rnd.IntN(len(n.processes))
			n.kill(i)
			killed[i < len(n.addrs)]++
		}
	}
	finish()
	t.Logf("%d orders with a child each took %v; %d servers and %d workers were killed", orders, time.Since(began).Round(time.Second), killed[true], killed[false])
	n.settle()
	n.stopWorkers()
	n.checkLedger()
	n.checkOrders()
	n.checkHistories()
	n.stopAll()
	n.checkStore()
	if kills > 100 { // a few may hit processes that have nothing in their hands
		n.wantTakenOver()
	}
	t.Logf("the latest thing was %v late; the limit is %v", n.latest, n.longest())
}

// stopWorkers stops the workers, as an operator does, and not the servers.
func (n *network) stopWorkers() {
	n.t.Helper()
	for _, p := range n.processes[len(n.addrs):] {
		p.stop()
	}
	n.processes = n.processes[:len(n.addrs)]
}

// take has so many orders taken, some at a time, and returns a function that waits until they have ended.
func (n *network) take(orders int) (finish func()) {
	done := make(chan struct{})
	open := make(chan struct{}, 2*mostOpen)
	go func() {
		defer close(done)
		for number := range orders {
			open <- struct{}{}
			go func() {
				defer func() { <-open }()
				n.approve(number)
				n.start(number)
				n.mu.Lock()
				n.orders[number] = "1"
				n.mu.Unlock()
				n.await(number)
			}()
		}
		for range cap(open) {
			open <- struct{}{}
		}
	}()
	return func() { <-done }
}

// hold is an activity whose first attempt does not end by itself.
var hold = abide.NewActivity("hold", func(ctx context.Context, number int) (int, error) {
	info, _ := abide.ActivityOf(ctx)
	err := theLedger.begin(ctx, attempt{info.Instance.ID, info.Key, info.Attempt}, "hold")
	if err == nil && info.Attempt == 1 {
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	return number, err
})

// holds has many of them run at a time.
var holds = abide.NewOrchestration("holds", func(ctx abide.Context, n int) (int, error) {
	var all []*abide.Future[int]
	for i := range n {
		all = append(all, hold.Go(ctx, i))
	}
	results, err := abide.All(ctx, all...)
	return len(results), err
})

// TestKilledWorkerOfManyActivities kills a worker that runs 500 activities: all of them begin again at another
// worker, as soon as the server notices that the connection is gone, and long before their leases end.
func TestKilledWorkerOfManyActivities(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1)
	const many, long = 500, 30 * time.Second
	big := func(s *setup) { s.Slots, s.Lease = many, long }
	one := n.startRemote(big)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var run *abide.Instance[int]
	n.insist("start", func(ctx context.Context) (err error) {
		run, err = holds.Start(ctx, n.client, many, abide.ID("holds"))
		return err
	})
	begun := func(attempt int) int {
		count, err := n.ledger.attempts(ctx, attempt)
		check.OK(t, err)
		return count
	}
	if !until(func() bool { return begun(1) == many }) {
		t.Fatalf("%d of %d activities have begun", begun(1), many)
	}
	two := n.startRemote(big)
	killed := time.Now()
	one.kill()
	if !until(func() bool { return begun(2) == many }) {
		t.Fatalf("%d of %d activities have begun again", begun(2), many)
	}
	took := time.Since(killed)
	t.Logf("%d activities have begun again within %v", many, took)
	if took > slack {
		t.Errorf("that took %v, and must not wait for the lease, which is %v", took, long)
	}
	result, err := run.Result(ctx)
	check.OK(t, err)
	check.Equal(t, "results", result, many)
	two.stop()
	n.stopAll()
	n.checkStore()
}
