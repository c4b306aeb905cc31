package vet_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/abidehq/abide/vet"
)

// TestAnalyzer runs the analyzer on packages with comments that say what it must
// find, on which line, and with what words. It must find nothing else. They are
// loaded together, since what they import of the standard library takes longest.
func TestAnalyzer(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, analysistest.TestData(), vet.Analyzer,
		// One for each category, with what it must not find.
		"example.com/clock", "example.com/random", "example.com/maporder", "example.com/concurrency", "example.com/lock",
		"example.com/effects", "example.com/environment", "example.com/global", "example.com/pointer",
		// What is orchestration code, and what crosses packages.
		"example.com/roots", "example.com/deep", "example.com/lib", "example.com/facts",
		// Suppressions.
		"example.com/allow",
	)
}
