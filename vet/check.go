package vet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

// Finding is a place in orchestration code that is not deterministic, or a
// suppression that is wrong.
type Finding struct {
	Position token.Position
	Category Category
	Message  string // what is wrong, what to use instead, and how it is reached
}

// String returns the finding in the form of a compiler's message, with the
// category at the end, as a suppression would name it.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s [%s]", f.Position, f.Message, f.Category)
}

// Check looks at the packages that the patterns mean to the go command in a
// directory, and at their tests, and returns what it finds in the order of files
// and lines. It returns an error if packages cannot be loaded or do not compile:
// what it would find in these would not be all. The caller decides what findings
// mean for an exit code.
func Check(ctx context.Context, dir string, patterns ...string) ([]Finding, error) {
	pkgs, err := packages.Load(&packages.Config{
		Context: ctx,
		Dir:     dir,
		Mode:    packages.LoadAllSyntax | packages.NeedModule,
		Tests:   true,
	}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("vet: load packages: %w", err)
	}
	if err := loadErrors(pkgs); err != nil {
		return nil, err
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{Analyzer}, pkgs, nil)
	if err != nil {
		return nil, fmt.Errorf("vet: analyze packages: %w", err)
	}
	var found []Finding
	for _, action := range graph.Roots {
		if action.Err != nil {
			return nil, fmt.Errorf("vet: analyze %s: %w", action.Package.ID, action.Err)
		}
		for _, d := range action.Diagnostics {
			found = append(found, Finding{
				Position: action.Package.Fset.Position(d.Pos),
				Category: Category(d.Category),
				Message:  d.Message,
			})
		}
	}
	return sortFindings(found), nil
}

// loadErrors returns what is wrong with the packages that were asked for and with
// those they import.
func loadErrors(pkgs []*packages.Package) error {
	if len(pkgs) == 0 {
		return errors.New("vet: load packages: no packages match")
	}
	var messages []string
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			messages = append(messages, e.Error())
		}
	})
	if len(messages) == 0 {
		return nil
	}
	slices.Sort(messages)
	return fmt.Errorf("vet: load packages: %s", strings.Join(slices.Compact(messages), "\n"))
}

// sortFindings puts findings in order and drops those that were found twice: a
// package with tests is looked at with and without them.
func sortFindings(found []Finding) []Finding {
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Position.Filename, b.Position.Filename),
			cmp.Compare(a.Position.Offset, b.Position.Offset),
			cmp.Compare(a.Category, b.Category),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.CompactFunc(found, func(a, b Finding) bool {
		// The two may differ in the chain, since a test can be another way to a place.
		return a.Position == b.Position && a.Category == b.Category
	})
}
