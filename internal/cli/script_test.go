package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/abidehq/abide/internal/cli/connect"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the program as people do. Besides what testscript has, scripts know
//
//	code N COMMAND...              the exit code of a command is N
//	eventually PATTERN COMMAND...  a command prints what matches, sooner or later
//	terminate                      SIGTERM to what runs in the background
//	hold FILE                      a program that makes FILE and waits for FILE.go; if FILE is
//	                               there already, it prints "again"
//	world DIR [TOKEN]              a program that serves a store with a few orchestrations, and
//	                               writes its address to the file url
//	served                         waits for the file url, and puts what it has into $URL
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code":       code,
			"eventually": eventually,
			"served":     served,
			"terminate":  terminate,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "Europe/Berlin")
			for _, name := range []string{connect.EnvStore, connect.EnvServer, connect.EnvToken, connect.EnvTokenFile, "NO_COLOR"} {
				env.Setenv(name, "")
			}
			env.Setenv("USER", "somebody")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else each command takes a second longer
			return nil
		},
	})
}

func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// patient is how long a script waits for what must happen.
const patient = time.Minute

func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually PATTERN COMMAND [ARGS...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for until := time.Now().Add(patient); ; <-time.After(20 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		text := ts.ReadFile("stdout")
		if err == nil && pattern.MatchString(text) {
			return
		}
		if time.Now().After(until) {
			ts.Fatalf("it has not happened: %v, %s", err, text)
		}
	}
}

func served(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: served")
	}
	for until := time.Now().Add(patient); ; <-time.After(10 * time.Millisecond) {
		url, err := os.ReadFile(ts.MkAbs("url"))
		if err == nil && len(url) > 0 {
			ts.Setenv("URL", string(url))
			return
		}
		if time.Now().After(until) {
			ts.Fatalf("nobody serves: %v", err)
		}
	}
}

func terminate(ts *testscript.TestScript, _ bool, _ []string) {
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	}
}

// hold is a command that runs for as long as a script wants.
func hold() {
	name := os.Args[1]
	if _, err := os.Stat(name); err == nil {
		fmt.Println("again")
		return
	}
	fmt.Println("it runs")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	parent := os.Getppid()
	for range time.Tick(10 * time.Millisecond) {
		if _, err := os.Stat(name + ".go"); err == nil {
			fmt.Println("it may end")
			return
		}
		if os.Getppid() != parent {
			os.Exit(1) // nobody waits for it any more
		}
	}
}
