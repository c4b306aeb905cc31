package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// asLoader makes the test binary play the process that loads the store.
const asLoader = "ABIDE_BENCH_TEST_LOADER"

func TestMain(m *testing.M) {
	switch os.Getenv(asLoader) {
	case "":
		os.Exit(m.Run())
	case "loads":
		fmt.Println(LoadedLine)
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
	case "fails":
		os.Exit(7)
	}
}

func loaderCommand(how string, started **exec.Cmd) func(context.Context) (*exec.Cmd, error) {
	return func(ctx context.Context) (*exec.Cmd, error) {
		program, err := os.Executable()
		cmd := exec.CommandContext(ctx, program)
		cmd.Env = append(os.Environ(), asLoader+"="+how)
		*started = cmd
		return cmd, err
	}
}

func TestReopenCrash(t *testing.T) {
	t.Parallel()
	_, url := newShared(t)
	o := small(url)
	mustRun(t, o) // the process does not really load it

	var cmd *exec.Cmd
	o.Reopen, o.LoadCommand = ReopenCrash, loaderCommand("loads", &cmd)
	want(t, mustRun(t, o), map[string]any{"reopen": "crash", "commits": int64(100)})
	if cmd.ProcessState.Exited() {
		t.Errorf("the process ended by itself: %v", cmd.ProcessState)
	}
}

func TestReopenCrashOfAFailingLoader(t *testing.T) {
	t.Parallel()
	_, url := newShared(t)
	o := small(url)
	var cmd *exec.Cmd
	o.Reopen, o.LoadCommand = ReopenCrash, loaderCommand("fails", &cmd)
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("got %v", err)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	s, url := newShared(t)
	o := small(url)
	o.Pending, o.Reopen = 100, ReopenCrash
	ctx, cancel := context.WithCancel(t.Context())
	if err := Load(ctx, o, cancel); err != nil {
		t.Fatal(err)
	}
	st, found, err := readState(t.Context(), s)
	if want := (state{Keys: KeysOrdered, Instances: 10, Pending: 100}); err != nil || !found || st != want {
		t.Errorf("the store holds %+v, %t, %v; want %+v", st, found, err, want)
	}
}
