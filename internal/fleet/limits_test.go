package fleet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// callsSchema is what the target of calls has seen: each call from when it begins to when it ends, under each
// of its limits, and from when to when a process was away. A process that is away makes no calls, whatever it believes.
const callsSchema = `
CREATE TABLE ledger.calls (
	gate    text NOT NULL,
	work    text NOT NULL,
	attempt int NOT NULL,
	worker  text NOT NULL,
	began   timestamptz NOT NULL DEFAULT clock_timestamp(),
	ended   timestamptz,
	PRIMARY KEY (gate, work, attempt)
);
CREATE TABLE ledger.away (
	worker text NOT NULL,
	since  timestamptz NOT NULL DEFAULT clock_timestamp(),
	until  timestamptz NOT NULL DEFAULT 'infinity'
);
CREATE VIEW ledger.seen AS
	SELECT gate, work, attempt, worker, began, least(ended, away) AS ended FROM (
		SELECT c.*, (SELECT min(since) FROM ledger.away a WHERE a.worker = c.worker AND a.until > c.began) AS away FROM ledger.calls c) AS c
	WHERE began < coalesce(away, 'infinity');`

// limitsLease is the lease of the processes of these tests: so long that a process which waits for a processor is
// not taken for lost before it knows, which would be one call too many.
const limitsLease = 6 * time.Second

// The limits of calls. Those of instances are seen by their first and last activity.
var (
	mostThree    = abide.NewLimit("three", abide.Concurrency(3))
	mostCustomer = abide.NewLimit("customer", abide.Concurrency(1), abide.PerKey())
	mostRate     = abide.NewLimit("rate", abide.Rate(callsRate, time.Second).Burst(callsBurst))
	mostRuns     = abide.NewLimit("runs", abide.Concurrency(4))

	// allowed is how many may be under way at each gate.
	allowed = map[string]int{"three": 3, "customer/0": 1, "customer/1": 1, "customer/2": 1, "customer/3": 1, "runs": 4}
)

const (
	callsRate  = 20
	callsBurst = 5
)

// callAt is a call of the target, under gates.
type callAt struct {
	Gates []string
	Takes time.Duration
	Flaky bool
}

var (
	call = abide.NewActivity("call", func(ctx context.Context, c callAt) (int, error) {
		info, _ := abide.ActivityOf(ctx)
		return info.Attempt, theLedger.call(ctx, attempt{info.Instance.ID, info.Key, info.Attempt}, c)
	}, abide.Retry(0).Backoff(50*time.Millisecond, 2, 500*time.Millisecond))

	enterRun = abide.NewActivity("enter", func(ctx context.Context, gate string) (int, error) {
		info, _ := abide.ActivityOf(ctx)
		return 0, theLedger.enter(ctx, gate, info.Instance.ID)
	}, abide.Retry(0))
	leaveRun = abide.NewActivity("leave", func(ctx context.Context, gate string) (int, error) {
		info, _ := abide.ActivityOf(ctx)
		return 0, theLedger.leave(ctx, gate, info.Instance.ID, 1)
	}, abide.Retry(0))

	// caller makes one call, under limits by its number, and a run is an instance under a limit.
	caller = abide.NewOrchestration("caller", func(ctx abide.Context, number int) (int, error) {
		customer := fmt.Sprint(number / 4 % 4)
		in := callAt{Takes: time.Duration(number%7) * 15 * time.Millisecond, Flaky: number%5 == 0}
		var under abide.UnderOption
		switch number % 4 {
		case 0:
			in.Gates, under = []string{"three"}, abide.Under(mostThree)
		case 1:
			in.Gates, under = []string{"customer/" + customer}, abide.UnderKey(mostCustomer, customer)
		case 2:
			in.Gates, in.Takes, under = []string{"rate"}, 0, abide.Under(mostRate)
		default:
			in.Gates = []string{"customer/" + customer, "three"}
			return call.Call(ctx, in, abide.UnderKey(mostCustomer, customer), abide.Under(mostThree))
		}
		return call.Call(ctx, in, under)
	})
	run = abide.NewOrchestration("run", func(ctx abide.Context, _ int) (int, error) {
		if _, err := enterRun.Call(ctx, "runs"); err != nil {
			return 0, err
		}
		if err := nap(ctx, 100); err != nil {
			return 0, err
		}
		return leaveRun.Call(ctx, "runs")
	})

	underLimits = []abide.Definition{call, enterRun, leaveRun, caller, run}
)

