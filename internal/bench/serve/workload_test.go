package serve

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// Flags of a run that is over soon, and of its parts.
const (
	little    = "--clients 4 --duration 5ms --instances 120 --timers 130 --pages 2 --lists 26 --idle 1ms --streams 5 --changes 3 --rate 1000 "
	noStarts  = "--duration 0 "
	noReads   = "--instances 0 "
	noIdle    = "--idle 0 "
	noStreams = "--streams 0 "
)

// quantiles returns the keys of histograms.
func quantiles(names ...string) (keys []string) {
	for _, name := range names {
		keys = append(keys, name+"_p50_ms", name+"_p99_ms", name+"_max_ms")
	}
	return keys
}

// Keys that programs rely on.
var (
	startKeys  = append(quantiles("latency"), "clients", "duration_s", "starts", "starts_per_s", "completed_per_s")
	fullKeys   = []string{"instances_loaded_per_s", "timers_loaded_per_s"}
	readKeys   = append(quantiles("page", "page_instances", "page_timers", "page_instance", "list"), "instances", "timers", "pages", "page_first_ms", "lists", "list_slowest")
	idleKeys   = []string{"idle_s"}
	streamKeys = append(quantiles("stream"), "streams", "changes")
)

func TestWorkload(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, args string
		keys       [][]string
	}{
		{"all", "", [][]string{startKeys, fullKeys, readKeys, idleKeys, streamKeys}},
		{"starts", noReads + noIdle + noStreams, [][]string{startKeys}},
		{"reads", noStarts + noIdle + noStreams, [][]string{fullKeys, readKeys}},
		{"no timers", noStarts + noIdle + noStreams + "--timers 0", [][]string{fullKeys[:1], readKeys}},
		{"idle", noStarts + noReads + noStreams, [][]string{idleKeys}},
		{"streams", noStarts + noReads + noIdle, [][]string{streamKeys}},
	} {
		for _, scheme := range []string{"memory", "pebble"} {
			t.Run(tt.name+" on "+scheme, func(t *testing.T) {
				t.Parallel()
				keys := slices.Clone(tt.keys)
				if scheme == "pebble" {
					keys = append(keys, []string{"store_mib"})
				}
				got := benchtest.Run(t, Spec(), bench.Config{URL: benchtest.URL(t, scheme)}, little+tt.args)
				benchtest.Keys(t, got, keys...)
				benchtest.Want(t, got, map[string]any{"workload": "serve", "store": scheme})
			})
		}
	}
}

// TestServeIsWhatItSays looks at what a run leaves in the store: what it counted is there,
// and in the audit log.
func TestServeIsWhatItSays(t *testing.T) {
	t.Parallel()
	s, storeURL := benchtest.New()
	got := benchtest.Run(t, Spec(), bench.Config{URL: storeURL}, little)
	benchtest.Positive(t, got, "starts_per_s", "latency_p50_ms", "page_p50_ms", "list_p50_ms", "stream_p50_ms")
	hellos, sleepers := 0, map[string]int{}
	for _, i := range benchtest.Instances(t, s) {
		switch {
		case i.Orchestration == hello.Name() && i.Ref.Tenant == tenant && i.Status == abide.Completed:
			hellos++
		case i.Orchestration == sleeper.Name() && i.Status == abide.Running:
			sleepers[i.Ref.Tenant]++
		default:
			t.Errorf("instance %v of %s is %s", i.Ref, i.Orchestration, i.Status)
		}
	}
	starts := int(got["starts"].(float64)) + 3
	if hellos != starts || len(sleepers) != tenants || sleepers[tenantOf(3)] != 120/tenants {
		t.Errorf("%d were started, and there are %d; asleep are %v", starts, hellos, sleepers)
	}
	if changes := got["changes"].(float64); changes < 3 {
		t.Errorf("%v changes of 3 instances", changes)
	}
	if n := armedTimers(t, s); n != 130 {
		t.Errorf("%d timers are armed, want 130", n)
	}
	if noted := audited(t, s, "start-instance"); noted != starts {
		t.Errorf("%d starts are in the audit log, want %d", noted, starts)
	}
}

