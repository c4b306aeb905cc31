// Package environment has the machine in orchestration code.
package environment

import (
	"flag"
	"os"
	"runtime"
	"time"

	"github.com/abidehq/abide"
)

var (
	verbose    = flag.Bool("v", false, "")
	host, _    = os.Hostname()
	started    = time.Now()
	now        = time.Now
	limit      = 10
	errMissing = os.ErrNotExist
)

var Look = abide.NewOrchestration("look", func(ctx abide.Context, in string) (int, error) {
	_ = os.Getenv("HOME")             // want `os.Getenv depends on the process and the machine it runs on: pass the value as input, or read it in abide.Step \(in orchestration "look"\)`
	_, _ = os.LookupEnv("X")          // want `os.LookupEnv depends on`
	_ = os.Args                       // want `os.Args depends on`
	_, _ = os.Hostname()              // want `os.Hostname depends on`
	_ = runtime.NumCPU()              // want `runtime.NumCPU depends on`
	runtime.GOMAXPROCS(0)             // want `runtime.GOMAXPROCS depends on`
	_ = runtime.NumGoroutine()        // want `runtime.NumGoroutine depends on`
	_ = flag.Arg(0)                   // want `flag.Arg depends on`
	_ = abide.Now(ctx).Local()        // want `time.Time.Local depends on the time zone of the machine: use UTC`
	_ = abide.Now(ctx).In(time.Local) // want `time.Local depends on the time zone`

	if *verbose { // want `verbose is initialised anew in each process: flag.Bool depends on`
		return len(host), nil // want `host is initialised anew in each process: os.Hostname depends on`
	}
	_ = started.Unix() // want `started is initialised anew in each process: time.Now uses the wall clock`
	_ = now()          // want `time.Now uses the wall clock`

	set := flag.NewFlagSet(in, flag.ContinueOnError)
	_ = set.Parse(nil)
	_ = runtime.GOOS
	_ = abide.Now(ctx).UTC()
	return limit, errMissing
})
