package faults_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/testenv"
	"github.com/abidehq/abide/store"
	"github.com/abidehq/abide/store/pebblestore"
)

// Environment variables with which this test starts itself as another process.
const (
	crashDir   = "ABIDE_CRASH_DIR"
	crashCount = "ABIDE_CRASH_COUNT"
)

// crashState is what an instance of the crash test begins an execution with.
type crashState struct {
	Number int
	Count  int // of instances
	Sum    int
	Second bool
}

var (
	crashOutside = abide.NewEvent[int]("outside")
	crashInside  = abide.NewEvent[int]("inside")
	crashDouble  = abide.NewActivity("double", func(_ context.Context, n int) (int, error) { return 2 * n, crashTell() }, abide.Retry(0))
	crashFlow    = abide.NewOrchestration("crash", runCrashFlow)
	crashServe   = []abide.Definition{crashFlow, crashDouble}
)

// runCrashFlow has activities run, sleeps, runs a step, continues as new, is raised an
// event from outside, sends one to the next instance and receives one from that before.
func runCrashFlow(ctx abide.Context, in crashState) (string, error) {
	if !in.Second {
		v, err := crashDouble.Call(ctx, in.Number)
		if err != nil {
			return "", err
		}
		if err := abide.Sleep(ctx, time.Duration(abide.Rand(ctx).IntN(50))*time.Millisecond); err != nil {
			return "", err
		}
		in.Sum, err = abide.Step(ctx, "add", func(context.Context) (int, error) { return v + 1, crashTell() })
		if err != nil {
			return "", err
		}
		in.Second = true
		return "", abide.ContinueAsNew(ctx, in)
	}
	outside, err := crashOutside.Wait(ctx)
	if err != nil {
		return "", err
	}
	abide.SetStatus(ctx, "got "+strconv.Itoa(outside))
	crashInside.Send(ctx, crashID((in.Number+1)%in.Count), in.Number)
	a, b := crashDouble.Go(ctx, 1), crashDouble.Go(ctx, 2)
	inside, err := crashInside.Wait(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("sum %d, outside %d, inside %d", in.Sum, outside, inside), abide.Join(ctx, a, b)
}

// crashTell tells the process that does the killing that there is progress.
func crashTell() error {
	_, err := fmt.Println("progress")
	return err
}

func crashID(i int) string { return "i" + strconv.Itoa(i) }

func crashResult(i, count int) string {
	return fmt.Sprintf(`"sum %d, outside %d, inside %d"`, 2*i+1, 3*i, (i+count-1)%count)
}

// TestCrashChild is not a test: it is what the other process does, until it is killed or
// all instances have ended.
func TestCrashChild(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		return // nobody has started it
	}
	count, err := strconv.Atoi(os.Getenv(crashCount))
	if err != nil {
		t.Fatal(err)
	}
	go func() { // it does not outlive who has started it
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	quiet := slog.New(slog.DiscardHandler)
	s, err := pebblestore.Open(t.Context(), dir, pebblestore.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	left := crashPrepare(t, unchecked(abide.NewClient(s, nil)), count)
	e, err := abide.New(s, abide.Config{Register: crashServe, Logger: quiet, Retention: -1})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("left", left)
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			if _, err := e.WaitEnd(t.Context(), abide.Ref{ID: crashID(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	fmt.Println("all")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// crashPrepare starts what was not started, and raises what was not received. Nobody
// serves meanwhile, so it is known which events were received: a raise with the ID of
// one that waits is the same.
func crashPrepare(t *testing.T, c *abide.Client, count int) (left int) {
	var starts []abide.StartRequest
	for i := range count {
		id := crashID(i)
		start, err := crashFlow.Prepare(c, crashState{Number: i, Count: count}, abide.ID(id))
		if err != nil {
			t.Fatal(err)
		}
		if starts = append(starts, start); len(starts) == 500 || i == count-1 {
			if _, err := c.Start(t.Context(), starts...); err != nil {
				t.Fatal(err)
			}
			starts = nil
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for worker := range 16 {
		wg.Go(func() {
			for i := worker; i < count; i += 16 {
				info, err := c.Get(t.Context(), abide.Ref{ID: crashID(i)})
				if err == nil && info.StatusText == "" {
					err = crashOutside.Raise(t.Context(), c, crashID(i), 3*i, abide.ID("once"))
				}
				if err != nil {
					t.Error(err)
				}
				if info.Status == abide.Stalled {
					fmt.Printf("instance %d has stalled: %s\n", i, info.Reason)
				}
				if !info.Status.Ended() {
					mu.Lock()
					left++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return left
}

// crashRun starts the other process, and kills it when it has done something that many
// times, unless kill is 0: then it waits until all is done. It returns how many instances
// had not ended when it began.
func crashRun(t *testing.T, dir string, count, kill int) (left int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestCrashChild$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), crashDir+"="+dir, crashCount+"="+strconv.Itoa(count))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	all, progress := false, 0
	for lines.Scan() {
		line := lines.Text()
		switch n, found := strings.CutPrefix(line, "left "); {
		case line == "progress":
			if progress++; progress == kill {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		case found:
			if left, err = strconv.Atoi(n); err != nil {
				t.Fatal(err)
			}
		case line == "all":
			all = true
		case line != "PASS":
			t.Error(line)
		}
	}
	if err := cmd.Wait(); kill == 0 && (err != nil || !all) {
		t.Fatalf("the other process did not come to its end: %v", err)
	}
	return left
}

// crashKills is how often a process is killed before all may come to an end. A message
// that is delivered more often than that, and comes to nothing, is taken for poison.
const crashKills = 9

// TestKilledProcesses kills a process with many instances, again and again, and looks at
// what has become of them in the end.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	rounds, count, kills := 1, 200, 5
	if testenv.Long() {
		rounds, count, kills = 4, 10_000, crashKills
	}
	rnd := rand.New(rand.NewPCG(testenv.Seed(t), 0))
	for range rounds {
		dir := t.TempDir()
		var left []int // of the instances, when each process began
		busy := 0
		for range kills {
			n := crashRun(t, dir, count, 1+rnd.IntN(4*count/kills))
			if left = append(left, n); n > 0 {
				busy++
			}
		}
		left = append(left, crashRun(t, dir, count, 0))
		t.Log("instances that were left when a process began:", left)
		if busy < 2 {
			t.Errorf("only %d processes were killed before all was done", busy)
		}
		crashCheck(t, dir, count)
	}
}

// crashCheck opens the store and checks every instance.
func crashCheck(t *testing.T, dir string, count int) {
	t.Helper()
	s, err := pebblestore.Open(t.Context(), dir, pebblestore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := abide.NewClient(s, nil)
	for i := range count {
		ref := abide.Ref{ID: crashID(i)}
		info, err := c.Get(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := result(info), crashResult(i, count); got != want {
			t.Errorf("instance %d: %s, want %s", i, got, want)
		}
		for execution := 1; execution <= 2; execution++ {
			h, err := c.History(t.Context(), ref, execution)
			if err == nil {
				err = checkHistory(h, true)
			}
			if err == nil {
				err = replayHistory(h, crashServe)
			}
			if err != nil {
				t.Errorf("execution %d of instance %d: %v", execution, i, err)
			}
		}
	}
	stats, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range stats.Routes {
		t.Errorf("%d messages for %s are left in queue %s", r.Pending, r.Route, r.Queue)
	}
	page, err := s.List(t.Context(), store.Query{Kind: store.KindQuarantine})
	if err != nil || len(page.Records) > 0 {
		t.Errorf("%d messages are in quarantine: %v", len(page.Records), err)
	}
}