// armedTimers returns how many timers of a run are armed. Each must be, for long.
func armedTimers(t *testing.T, s store.Store) int {
	t.Helper()
	service, err := timer.New(timer.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	page, err := service.List(t.Context(), timer.Filter{Limit: timer.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	for _, tm := range page.Timers {
		if tm.Status != timer.Armed || !strings.HasPrefix(tm.Tenant, bench.Prefix) || time.Until(tm.DueAt) < bench.FarAfter-time.Hour {
			t.Errorf("timer %+v", tm)
		}
	}
	return len(page.Timers)
}

// audited returns how often the audit log has an operation.
func audited(t *testing.T, s store.Store, operation string) (n int) {
	t.Helper()
	guard, err := auth.New(auth.Config{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	ctx := auth.With(t.Context(), auth.Identity{Kind: auth.Local, Role: auth.Admin})
	for q := (auth.AuditQuery{Operation: operation}); ; {
		page, err := guard.Audit(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		n += len(page.Entries)
		if q.Cursor = page.Next; q.Cursor == "" {
			return n
		}
	}
}

// TestAStoreThatWasLoaded: what is there is used as it is, and what is missing is loaded.
func TestAStoreThatWasLoaded(t *testing.T) {
	t.Parallel()
	c := bench.Config{URL: benchtest.URL(t, "shared")}
	benchtest.Run(t, Spec(), c, little+noStarts+noIdle+noStreams)
	got := benchtest.Run(t, Spec(), c, little+noStarts+noIdle+noStreams+"--timers 150")
	benchtest.Keys(t, got, readKeys, fullKeys[1:])
	benchtest.Want(t, got, map[string]any{"instances": 120.0, "timers": 150.0})
}

// TestServeThatDoesNotSucceed: a run whose figures would be worth nothing is an error.
func TestServeThatDoesNotSucceed(t *testing.T) {
	t.Parallel()
	starts := func(tx *store.Tx) bool {
		return slices.ContainsFunc(tx.PutRecords, func(p store.PutRecord) bool { return p.Record.Key.Kind == "instance" })
	}
	turns := func(tx *store.Tx) bool { return len(tx.Finish) > 0 }
	for _, tt := range []struct {
		name string
		fail func(tx *store.Tx) bool
		args string
		want string
	}{
		{"a start that is refused", starts, noReads + noStreams, "POST /api/v1/instances is answered with 500"},
		{"instances that do not end", turns, noReads + noStreams, "instances have ended and 0 have stalled, and nothing has happened for 1s"},
		{"instances that do not fall asleep", turns, noStarts + noStreams, "120 instances are to fall asleep, and nothing has happened for 1s"},
		{"changes that do not come", turns, noStarts + noReads, "all 5 streams were told of the end of 0 of 3 instances, and nothing has happened for 1s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, storeURL := benchtest.New()
			s.OnCommit = func(tx *store.Tx) error {
				if tt.fail(tx) {
					return errors.New("out of order")
				}
				return nil
			}
			c := bench.Config{URL: storeURL, Patience: time.Second}
			_ = benchtest.Fails(t, Spec(), c, little+noIdle+tt.args, tt.want)
		})
	}
}

// TestAStoreThatHasFailed: the run ends with the error of a part that cannot go on.
func TestAStoreThatHasFailed(t *testing.T) {
	t.Parallel()
	s, storeURL := benchtest.New()
	w, r, ctx := benchtest.Open(t, Spec(), bench.Config{URL: storeURL}, little+noStarts)
	if err := s.Store.Close(); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), "bench: serve ") {
		t.Errorf("error %v", err)
	}
	if err := w.Measure(ctx, r); err == nil {
		t.Error("a server was measured on a closed store")
	}
}

// TestResultsAreChecked: an instance whose start was answered is there, and has the result
// that it must have.
func TestResultsAreChecked(t *testing.T) {
	t.Parallel()
	opened, _, ctx := benchtest.Open(t, Spec(), bench.Config{URL: benchtest.URL(t, "shared")}, little)
	w := opened.(*workload)
	for name, want := range map[string]string{"world": "", "nobody": `is "Hello, nobody", want "Hello, world"`} {
		i, err := hello.Start(ctx, w.server.engine, name, abide.Tenant(tenant), abide.ID(name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Result(ctx); err != nil {
			t.Fatal(err)
		}
		if err := w.checkResult(ctx, name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", name, err, want)
		}
	}
	if err := w.checkResult(ctx, "lost"); !errors.Is(err, abide.ErrNotFound) {
		t.Errorf("of an instance that is lost: error %v", err)
	}
}

// TestReadsAreChecked: pages and lists that show less than there should be are errors.
func TestReadsAreChecked(t *testing.T) {
	t.Parallel()
	opened, _, ctx := benchtest.Open(t, Spec(), bench.Config{URL: "memory://"}, little)
	w := opened.(*workload)
	check := func(f func(context.Context) error, want string) {
		t.Helper()
		if err := f(ctx); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	check(w.measurePages, "the page / has")
	w.instances, w.timers = 20, 10
	if err := w.load(ctx); err != nil {
		t.Fatal(err)
	}
	for size, pages := range map[string]int64{"7": 3, "20": 1} { // short pages are put together
		q, took := &listQuery{name: "pages", path: instancesPath, query: url.Values{"page_size": {size}}, least: 20}, &bench.Histogram{}
		if err := w.list(ctx, q, took); err != nil || took.Count() != pages {
			t.Errorf("a list of 20 with %s on a page: %d requests, error %v, want %d", size, took.Count(), err, pages)
		}
	}
	w.timers = 60
	check(w.measurePages, `the page /timers has "<td data-label=\"Timer\">" 10 times, want at least 50`)
	check(w.measureLists, "the list of timers has 10 rows, want 60 to 100")
	w.instances = 60
	check(w.measurePages, `the page /instances has "<td data-label=\"Instance\">" 20 times, want at least 50`)
	check(w.measureLists, "the list of instances has 20 rows, want 60 to 100")
}
