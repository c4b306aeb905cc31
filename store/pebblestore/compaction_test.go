package pebblestore

import (
	"runtime"
	"testing"
)

// TestCompactionsFollowCores: a machine with more cores compacts more at a time, up to a
// limit, and all compactions run before commits have to wait.
func TestCompactionsFollowCores(t *testing.T) {
	t.Parallel()
	for cores, want := range map[int]int{1: 2, 2: 2, 4: 2, 5: 2, 6: 3, 8: 4, 16: 8, 64: 8} {
		if got := maxCompactions(cores); got != want {
			t.Errorf("%d cores: %d compactions, want %d", cores, got, want)
		}
	}
	o := pebbleOptions(Options{}, newStore("data", Options{}))
	if least, most := o.CompactionConcurrencyRange(); least != 1 || most != maxCompactions(runtime.GOMAXPROCS(0)) {
		t.Errorf("%d to %d compactions at a time", least, most)
	}
	if all := maxCompactions(1<<10) * o.Experimental.L0CompactionConcurrency; o.L0StopWritesThreshold < 2*all || o.L0StopWritesThreshold > 100 {
		t.Errorf("commits wait at %d sublevels, and all compactions run at %d", o.L0StopWritesThreshold, all)
	}
}
