package action_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide/action"
	"github.com/abidehq/abide/internal/check"
	"github.com/abidehq/abide/internal/rig"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
)

// crashRun is the environment variable that numbers the other processes.
const crashRun = "ABIDE_ACTION_CRASH_RUN"

// crashService is the service of both processes. Its target writes into a file when a run
// begins and when it ends: what is in the file survives the process.
func crashService(t *testing.T, s store.Store, log *os.File) *action.Service {
	t.Helper()
	service, err := action.New(action.Config{
		Store: s, Rate: 20 * time.Millisecond, Slots: 8, Retention: -1, Logger: rig.Quiet,
		Targets: map[string]action.Definition{"do": {Target: action.Func(func(_ context.Context, r action.Run) (action.Outcome, error) {
			if _, err := fmt.Fprintf(log, "begin %s %q\n", r.Action.ID, r.Body); err != nil {
				return action.Outcome{}, err
			}
			<-time.After(time.Duration(len(r.Action.ID)%4) * time.Millisecond)
			_, err := fmt.Fprintf(log, "end %s\n", r.Action.ID)
			return action.Outcome{}, err
		})}},
	})
	check.OK(t, err)
	return service
}

func openLog(t *testing.T, dir string) *os.File {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	check.OK(t, err)
	t.Cleanup(func() { _ = log.Close() })
	return log
}

// TestCrashChild is not a test: it is what the other process does, until it is killed.
func TestCrashChild(t *testing.T) {
	dir, ok := rig.InChild()
	if !ok {
		return // nobody has started it
	}
	service := crashService(t, rig.Disk(t, filepath.Join(dir, "store")), openLog(t, dir))
	go func() { _ = service.Run(t.Context()) }()
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() { crashWork(t, service, os.Getenv(crashRun), worker) })
	}
	wg.Wait()
}

// crashWork adds actions for ever, and receives webhooks, and says which.
func crashWork(t *testing.T, service *action.Service, run string, worker int) {
	for i := 0; ; i++ {
		name := fmt.Sprintf("%s-%d-%d", run, worker, i)
		var a action.Action
		var err error
		switch i % 3 {
		case 0:
			a, _, err = service.Add(t.Context(), fill(action.Request{ID: name}))
		case 1:
			a, _, err = service.Add(t.Context(), fill(action.Request{ID: name, Idempotent: true, Delay: 5 * time.Millisecond}))
		default:
			a, _, err = service.Receive(t.Context(), action.Received{Tenant: "acme", Slug: "app", Target: "do", Body: []byte("\x00\xff" + name), Header: map[string]string{"Name": name}})
		}
		if err == nil {
			_, err = os.Stdout.WriteString(a.ID + "\n")
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// TestKilledProcesses kills a process that adds and runs actions, again and again. In the
// end all that was acknowledged is there, with its body, and was run once, or has failed
// because its process died, or was repeated if it may be.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	kills, most := 5, 300
	if testenv.Long() {
		kills, most = 100, 3000
	}
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	dir := t.TempDir()
	told := map[string]bool{}
	for run := range kills {
		rig.StartChild(t, dir, crashRun+"="+strconv.Itoa(run)).ReadAndKill(1+rnd.IntN(most), func(line string) {
			if !strings.Contains(line, "-") {
				t.Errorf("the other process says: %s", line)
				return
			}
			told[line] = true
		})
	}
	s := rig.Disk(t, filepath.Join(dir, "store"))
	service := crashService(t, s, openLog(t, dir))
	running := rig.Run(t, service)
	rig.On(t, s).WaitIdle()
	running.Stop()

	data, err := os.ReadFile(filepath.Join(dir, "log"))
	check.OK(t, err)
	begins, ends := map[string]int{}, map[string]int{}
	bodies := map[string]string{}
	for line := range strings.Lines(string(data)) {
		var verb, id, body string
		if _, err := fmt.Sscanf(line, "%s %s %q", &verb, &id, &body); err != nil && verb != "end" {
			t.Fatalf("%v in the log: %s", err, line)
		}
		if verb == "end" {
			ends[id]++
			continue
		}
		begins[id]++
		bodies[id] = body
	}
	counts := map[string]int{}
	for _, a := range check.All(t, service.All(t.Context(), action.Filter{Limit: action.MaxPage})) {
		delete(told, a.ID)
		counts[string(a.Status)]++
		checkCrashed(t, service, &a, begins[a.ID], ends[a.ID], bodies[a.ID])
	}
	for id := range told {
		t.Errorf("action %s was acknowledged, and is lost", id)
	}
	t.Logf("%v, %d runs", counts, len(begins))
	if counts["completed"] < kills || len(begins) == 0 {
		t.Error("the processes were killed before they did anything")
	}
}

// checkCrashed checks the outcome of an action.
func checkCrashed(t *testing.T, service *action.Service, a *action.Action, begins, ends int, body string) {
	t.Helper()
	story := fmt.Sprintf("action %s is %s %q after %d runs, %d of which came to their end", a.ID, a.Status, a.Reason, begins, ends)
	switch {
	case a.Status == action.Completed && ends > 0:
	case a.Status == action.Failed && a.Reason == "recovered from restart" && (!a.Idempotent || a.Attempt == 3):
	default:
		t.Error(story)
	}
	if begins > 1 && !a.Idempotent {
		t.Errorf("%s: it is not idempotent", story)
	}
	if a.Trigger.Kind != action.Webhook {
		return
	}
	want := "\x00\xff" + a.Trigger.Header["Name"]
	if begins > 0 && body != want {
		t.Errorf("%s: the body was %q", story, body)
	}
	kept, err := service.Body(t.Context(), a.Tenant, a.ID)
	if gone := errors.Is(err, action.ErrNotFound); gone != (a.Status == action.Completed) || (!gone && string(kept) != want) {
		t.Errorf("%s: its body is %q, %v", story, kept, err)
	}
}
