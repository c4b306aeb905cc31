// Command platforms type-checks the module for other systems: it finds integers that need 64 bits,
// and files that exist for one system only. A build for each system would find the same and take
// ten times as long, most of it to compile SQLite.
//
//	go run ./internal/tidy/platforms linux/386 darwin/arm64
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	failed := false
	for _, platform := range os.Args[1:] {
		errs, err := check(platform)
		if err != nil {
			errs = []string{err.Error()}
		}
		for _, e := range errs {
			fmt.Fprintf(os.Stderr, "%s: %s\n", platform, e)
		}
		failed = failed || len(errs) > 0
	}
	if failed {
		os.Exit(1)
	}
}

// check returns the errors of all packages of the module, without their tests, on a platform.
func check(platform string) ([]string, error) {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, fmt.Errorf("%q is not a platform, it looks like linux/arm64", platform)
	}
	list, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax,
		Env: append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch),
	}, "./...")
	if err != nil {
		return nil, err
	}
	var errs []string
	packages.Visit(list, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			errs = append(errs, e.Error())
		}
	})
	if len(list) == 0 {
		return nil, fmt.Errorf("there are no packages")
	}
	return errs, nil
}
