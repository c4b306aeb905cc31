package vet

import (
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Analyzer finds nondeterminism in orchestration code. It works in any driver of
// go/analysis; the Category of a diagnostic is a [Category].
var Analyzer = &analysis.Analyzer{
	Name: "determinism",
	Doc: "find nondeterminism in orchestration code\n\n" +
		"An orchestration is replayed from its history, so that it must do the same each time. " +
		"This reports what does not: the wall clock, randomness, the order of maps, goroutines, I/O, " +
		"the environment and variables that change, in the functions given to abide.NewOrchestration, " +
		"those that take an abide.Context, and all that they call.",
	URL:       "https://pkg.go.dev/" + abidePath + "/vet",
	Run:       run,
	FactTypes: []analysis.Fact{(*nondeterministic)(nil)},
}

func run(pass *analysis.Pass) (any, error) {
	if pass.Pkg.Path() == abidePath || isStandard(pass) {
		return nil, nil
	}
	p := newProgram(pass)
	p.applyAllowances()
	p.exportFacts()
	p.reportAll()
	return nil, nil
}

// isStandard reports whether a package is of the standard library, which the table
// judges. Only that has no module and no dot in the first element of its path.
func isStandard(pass *analysis.Pass) bool {
	if pass.Module != nil && pass.Module.Path != "" && pass.Module.Path != "std" && pass.Module.Path != "cmd" {
		return false
	}
	first, _, _ := strings.Cut(pass.Pkg.Path(), "/")
	return !strings.Contains(first, ".") && first != "command-line-arguments"
}
