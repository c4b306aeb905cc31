// Command abide is Abide as a program: see abide --help.
package main

import (
	"os"
	"runtime"

	"github.com/abidehq/abide/internal/cli"
)

// spareBytes is how much room for garbage there is besides what the collector leaves by
// itself, which is as much as is in use: a few megabytes in a process that works through
// orchestrations as fast as it can, so that it would collect more than ten times a second,
// with a fifth of its time.
const spareBytes = 64 << 20

func main() {
	os.Exit(run())
}

func run() int {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" { // the operator's own word counts
		spare := make([]byte, spareBytes) // never touched, so that it takes no memory
		defer runtime.KeepAlive(spare)
	}
	return cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
