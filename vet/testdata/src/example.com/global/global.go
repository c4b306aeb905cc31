// Package global has variables that change in orchestration code.
package global

import (
	"errors"
	"flag"
	"regexp"

	"github.com/abidehq/abide"
)

type config struct{ size int }

var (
	counter  int
	enabled  = true
	settings config
	cache    = map[string]int{}
	removed  = map[string]int{}
	current  string

	// These are the same all the time.
	errEmpty = errors.New("empty")
	pattern  = regexp.MustCompile("x")
	prices   = map[string]int{"a": 1}
	table    map[string]int
	charge   *abide.Activity[string, int]
	approved = abide.NewEvent[string]("approved")
	shadowed = 1
	faked    = 1
)

func init() { table = map[string]int{"b": 2} }

// Configure is called at any time.
func Configure(on bool) { // want Configure:"global through global.Configure"
	enabled = on
	settings.size = 3
	delete(removed, "x")
	for _, current = range []string{"a"} {
	}
	charge = abide.NewActivity[string, int]("charge", nil)
	shadowed := 2
	shadowed++
}

var Flow = abide.NewOrchestration("flow", flow)

func flow(ctx abide.Context, in string) (int, error) {
	counter++    // want `counter \(written at global.go:\d+\) is a package-level variable that changes: pass the value as input, or read it in abide.Step \(in orchestration "flow"\)`
	if enabled { // want `enabled \(written at global.go:37\) is a package-level variable that changes`
		return settings.size, nil // want `settings \(written at global.go:38\) is a package-level`
	}
	cache[in] = 1          // want `cache .* is a package-level`
	_ = removed[in]        // want `removed .* is a package-level`
	_ = current            // want `current .* is a package-level`
	flag.CommandLine = nil // want `flag.CommandLine depends on` `flag.CommandLine is a package-level variable that changes`
	if !pattern.MatchString(in) {
		return 0, errEmpty
	}
	if _, err := approved.Wait(ctx); err != nil {
		return 0, err
	}
	n, err := charge.Call(ctx, in)
	return n + prices[in] + table[in] + shadowed + faked, err
}
