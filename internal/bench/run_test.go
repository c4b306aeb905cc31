package bench

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/memstore"

	_ "github.com/abidehq/abide/store/pebblestore"
)

// mustRun runs the benchmark and checks that no figure is reported twice.
func mustRun(t *testing.T, o Options) *Report {
	t.Helper()
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, row := range report.rows {
		if seen[row.figure.name] {
			t.Errorf("figure %s is reported twice", row.figure.name)
		}
		seen[row.figure.name] = true
	}
	return report
}

// want checks figures.
func want(t *testing.T, r *Report, figures map[string]any) {
	t.Helper()
	for name, value := range figures {
		if got, ok := r.Value(name); !ok || got != value {
			t.Errorf("%s is %v, want %v", name, got, value)
		}
	}
}

// has checks that figures were measured.
func has(t *testing.T, r *Report, names ...string) {
	t.Helper()
	for _, name := range names {
		if value, ok := r.Value(name); !ok || value == 0.0 {
			t.Errorf("%s is %v, want something", name, value)
		}
	}
}

// turnsOf checks that the store is as turns leave it, and returns how many there were.
func turnsOf(t *testing.T, s store.Store, order KeyOrder, instances int) (turns int64) {
	t.Helper()
	for i := range instances {
		key := instanceKeys.key(order, i)
		log, err := s.ReadLog(t.Context(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		if log.Length%EntriesPerTurn != 0 {
			t.Errorf("the log of %v has %d entries", key, log.Length)
		}
		for _, entry := range log.Entries {
			if len(entry) != EntryBytes {
				t.Errorf("an entry of %v has %d bytes", key, len(entry))
			}
		}
		pending, err := s.Pending(t.Context(), key, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(pending) != 1 || len(pending[0].Body) != MessageBytes {
			t.Errorf("%v has messages %v, want one", key, pending)
		}
		n := int64(log.Length / EntriesPerTurn)
		record, err := s.Get(t.Context(), store.RecordKey{Kind: kind, Tenant: tenant, ID: key.Name})
		switch {
		case n == 0 && errors.Is(err, store.ErrNotFound):
		case err != nil:
			t.Fatal(err)
		case record.Version != n || len(record.Body) != RecordBytes:
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

func TestCommitWorkload(t *testing.T) {
	t.Parallel()
	for _, order := range []KeyOrder{KeysOrdered, KeysRandom} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			s, url := newShared(t)
			o := small(url)
			o.Keys = order
			report := mustRun(t, o)
			want(t, report, map[string]any{
				"store": "shared", "workload": "commit", "keys": string(order),
				"committers": int64(4), "claimers": int64(2), "instances": int64(10), "pending": int64(0),
				"commits": int64(100),
			})
			has(t, report, "commits_per_s", "cpu_us_per_commit", "duration_s", "claims",
				"latency_p50_ms", "latency_p99_ms", "latency_max_ms", "claim_p50_us", "claim_p99_us", "go", "gomaxprocs")
			if _, ok := report.Value("open_s"); !ok {
				t.Error("open_s is not reported")
			}
			if turns := turnsOf(t, s, order, 10); turns != 100 {
				t.Errorf("the store has %d turns, want 100", turns)
			}
		})
	}
}

func TestDurationEndsTheRun(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := small(url)
	o.Commits, o.Duration = 0, time.Millisecond
	report := mustRun(t, o)
	commits, _ := report.Value("commits")
	if turns := turnsOf(t, s, KeysOrdered, 10); turns != commits {
		t.Errorf("the store has %d turns, %d were reported", turns, commits)
	}
}

func TestALoadedStoreIsUsedAgain(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := small(url)
	o.Pending = 2500
	want(t, mustRun(t, o), map[string]any{"loaded": int64(2500), "pending": int64(2500)})

	var said strings.Builder
	o.Progress = NewProgress(&said, false)
	report := mustRun(t, o)
	if _, loaded := report.Value("loaded"); loaded {
		t.Error("the store was loaded again")
	}
	want(t, report, map[string]any{"pending": int64(2500), "instances": int64(10)})
	if !strings.Contains(said.String(), "using the store as it is: 10 instances, 2,500 pending messages") {
		t.Errorf("progress does not say that the store is used again: %q", said.String())
	}
	if turns := turnsOf(t, s, KeysOrdered, 10); turns != 200 {
		t.Errorf("the store has %d turns, want 200", turns)
	}

	// More is added to what is there, and less changes nothing.
	o.Instances, o.Pending = 20, 3000
	want(t, mustRun(t, o), map[string]any{"loaded": int64(500), "pending": int64(3000), "instances": int64(20)})
	o.Instances, o.Pending = 5, 0
	want(t, mustRun(t, o), map[string]any{"pending": int64(3000), "instances": int64(20)})

	o.Keys = KeysRandom
	if _, err := Run(t.Context(), o); !errors.Is(err, ErrOptions) {
		t.Errorf("other keys in the same store: %v, want ErrOptions", err)
	}
}

func TestPendingMessagesWaitForDays(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := small(url)
	o.Pending = 200
	mustRun(t, o)
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var first, last time.Time
	for i := range o.Pending {
		messages, err := s.Pending(t.Context(), pendingKeys.key(KeysOrdered, i), 0)
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
	s, url := newShared(t)
	o := small(url)
	mustRun(t, o) // leaves instances that are due

	o.Workload, o.Pending, o.Commits, o.Consumed = WorkloadClaim, 300, 2000, 500
	report := mustRun(t, o)
	want(t, report, map[string]any{"workload": "claim", "claims": int64(2000), "consumed": int64(500), "pending": int64(300)})
	has(t, report, "claim_p50_us_before", "claim_p99_us_before", "claim_p50_us", "claim_p99_us", "duration_s")
	for _, name := range []string{"commits_per_s", "claim_misses"} {
		if value, ok := report.Value(name); ok {
			t.Errorf("%s is reported: %v", name, value)
		}
	}
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
	o = small(url)
	mustRun(t, o)
	if turns := turnsOf(t, s, KeysOrdered, 10); turns != 200 {
		t.Errorf("the store has %d turns, want 200", turns)
	}
}

func TestIdle(t *testing.T) {
	t.Parallel()
	_, url := newShared(t)
	o := small(url)
	o.Idle, o.Pending = 10*time.Millisecond, 100
	report := mustRun(t, o)
	for _, name := range []string{"idle_s", "idle_cpu_ms", "idle_cpu_percent"} {
		if _, ok := report.Value(name); !ok {
			t.Errorf("%s is not reported", name)
		}
	}
}

func TestReopenClean(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := small(url)
	o.Reopen, o.Pending = ReopenClean, 100
	want(t, mustRun(t, o), map[string]any{"reopen": "clean", "pending": int64(100), "commits": int64(100)})
	if s.opened != 2 {
		t.Errorf("the store was opened %d times, want 2", s.opened)
	}
}

func TestReopenFindsALoss(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	s.reopen = func() store.Store { return memstore.New(memstore.Options{}) }
	o := small(url)
	o.Reopen = ReopenClean
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "has lost what was acknowledged") {
		t.Errorf("got %v", err)
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
			s, url := newShared(t)
			s.commit = func(tx *store.Tx) error {
				if tt.fail(tx) {
					return broken
				}
				return nil
			}
			if _, err := Run(t.Context(), small(url)); !errors.Is(err, broken) {
				t.Errorf("got %v, want %v", err, broken)
			}
		})
	}
}

func TestProfiles(t *testing.T) {
	// Not parallel: there is one profile of the CPU at a time.
	var cpu, mem strings.Builder
	_, url := newShared(t)
	o := small(url)
	o.CPUProfile, o.MemProfile = io.Writer(&cpu), io.Writer(&mem)
	mustRun(t, o)
	if cpu.Len() == 0 || mem.Len() == 0 {
		t.Errorf("the profiles have %d and %d bytes", cpu.Len(), mem.Len())
	}
}