// call makes a call: it begins, takes a while, and ends.
func (l *ledger) call(ctx context.Context, a attempt, c callAt) error {
	for _, gate := range c.Gates {
		if _, err := l.pool.Exec(ctx, `INSERT INTO ledger.calls (gate, work, attempt, worker) VALUES ($1, $2, $3, $4)`,
			gate, a.key, a.number, l.worker); err != nil {
			return err
		}
	}
	var err error
	if c.Takes > 0 {
		err = base.Sleep(ctx, base.System{}, c.Takes)
	}
	if err == nil && c.Flaky && a.number == 1 {
		err = errFlaky
	}
	for _, gate := range c.Gates {
		err = errors.Join(err, l.leave(context.WithoutCancel(ctx), gate, a.key, a.number))
	}
	return err
}

// enter notes that an instance is under way, once, and leave that something has ended.
func (l *ledger) enter(ctx context.Context, gate, work string) error {
	_, err := l.pool.Exec(ctx, `INSERT INTO ledger.calls (gate, work, attempt, worker) VALUES ($1, $2, 1, 'any') ON CONFLICT DO NOTHING`, gate, work)
	return err
}

func (l *ledger) leave(ctx context.Context, gate, work string, number int) error {
	_, err := l.pool.Exec(ctx, `UPDATE ledger.calls SET ended = clock_timestamp()
		WHERE gate = $1 AND work = $2 AND attempt = $3 AND ended IS NULL`, gate, work, number)
	return err
}

// away notes that a process is away, from before it is until a while after it is back.
func (l *ledger) away(ctx context.Context, worker string) (back func(after time.Duration) error, err error) {
	_, err = l.pool.Exec(ctx, `INSERT INTO ledger.away (worker) VALUES ($1)`, worker)
	return func(after time.Duration) error {
		_, err := l.pool.Exec(ctx, `UPDATE ledger.away SET until = clock_timestamp() + $2 WHERE worker = $1 AND until = 'infinity'`, worker, after)
		return err
	}, err
}

// mostAtOnce returns how many calls were under way at the same time at each gate.
func (l *ledger) mostAtOnce(ctx context.Context) (most map[string]int, err error) {
	rows, err := l.pool.Query(ctx, `
		SELECT gate, max(n) FROM (
			SELECT gate, sum(d) OVER (PARTITION BY gate ORDER BY at, d ROWS UNBOUNDED PRECEDING) AS n FROM (
				SELECT gate, began AS at, 1 AS d FROM ledger.seen
				UNION ALL SELECT gate, coalesce(ended, 'infinity'), -1 FROM ledger.seen) AS steps) AS sums
		GROUP BY gate`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	most = map[string]int{}
	for rows.Next() {
		var gate string
		var n int
		if err := rows.Scan(&gate, &n); err != nil {
			return nil, err
		}
		most[gate] = n
	}
	return most, rows.Err()
}

// begins returns when the calls at a gate have begun, in order.
func (l *ledger) begins(ctx context.Context, gate string) (times []time.Time, err error) {
	rows, err := l.pool.Query(ctx, `SELECT began FROM ledger.seen WHERE gate = $1 ORDER BY began`, gate)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var at time.Time
		if err := rows.Scan(&at); err != nil {
			return nil, err
		}
		times = append(times, at)
	}
	return times, rows.Err()
}

