package fleet

import (
	"fmt"
	"testing"

	"github.com/abidehq/abide/internal/testenv"
)

// startAt has one of the processes start an order, of the newest version that it serves,
// and returns that version.
func (f *fleet) startAt(number int) string {
	f.roster.RLock() // so that it is not stopped meanwhile
	defer f.roster.RUnlock()
	p := f.processes[number%len(f.processes)]
	p.tell(fmt.Sprintf("start %d", number))
	p.hear(fmt.Sprintf("started %d", number))
	return p.setup.Versions[len(p.setup.Versions)-1]
}

// replace puts a process that serves these versions into the place of one that is stopped.
func (f *fleet) replace(i int, versions ...string) {
	f.t.Helper()
	p := startProcess(f.t, f.setup(func(s *setup) { s.Versions = versions }))
	f.roster.Lock()
	old := f.processes[i]
	f.processes[i] = p
	f.roster.Unlock()
	old.stop()
}

// open returns how many orders of a version have not ended.
func (f *fleet) open(version string) int {
	n := 0
	for _, info := range f.instances(openStatuses...) {
		if info.Version == version {
			n++
		}
	}
	return n
}

// TestRollingDeploy replaces the processes one by one by those that serve the next version
// too, and then by those that serve no other, while orders are started by all of them.
// Those that are under way stay with the version that they began with.
func TestRollingDeploy(t *testing.T) {
	t.Parallel()
	f := newFleet(t, testenv.Postgres(t))
	for range 3 {
		f.add(nil)
	}
	stop := f.load(every, f.startAt)
	f.progress(60)
	for i := range 3 {
		f.replace(i, "1", "2")
		f.progress(rounds(30, 300))
	}
	// Two can do without the old version before it is done, and one cannot.
	for i := range 2 {
		f.replace(i, "2")
		f.progress(rounds(20, 200))
	}
	if !until(func() bool { return f.open("1") == 0 }) {
		t.Errorf("%d orders of version 1 do not come to an end", f.open("1"))
	}
	f.replace(2, "2")
	f.progress(30)
	stop()
	f.check()
	started := map[string]int{}
	for _, version := range f.orders {
		started[version]++
	}
	if started["1"] == 0 || started["2"] == 0 {
		t.Errorf("orders of the versions: %v, want some of each", started)
	}
}
