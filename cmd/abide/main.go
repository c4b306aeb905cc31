// Command abide is Abide as a program: see abide --help.
package main

import (
	"os"

	"github.com/abidehq/abide/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
