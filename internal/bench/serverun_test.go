package bench

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/server/auth"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/timer"
)

// littleServing returns options for a run that is over soon.
func littleServing(url string) ServeOptions {
	return ServeOptions{
		Store: url, Clients: 4, Duration: 5 * time.Millisecond, Instances: 120, Timers: 130, Pages: 2, Lists: 26,
		Idle: time.Millisecond, Streams: 5, Changes: 3, Rate: 1000, Patience: 20 * time.Second,
	}
}

// mustRunServe measures a server and returns the report as a program reads it.
func mustRunServe(t *testing.T, o ServeOptions) map[string]any {
	t.Helper()
	report, err := RunServe(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != len(report.rows) {
		t.Errorf("a figure is reported twice: %s", text)
	}
	return got
}

// Keys that programs rely on, and those that a machine may not know.
var (
	serveKeys = []string{"workload", "store", "gomaxprocs", "go", "open_s"}
	startKeys = []string{"clients", "duration_s", "starts", "starts_per_s", "completed_per_s", "latency_p50_ms", "latency_p99_ms", "latency_max_ms"}
	fullKeys  = []string{"instances_loaded_per_s", "timers_loaded_per_s"}
	readKeys  = []string{
		"instances", "timers", "pages", "page_first_ms", "page_p50_ms", "page_p99_ms", "page_instances_p50_ms", "page_instances_p99_ms",
		"page_timers_p50_ms", "page_timers_p99_ms", "page_instance_p50_ms", "page_instance_p99_ms",
		"lists", "list_p50_ms", "list_p99_ms", "list_max_ms", "list_slowest",
	}
	idleKeys         = []string{"idle_s"}
	streamKeys       = []string{"streams", "changes", "stream_p50_ms", "stream_p99_ms", "stream_max_ms"}
	serveMachineKeys = []string{
		"cpu_us_per_start", "written_bytes_per_start", "bytes_counted_by", "idle_cpu_ms", "idle_cpu_percent", "rss_streams_mib", "stream_kib",
		"rss_mib", "rss_peak_mib",
	}
)

func TestServeWorkload(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*ServeOptions)
		keys   [][]string
	}{
		{"all", func(*ServeOptions) {}, [][]string{startKeys, fullKeys, readKeys, idleKeys, streamKeys}},
		{"starts", func(o *ServeOptions) { o.Instances, o.Idle, o.Streams = 0, 0, 0 }, [][]string{startKeys}},
		{"reads", func(o *ServeOptions) { o.Duration, o.Idle, o.Streams = 0, 0, 0 }, [][]string{fullKeys, readKeys}},
		{"no timers", func(o *ServeOptions) { o.Duration, o.Idle, o.Streams, o.Timers = 0, 0, 0, 0 }, [][]string{fullKeys[:1], readKeys}},
		{"idle", func(o *ServeOptions) { o.Duration, o.Instances, o.Streams = 0, 0, 0 }, [][]string{idleKeys}},
		{"streams", func(o *ServeOptions) { o.Duration, o.Instances, o.Idle = 0, 0, 0 }, [][]string{streamKeys}},
	} {
		for _, scheme := range []string{"memory", "pebble"} {
			t.Run(tt.name+" on "+scheme, func(t *testing.T) {
				t.Parallel()
				url, keys := "memory://", slices.Concat(append(tt.keys, serveKeys)...)
				if scheme == "pebble" {
					url = "pebble://" + filepath.Join(t.TempDir(), "store")
					keys = append(keys, "store_mib")
				}
				o := littleServing(url)
				tt.change(&o)
				got := mustRunServe(t, o)
				for _, key := range keys {
					if _, ok := got[key]; !ok {
						t.Errorf("%s is not reported; there are %v", key, slices.Sorted(maps.Keys(got)))
					}
				}
				for key := range got {
					if !slices.Contains(keys, key) && !slices.Contains(serveMachineKeys, key) {
						t.Errorf("%s is reported", key)
					}
				}
				if got["workload"] != "serve" || got["store"] != scheme {
					t.Errorf("workload %v, store %v", got["workload"], got["store"])
				}
			})
		}
	}
}