// finished returns how many pieces of work have ended an attempt at a gate.
func (l *ledger) finished(ctx context.Context) (n int, err error) {
	err = l.pool.QueryRow(ctx, `SELECT count(DISTINCT (gate, work)) FROM ledger.calls WHERE ended IS NOT NULL`).Scan(&n)
	return n, err
}

// limited is a fleet whose work is under limits.
type limited struct {
	*fleet
	work int // pieces that were started
}

// newLimited adds what the target of calls sees to the ledger of a fleet.
func newLimited(t *testing.T, f *fleet) *limited {
	t.Helper()
	_, err := f.ledger.pool.Exec(t.Context(), callsSchema)
	check.OK(t, err)
	return &limited{fleet: f}
}

// longer gives a process the lease of these tests.
func longer(s *setup) { s.Lease = limitsLease }

// start starts all work at once: what is urgent among it, too.
func (l *limited) start(work int) {
	l.t.Helper()
	l.work = work
	for number := range work {
		l.insist("start", func(ctx context.Context) (err error) {
			if number%6 == 5 {
				_, err = run.Start(ctx, l.client, number, abide.ID(fmt.Sprint("run-", number)), abide.Under(mostRuns))
			} else {
				_, err = caller.Start(ctx, l.client, number, abide.ID(fmt.Sprint("call-", number)), abide.Priority(number%3))
			}
			return err
		})
	}
}

// advance waits until a part of the work has ended.
func (l *limited) advance(part float64) {
	l.t.Helper()
	n := 0
	if !until(func() bool {
		l.insist("count calls", func(ctx context.Context) (err error) {
			n, err = l.ledger.finished(ctx)
			return err
		})
		return float64(n) >= part*float64(l.work)
	}) {
		l.t.Fatalf("the fleet makes no progress: %d of %d", n, l.work)
	}
}

// lose kills a process, or has it stand still for longer than its lease.
func (l *limited) lose(i int, p *process, again func() *process) {
	l.t.Helper()
	back, err := l.ledger.away(l.t.Context(), p.setup.Name)
	check.OK(l.t, err)
	if i%3 != 2 {
		p.kill()
		l.replace(p, again())
		return
	}
	thaw := p.freeze()
	pause(limitsLease * 3 / 2)
	thaw()
	check.OK(l.t, back(limitsLease)) // when it knows what it has lost
}

func (l *limited) replace(p, by *process) {
	for i := range l.processes {
		if l.processes[i] == p {
			l.processes[i] = by
		}
	}
}

// check waits for the end of all work, and checks that no limit was exceeded and nothing is left.
func (l *limited) check() {
	l.t.Helper()
	open := 0
	if !within(3*patience, func() bool {
		infos := l.instances(openStatuses...)
		for i := range infos {
			if infos[i].Status == abide.Stalled {
				l.t.Fatalf("%v has stalled: %s", infos[i].Ref, infos[i].Reason)
			}
		}
		open = len(infos)
		return open == 0
	}) {
		l.t.Fatalf("%d of %d instances do not come to an end", open, l.work)
	}
	check.Equal(l.t, "instances", len(l.instances(abide.Completed)), l.work)
	l.checkIdle()
	most, err := l.ledger.mostAtOnce(l.t.Context())
	check.OK(l.t, err)
	for gate, n := range allowed {
		if most[gate] > n || most[gate] == 0 {
			l.t.Errorf("%d calls were under way at the same time under %s, at most %d may be", most[gate], gate, n)
		}
	}
	l.checkRate()
	l.t.Logf("%d pieces of work; at the same time under way: %v", l.work, most)
}

// checkIdle waits until no unit is held and nothing waits: the last ends are handled after what they end.
func (l *limited) checkIdle() {
	l.t.Helper()
	var left []abide.LimitInfo
	if !within(patience, func() bool {
		var all []abide.LimitInfo
		l.insist("list limits", func(ctx context.Context) (err error) {
			all, err = l.client.Limits(ctx, "")
			return err
		})
		left = nil
		for _, info := range all {
			if info.InUse > 0 || info.Waiting > 0 {
				left = append(left, info)
			}
		}
		return len(left) == 0 && len(all) == 4
	}) {
		l.t.Errorf("limits are in use by work that has ended: %+v", left)
		l.dumpGates()
	}
}

