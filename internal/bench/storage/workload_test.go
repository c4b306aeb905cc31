package storage

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/bench"
	"github.com/abidehq/abide/internal/bench/benchtest"
	"github.com/abidehq/abide/store"
)

// small is the flags of a run that is over soon.
const small = "--committers 4 --claimers 2 --instances 10 --commits 100 "

func run(t *testing.T, url, args string) map[string]any {
	t.Helper()
	return benchtest.Run(t, Spec(), bench.Config{URL: url}, small+args)
}

// turnsOf checks that the store is as turns leave it, and returns how many there were.
func turnsOf(t *testing.T, s store.Store, order string, instances int) (turns int64) {
	t.Helper()
	for i := range instances {
		key := instanceKeys.key(order, i)
		log, err := s.ReadLog(t.Context(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		if log.Length%entriesPerTurn != 0 {
			t.Errorf("the log of %v has %d entries", key, log.Length)
		}
		for _, entry := range log.Entries {
			if len(entry) != entryBytes {
				t.Errorf("an entry of %v has %d bytes", key, len(entry))
			}
		}
		pending, err := s.Pending(t.Context(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(pending) != 1 || len(pending[0].Body) != messageBytes {
			t.Errorf("%v has messages %v, want one", key, pending)
		}
		n := int64(log.Length / entriesPerTurn)
		record, err := s.Get(t.Context(), store.RecordKey{Kind: kind, Tenant: tenant, ID: key.Name})
		switch {
		case n == 0 && errors.Is(err, store.ErrNotFound):
		case err != nil:
			t.Fatal(err)
		case record.Version != n || len(record.Body) != recordBytes:
			t.Errorf("the record of %v has version %d and %d bytes after %d turns", key, record.Version, len(record.Body), n)
		}
		turns += n
	}
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if stats.Leases != 0 {
		t.Errorf("%d leases are left", stats.Leases)
	}
	return turns
}

var (
	describeKeys = []string{"keys", "pending"}
	claimKeys    = []string{"claims", "claim_p50_us", "claim_p99_us", "claim_max_us", "duration_s"}
	commitKeys   = []string{
		"committers", "claimers", "instances", "commits", "commits_per_s", "latency_p50_ms", "latency_p99_ms", "latency_max_ms",
	}
	rawKeys = []string{
		"raw_commits", "raw_commits_per_s", "raw_cpu_us_per_commit", "raw_latency_p50_ms", "raw_latency_p99_ms", "raw_latency_max_ms", "rounds",
		"cpu_ratio", "cpu_ratio_median", "cpu_ratio_rounds", "throughput_ratio", "throughput_ratio_median", "throughput_ratio_rounds",
	}
	loadKeys = []string{"loaded", "loaded_per_s"}
)

func TestCommitWorkload(t *testing.T) {
	t.Parallel()
	for _, order := range []string{keysOrdered, keysRandom} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			s, url := benchtest.New()
			got := run(t, url, "--keys "+order)
			benchtest.Keys(t, got, describeKeys, commitKeys, claimKeys)
			benchtest.Want(t, got, map[string]any{
				"store": "shared", "workload": "commit", "keys": order,
				"committers": 4.0, "claimers": 2.0, "instances": 10.0, "pending": 0.0, "commits": 100.0,
			})
			benchtest.Positive(t, got, "commits_per_s", "cpu_us_per_commit", "duration_s", "claims",
				"latency_p50_ms", "latency_p99_ms", "latency_max_ms", "claim_p50_us", "claim_p99_us", "gomaxprocs")
			if turns := turnsOf(t, s, order, 10); turns != 100 {
				t.Errorf("the store has %d turns, want 100", turns)
			}
		})
	}
}

func TestDurationEndsTheRun(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	got := run(t, url, "--commits 0 --duration 1ms")
	if turns := turnsOf(t, s, keysOrdered, 10); float64(turns) != got["commits"] {
		t.Errorf("the store has %d turns, %v were reported", turns, got["commits"])
	}
}

// TestWarmup: operations of the warm-up are done, and not counted.
func TestWarmup(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	got := run(t, url, "--warmup 20ms")
	if turns := turnsOf(t, s, keysOrdered, 10); turns <= 100 || got["commits"] != 100.0 || got["warmup_s"] != 0.02 {
		t.Errorf("the store has %d turns, %v were reported", turns, got["commits"])
	}
}

func TestALoadedStoreIsUsedAgain(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	benchtest.Want(t, run(t, url, "--pending 2500"), map[string]any{"loaded": 2500.0, "pending": 2500.0})

	var said strings.Builder
	got := benchtest.Run(t, Spec(), bench.Config{URL: url, Progress: bench.NewProgress(&said, false)}, small+"--pending 2500")
	benchtest.Want(t, got, map[string]any{"loaded": nil, "pending": 2500.0, "instances": 10.0})
	if !strings.Contains(said.String(), "using the store as it is: 10 instances, 2500 pending messages") {
		t.Errorf("progress does not say that the store is used again: %q", said.String())
	}
	if turns := turnsOf(t, s, keysOrdered, 10); turns != 200 {
		t.Errorf("the store has %d turns, want 200", turns)
	}

	// More is added to what is there, and less changes nothing.
	benchtest.Want(t, run(t, url, "--instances 20 --pending 3000"), map[string]any{"loaded": 500.0, "pending": 3000.0, "instances": 20.0})
	benchtest.Want(t, run(t, url, "--instances 5 --pending 0"), map[string]any{"pending": 3000.0, "instances": 20.0})

	err := benchtest.Fails(t, Spec(), bench.Config{URL: url}, small+"--keys random", "use another store")
	if !errors.Is(err, bench.ErrOptions) {
		t.Errorf("other keys in the same store: %v, want ErrOptions", err)
	}
}

func TestPendingMessagesWaitForDays(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	run(t, url, "--pending 200")
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var first, last time.Time
	for i := range 200 {
		messages, err := s.Pending(t.Context(), pendingKeys.key(keysOrdered, i), 0)
		if err != nil || len(messages) != 1 {
			t.Fatalf("pending message %d: %v, %v", i, messages, err)
		}
		at := messages[0].VisibleAt
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	if soon := first.Sub(stats.Now); soon < 50*time.Minute {
		t.Errorf("the first is visible in %v", soon)
	}
	if spread := last.Sub(first); spread < 24*time.Hour {
		t.Errorf("they are visible within %v", spread)
	}
}

func TestClaimWorkload(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	run(t, url, "") // leaves instances that are due

	got := run(t, url, "--workload claim --pending 300 --commits 2000 --consumed 500")
	benchtest.Keys(t, got, describeKeys, claimKeys, loadKeys, []string{"claim_p50_us_before", "claim_p99_us_before", "consumed"})
	benchtest.Want(t, got, map[string]any{"workload": "claim", "claims": 2000.0, "consumed": 500.0, "pending": 300.0})
	benchtest.Positive(t, got, "claim_p50_us_before", "claim_p99_us_before", "claim_p50_us", "claim_p99_us", "duration_s")
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pending, ready := 0, 0
	for _, row := range stats.Routes {
		pending, ready = pending+row.Pending, ready+row.Ready
	}
	if pending != 300 || ready != 0 || stats.Leases != 0 {
		t.Errorf("%d messages pend, %d are ready and %d leased; want 300, 0, 0", pending, ready, stats.Leases)
	}

	// Instances that lost their message get one again.
	run(t, url, "")
	if turns := turnsOf(t, s, keysOrdered, 10); turns != 200 {
		t.Errorf("the store has %d turns, want 200", turns)
	}
}

func TestIdle(t *testing.T) {
	t.Parallel()
	got := run(t, benchtest.URL(t, "shared"), "--idle 10ms --pending 100")
	benchtest.Positive(t, got, "idle_s")
	for _, name := range []string{"idle_cpu_ms", "idle_cpu_percent"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is not reported", name)
		}
	}
}

func TestReopenClean(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	got := run(t, url, "--reopen --pending 100")
	benchtest.Keys(t, got, describeKeys, commitKeys, claimKeys, loadKeys, []string{"reopen"})
	benchtest.Want(t, got, map[string]any{"reopen": "clean", "pending": 100.0, "commits": 100.0})
	if s.Opened != 2 {
		t.Errorf("the store was opened %d times, want 2", s.Opened)
	}
}

func TestReopenFindsALoss(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	s.Forget = true
	_ = benchtest.Fails(t, Spec(), bench.Config{URL: url}, small+"--reopen", "has lost what was acknowledged: 0 of 10 instances are there")
}

func TestReopenCrash(t *testing.T) {
	t.Parallel()
	s, url := benchtest.New()
	benchtest.Load(t, Spec(), bench.Config{URL: url}, small+"--pending 100 --reopen=crash") // the process does not really load it
	st, found, err := readState(t.Context(), s)
	if want := (state{Keys: keysOrdered, Instances: 10, Pending: 100}); err != nil || !found || st != want {
		t.Errorf("the store holds %+v, %t, %v; want %+v", st, found, err, want)
	}
	var cmd *exec.Cmd
	got := benchtest.Run(t, Spec(), bench.Config{URL: url, LoadCommand: benchtest.Loader(&cmd)}, small+"--reopen=crash")
	benchtest.Want(t, got, map[string]any{"reopen": "crash", "commits": 100.0})
	if cmd.ProcessState.Exited() {
		t.Errorf("the process ended by itself: %v", cmd.ProcessState)
	}
}

func TestAFailingStoreEndsTheRun(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	for _, tt := range []struct {
		name string
		fail func(tx *store.Tx) bool
	}{
		{"loading", func(tx *store.Tx) bool { return len(tx.Put) > 1 }},
		{"state", func(tx *store.Tx) bool { return len(tx.PutRecords) == 1 && len(tx.Append) == 0 }},
		{"turn", func(tx *store.Tx) bool { return len(tx.Append) == 1 && tx.Append[0].At > 6 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, url := benchtest.New()
			s.OnCommit = func(tx *store.Tx) error {
				if tt.fail(tx) {
					return broken
				}
				return nil
			}
			if _, err := benchtest.Try(t, Spec(), bench.Config{URL: url}, small); !errors.Is(err, broken) {
				t.Errorf("got %v, want %v", err, broken)
			}
		})
	}
}
