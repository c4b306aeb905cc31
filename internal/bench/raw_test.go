package bench

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/abidehq/abide/store"
)

// fakeRaw is an engine that checks how it is driven.
type fakeRaw struct {
	t   *testing.T
	dir string

	mu     sync.Mutex
	next   map[int]int
	turns  int
	closed bool
	fail   error
}

func (f *fakeRaw) Turn(instance int, tx *store.Tx) error {
	turn := tx.Append[0].At / EntriesPerTurn
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next[instance] != turn {
		f.t.Errorf("instance %d has turn %d, want %d", instance, turn, f.next[instance])
	}
	f.next[instance]++
	f.turns++
	return f.fail
}

func (f *fakeRaw) Close() error {
	f.closed = true
	return nil
}

func TestRaw(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	fake := &fakeRaw{t: t, next: map[int]int{}}
	o := small(url)
	o.Rounds, o.RawParent = 3, t.TempDir()
	o.OpenRaw = func(dir string) (RawDB, error) {
		fake.dir = dir
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
		return fake, nil
	}
	report := mustRun(t, o)
	want(t, report, map[string]any{"commits": int64(100), "raw_commits": int64(100), "rounds": int64(3)})
	has(t, report, "raw_commits_per_s", "cpu_ratio", "cpu_ratio_median", "throughput_ratio", "throughput_ratio_median")
	for _, name := range []string{"cpu_ratio_rounds", "throughput_ratio_rounds"} {
		value, _ := report.Value(name)
		if rounds, ok := value.([]float64); !ok || len(rounds) != 3 {
			t.Errorf("%s is %v, want three numbers", name, value)
		}
	}
	if fake.turns != 100 || len(fake.next) > 10 {
		t.Errorf("%d raw turns of %d instances, want 100 of at most 10", fake.turns, len(fake.next))
	}
	if turns := turnsOf(t, s, KeysOrdered, 10); turns != 100 {
		t.Errorf("%d turns in the store, want 100", turns)
	}
	if filepath.Dir(fake.dir) != o.RawParent {
		t.Errorf("the engine was in %s, want a folder in %s", fake.dir, o.RawParent)
	}
	if _, err := os.Stat(fake.dir); !fake.closed || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("closed is %t, and its folder is left: %v", fake.closed, err)
	}
}

func TestRawFails(t *testing.T) {
	t.Parallel()
	_, url := newShared(t)
	broken := errors.New("the disk is gone")
	o := small(url)
	o.RawParent = t.TempDir()
	o.OpenRaw = func(string) (RawDB, error) { return nil, broken }
	if _, err := Run(t.Context(), o); !errors.Is(err, broken) {
		t.Errorf("an engine that does not open: %v", err)
	}
	o.OpenRaw = func(string) (RawDB, error) {
		return &fakeRaw{t: t, next: map[int]int{}, fail: broken}, nil
	}
	if _, err := Run(t.Context(), o); !errors.Is(err, broken) {
		t.Errorf("an engine that does not commit: %v", err)
	}
	if left, err := os.ReadDir(o.RawParent); err != nil || len(left) > 0 {
		t.Errorf("folders are left: %v, %v", left, err)
	}
}
