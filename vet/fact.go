package vet

import (
	"fmt"
	"go/types"
	"slices"
	"strings"
)

// nondeterministic is the fact that a function, or a variable, of a package is
// not deterministic. It crosses from the package that has it to those that use it.
type nondeterministic struct {
	// Module is where the package is from: some causes matter only within it.
	Module string

	// Causes has at most one cause of each category, that which is reached in the
	// fewest calls.
	Causes []cause
}

// cause is one thing that a function does, itself or through others.
type cause struct {
	Category Category
	Text     string
	Chain    []string // from the function itself to the one that does it
}

// AFact marks the type as a fact.
func (*nondeterministic) AFact() {}

func (f *nondeterministic) String() string {
	var parts []string
	for _, c := range f.Causes {
		parts = append(parts, fmt.Sprintf("%s through %s", c.Category, strings.Join(c.Chain, " -> ")))
	}
	return strings.Join(parts, ", ")
}

// imported returns what is known to be wrong with an object of another package, as
// far as it matters here.
func (p *program) imported(obj types.Object) []cause {
	var fact nondeterministic
	if !p.pass.ImportObjectFact(obj, &fact) {
		return nil
	}
	if fact.Module != p.module {
		return nearest(fact.Causes)
	}
	if firstParam(obj.Type(), isContext) {
		return nil // reported in its own package, which is vetted like this one
	}
	return fact.Causes
}

// nearest picks, of what a function of another module does, that which is done in
// the fewest calls. Its user will not mend it, but do without the function, and is
// told so once.
func nearest(causes []cause) []cause {
	var found []cause
	for _, c := range causes {
		if !traits[c.Category].confined && (len(found) == 0 || len(c.Chain) < len(found[0].Chain)) {
			found = []cause{c}
		}
	}
	return found
}

// exportFacts tells the packages above what the functions and variables of this one
// do.
func (p *program) exportFacts() {
	sums := p.summarize()
	for _, u := range p.units {
		if u.fn == nil || !u.fn.Exported() {
			continue
		}
		var causes []cause
		for _, s := range sums {
			if c, ok := s.cause(u); ok {
				c.Chain = append([]string{objectName(u.fn)}, c.Chain...)
				causes = append(causes, c)
			}
		}
		p.export(u.fn, causes)
	}
	scope := p.pass.Pkg.Scope()
	for _, name := range scope.Names() {
		if v, ok := scope.Lookup(name).(*types.Var); ok && v.Exported() {
			p.export(v, p.causesOfGlobal(v, sums))
		}
	}
}

func (p *program) export(obj types.Object, causes []cause) {
	if len(causes) > 0 {
		p.pass.ExportObjectFact(obj, &nondeterministic{Module: p.module, Causes: causes})
	}
}

// causesOfGlobal returns what is wrong with a variable, and with the functions that
// it may hold.
func (p *program) causesOfGlobal(v *types.Var, sums []*summary) []cause {
	var causes []cause
	add := func(c cause) {
		known := func(k cause) bool { return k.Category == c.Category }
		if !slices.ContainsFunc(causes, known) {
			c.Chain = append([]string{objectName(v)}, c.Chain...)
			causes = append(causes, c)
		}
	}
	for _, found := range p.judgeGlobal(v) {
		add(cause{Category: found.category, Text: found.text})
	}
	for _, f := range p.resolveObject(v, map[*types.Var]bool{}) {
		if f.unit == nil {
			if found, ok := lookup(f.fn); ok {
				add(cause{Category: found.category, Text: found.text})
			}
			continue
		}
		for _, s := range sums {
			if c, ok := s.cause(f.unit); ok {
				add(c)
			}
		}
	}
	return causes
}