// dumpGates logs the records and messages of gates, if the store can be read from here.
func (l *limited) dumpGates() {
	if l.store == nil {
		return
	}
	page, err := l.store.List(l.t.Context(), store.Query{Kind: "gate"})
	check.OK(l.t, err)
	for _, r := range page.Records {
		pending, err := l.store.Pending(l.t.Context(), store.Key{Queue: "limits", Tenant: r.Key.Tenant, Name: r.Key.ID}, 10)
		l.t.Logf("gate %s: %q\nits messages: %+v %v", r.Key.ID, r.Body, pending, err)
	}
}

// checkRate checks that calls begin at the rate. A call begins a while after it was admitted, which depends on
// the load of the machine: two processes that each admitted the whole rate would be seen all the same.
func (l *limited) checkRate() {
	l.t.Helper()
	begins, err := l.ledger.begins(l.t.Context(), "rate")
	check.OK(l.t, err)
	for i, from := range begins {
		for k, to := range begins[i:] {
			if most := callsBurst + callsRate*(to.Sub(from)+slack/2).Seconds(); float64(k) > most {
				l.t.Fatalf("%d calls have begun within %v, at %d a second", k, to.Sub(from), callsRate)
			}
		}
	}
	l.t.Logf("%d calls at %d a second took %v", len(begins), callsRate, begins[len(begins)-1].Sub(begins[0]))
}

// on runs the work on processes that open the store, which are lost one after another.
func (l *limited) on(processes int) {
	l.t.Helper()
	for range processes {
		l.add(longer)
	}
	l.start(rounds(900, 6_000))
	losses := rounds(3, 40)
	for i := range losses {
		l.advance(float64(i+1) / float64(losses+2))
		_, p := l.any()
		l.lose(i, p, func() *process { return startProcess(l.t, l.setup(longer)) })
	}
	l.check()
	l.stopAll()
	l.checkStore()
}

// TestLimitsHold has work under limits run on processes that are killed and frozen by chance. The target of its calls
// never sees more of them than a limit allows; all work is done, and nothing is left at the limits.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		newLimited(t, newFleet(t, testenv.Postgres(t))).on(rounds(4, 8))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		place := "redis://" + testenv.Redis(t).Addr + "/0"
		newLimited(t, newFleetOn(t, place, testenv.SharedPostgres(t).Database(t))).on(rounds(3, 8))
	})
	t.Run("shards", func(t *testing.T) {
		t.Parallel()
		f, _ := newShardedFleet(t, testenv.Postgres(t))
		newLimited(t, f).on(rounds(3, 8))
	})
}

// TestLimitsHoldOnTheEmbeddedStore is TestLimitsHold for a server with the embedded store and its workers.
func TestLimitsHoldOnTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	f := newFleetClosed(t, "pebble://"+filepath.Join(t.TempDir(), "data"), testenv.SharedPostgres(t).Database(t))
	n := newNetworkOf(t, f, 1)
	l := newLimited(t, f)
	for range 3 {
		n.processes = append(n.processes, n.startRemote(longer))
	}
	l.start(rounds(600, 6_000))
	losses := rounds(3, 40)
	for i := range losses {
		l.advance(float64(i+1) / float64(losses+2))
		p := n.processes[(i+1)%len(n.processes)]
		l.lose(i, p, func() *process {
			if p == n.processes[0] {
				return n.startServer(0)
			}
			return n.startRemote(longer)
		})
	}
	l.check()
	l.stopAll()
	var err error
	f.store, err = store.Open(t.Context(), f.place)
	check.OK(t, err)
	f.checkStore()
	check.OK(t, f.store.Close())
}