// TestServeIsWhatItSays looks at what a run leaves in the store: what it counted is there,
// and in the audit log.
func TestServeIsWhatItSays(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := littleServing(url)
	got := mustRunServe(t, o)
	positive(t, got, "starts_per_s", "latency_p50_ms", "page_p50_ms", "list_p50_ms", "stream_p50_ms")
	hellos, sleepers := 0, map[string]int{}
	for _, i := range instances(t, s) {
		switch {
		case i.Orchestration == hello.Name() && i.Ref.Tenant == tenant && i.Status == abide.Completed:
			hellos++
		case i.Orchestration == asleep.Name() && i.Status == abide.Running:
			sleepers[i.Ref.Tenant]++
		default:
			t.Errorf("instance %v of %s is %s", i.Ref, i.Orchestration, i.Status)
		}
	}
	starts := int(got["starts"].(float64)) + o.Changes
	if hellos != starts || len(sleepers) != serveTenants || sleepers[tenantOf(3)] != o.Instances/serveTenants {
		t.Errorf("%d were started, and there are %d; asleep are %v", starts, hellos, sleepers)
	}
	if changes := got["changes"].(float64); changes < float64(o.Changes) {
		t.Errorf("%v changes of %d instances", changes, o.Changes)
	}
	if n := armedTimers(t, s); n != o.Timers {
		t.Errorf("%d timers are armed, want %d", n, o.Timers)
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
	page, err := service.List(t.Context(), timer.Filter{}, timer.MaxPage, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tm := range page.Timers {
		if tm.Status != timer.Armed || !strings.HasPrefix(tm.Tenant, tenant+"-") || time.Until(tm.DueAt) < nightfall-time.Hour {
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

// TestServeOnAStoreThatWasLoaded: what is there is used as it is, and what is missing is
// loaded.
func TestServeOnAStoreThatWasLoaded(t *testing.T) {
	t.Parallel()
	_, url := newShared(t)
	o := littleServing(url)
	o.Duration, o.Idle, o.Streams = 0, 0, 0
	mustRunServe(t, o)
	o.Timers += 20
	got := mustRunServe(t, o)
	_, loadedInstances := got["instances_loaded_per_s"]
	_, loadedTimers := got["timers_loaded_per_s"]
	if loadedInstances || !loadedTimers || got["instances"] != 120.0 || got["timers"] != 150.0 {
		t.Errorf("got %v", got)
	}
}

// TestServeThatDoesNotSucceed: a run whose figures would be worth nothing is an error.
func TestServeThatDoesNotSucceed(t *testing.T) {
	t.Parallel()
	out := errors.New("out of order")
	has := func(tx *store.Tx, kind string) bool {
		return slices.ContainsFunc(tx.PutRecords, func(p store.PutRecord) bool { return p.Record.Key.Kind == kind })
	}
	for _, tt := range []struct {
		name   string
		commit func(tx *store.Tx) error
		change func(*ServeOptions)
		want   string
	}{
		{"a start that is refused", func(tx *store.Tx) error {
			if has(tx, "instance") {
				return out
			}
			return nil
		}, func(o *ServeOptions) { o.Instances, o.Streams = 0, 0 }, "POST /api/v1/instances is answered with 500"},
		{"instances that do not end", func(tx *store.Tx) error {
			if len(tx.Finish) > 0 {
				return out
			}
			return nil
		}, func(o *ServeOptions) { o.Instances, o.Streams = 0, 0 }, "instances have ended and 0 have stalled, and nothing has happened for 1s"},
		{"instances that do not fall asleep", func(tx *store.Tx) error {
			if len(tx.Finish) > 0 {
				return out
			}
			return nil
		}, func(o *ServeOptions) { o.Duration, o.Streams = 0, 0 }, "120 instances are to fall asleep, and nothing has happened for 1s"},
		{"changes that do not come", func(tx *store.Tx) error {
			if len(tx.Finish) > 0 {
				return out
			}
			return nil
		}, func(o *ServeOptions) { o.Duration, o.Instances = 0, 0 }, "all 5 streams were told of the end of 0 of 3 instances, and nothing has happened for 1s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, url := newShared(t)
			s.commit = tt.commit
			o := littleServing(url)
			o.Patience, o.Idle = time.Second, 0
			tt.change(&o)
			if _, err := RunServe(t.Context(), o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestServeOfAStoreThatHasFailed: the run ends with the error of a part that cannot go on.
func TestServeOfAStoreThatHasFailed(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := littleServing(url)
	o.Duration = 0
	ctx, fail := context.WithCancelCause(t.Context())
	r := &serveRun{opts: &o, name: "run"}
	if err := r.open(ctx, fail); err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if err := s.Store.Close(); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := r.run(ctx); !errors.Is(err, store.ErrClosed) || !strings.Contains(err.Error(), "bench: serve ") {
		t.Errorf("error %v", err)
	}
}

// TestServeChecksResults: an instance whose start was answered is there, and has the result
// that it must have.
func TestServeChecksResults(t *testing.T) {
	t.Parallel()
	_, url := newShared(t)
	o := littleServing(url)
	r := &serveRun{opts: &o, name: "run"}
	if err := r.open(t.Context(), func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for name, want := range map[string]string{"world": "", "nobody": `is "Hello, nobody", want "Hello, world"`} {
		i, err := hello.Start(t.Context(), r.house.engine, name, abide.Tenant(tenant), abide.ID(name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.checkResult(t.Context(), name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", name, err, want)
		}
	}
	if err := r.checkResult(t.Context(), "lost"); !errors.Is(err, abide.ErrNotFound) {
		t.Errorf("of an instance that is lost: error %v", err)
	}
}

// TestServeChecksWhatItReads: pages and lists that show less than there should be are
// errors.
func TestServeChecksWhatItReads(t *testing.T) {
	t.Parallel()
	o := littleServing("memory://")
	r := &serveRun{opts: &o, name: "run"}
	if err := r.open(t.Context(), func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	defer r.close()
	check := func(f func(context.Context) error, want string) {
		t.Helper()
		if err := f(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	check(r.measurePages, "the page / has")
	o.Instances, o.Timers = 20, 10
	if err := r.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for size, pages := range map[string]uint64{"7": 3, "20": 1} { // short pages are put together
		q, took := &listQuery{name: "pages", path: instancesPath, query: url.Values{"page_size": {size}}, least: 20}, Histogram{}
		if err := r.list(t.Context(), q, &took); err != nil || took.Count() != pages {
			t.Errorf("a list of 20 with %s on a page: %d requests, error %v, want %d", size, took.Count(), err, pages)
		}
	}
	o.Timers = 60
	check(r.measurePages, `the page /timers has "<td data-label=\"Timer\">" 10 times, want at least 50`)
	check(r.measureLists, "the list of timers has 10 rows, want 60 to 100")
	o.Instances = 60
	check(r.measurePages, `the page /instances has "<td data-label=\"Instance\">" 20 times, want at least 50`)
	check(r.measureLists, "the list of instances has 20 rows, want 60 to 100")
}

func TestServeProfiles(t *testing.T) {
	// Not parallel: there is one profile of the CPU at a time.
	var cpu, mem strings.Builder
	o := littleServing("memory://")
	o.Instances, o.Idle, o.Streams = 0, 0, 0
	o.CPUProfile, o.MemProfile = &cpu, &mem
	mustRunServe(t, o)
	if cpu.Len() == 0 || mem.Len() == 0 {
		t.Errorf("the profiles have %d and %d bytes", cpu.Len(), mem.Len())
	}
}
