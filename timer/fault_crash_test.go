package timer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/abidehq/abide/bus"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store/storetest"
	"github.com/abidehq/abide/timer"
)

// crashRun is the environment variable that numbers the other processes.
const crashRun = "ABIDE_TIMER_CRASH_RUN"

// line is what the other process says: that it asks for something, or what it was told.
type line struct {
	Call   int64 // its number
	Verb   string
	Tenant string
	Key    string
	Number int // of a schedule
	Due    time.Time
	At     time.Time

	Answer bool
	Told   timer.Timer
	State  bool // it was told that it is too late
	Error  string
}

// logged is what the subscriber of the other process writes into a file.
type logged struct {
	Sink     string
	At       time.Time
	Envelope bus.Envelope
}

// TestKilledProcesses kills a process that schedules, moves, cancels and fires timers, again
// and again, and looks at what its subscriber has seen, and at the timers, in the end.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	kills, most := 5, 600
	if testenv.Long() {
		kills, most = 100, 5000
	}
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	dir := t.TempDir()
	w := newFaultWorldOn(t, nil)
	for run := range kills {
		w.runKilled(t, dir, run, 1+rnd.IntN(most))
	}
	began := time.Now()
	w.Store = rig.Disk(t, filepath.Join(dir, "store"))
	times := readLog(t, w, filepath.Join(dir, "log"))
	w.process(w.Store)
	w.WaitIdle()
	w.check()
	t.Logf("%d timers, of %d schedules; %d arrivals while processes were killed, and %d after that",
		len(w.Keys()), w.schedules, times, len(w.sinks[0].arrivals())+len(w.sinks[1].arrivals())-times)
	again, late := 0, 0
	for _, sink := range w.sinks {
		ids := map[string]bool{}
		for _, e := range sink.arrivals() {
			if ids[e.ID] {
				again++
			}
			ids[e.ID] = true
			if e.event.FiredAt.After(began) {
				late++
			}
		}
	}
	t.Logf("%d envelopes have arrived again, %d timers have fired after the last kill", again, late/2)
	if times == 0 || len(w.Keys()) < kills {
		t.Error("the processes were killed before they did anything")
	}
}

// runKilled starts the other process, and kills it when it has said so much.
func (a *ledger) runKilled(t *testing.T, dir string, run, lines int) {
	t.Helper()
	open := map[int64]*asked{}
	rig.StartChild(t, dir, crashRun+"="+strconv.Itoa(run)).ReadAndKill(lines, func(text string) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Errorf("the other process says: %s", text)
			return
		}
		a.read(&l, open)
	})
	for _, c := range open {
		c.ended, c.err = time.Now(), fmt.Errorf("killed: %w", storetest.ErrFault)
	}
}

// read notes what the other process says. Open are the calls that have no answer.
func (a *ledger) read(l *line, open map[int64]*asked) {
	if !l.Answer {
		c := a.begin(l.Verb, l.Tenant, l.Key)
		c.call, c.due, c.began = l.Number, l.Due, l.At
		if l.Verb == "schedule" {
			a.schedules++
		}
		open[l.Call] = c
		return
	}
	c := open[l.Call]
	delete(open, l.Call)
	var err error
	switch {
	case l.State:
		err = timer.ErrState
	case l.Error != "":
		err = fmt.Errorf("%s", l.Error)
	}
	a.end(c, l.Told, err)
	c.ended = l.At
}

// readLog gives the sinks what the file says, and returns how much that is.
func readLog(t *testing.T, w *faultWorld, path string) (n int) {
	t.Helper()
	data, err := os.ReadFile(path)
	check.OK(t, err)
	for text := range bytes.Lines(data) {
		var l logged
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%v in the log: %s", err, text)
		}
		for _, sink := range w.sinks {
			if sink.name != l.Sink {
				continue
			}
			check.OK(t, sink.note(l.Envelope, l.At))
			n++
		}
	}
	return n
}
