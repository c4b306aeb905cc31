package vet

import (
	"fmt"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// reached says how orchestration code gets to a unit.
type reached struct {
	root   root
	caller *unit // nil for the root itself
}

// reach goes through the calls from the roots, breadth first, so that each unit
// gets the shortest chain from the first root that leads to it.
func (p *program) reach() map[*unit]reached {
	seen := map[*unit]reached{}
	for _, r := range p.roots {
		if _, ok := seen[r.unit]; ok {
			continue
		}
		seen[r.unit] = reached{root: r}
		for queue := []*unit{r.unit}; len(queue) > 0; queue = queue[1:] {
			for _, callee := range queue[0].calls {
				if _, ok := seen[callee]; !ok {
					seen[callee] = reached{root: r, caller: queue[0]}
					queue = append(queue, callee)
				}
			}
		}
	}
	return seen
}

// reportAll reports the offences of orchestration code, in the order of the source,
// and one for each line and category: what is on one line is mended together.
func (p *program) reportAll() {
	type place struct {
		file     string
		line     int
		category Category
	}
	done := map[place]bool{}
	how := p.reach()
	for _, u := range p.units {
		if _, ok := how[u]; !ok {
			continue
		}
		for _, o := range u.offences {
			at := p.pass.Fset.Position(o.pos)
			where := place{at.Filename, at.Line, o.category}
			if done[where] {
				continue
			}
			done[where] = true
			p.diagnose(o.pos, o.category, fmt.Sprintf("%s (%s)", o.text, chain(how, u, o)), o.related...)
		}
	}
}

func (p *program) diagnose(pos token.Pos, c Category, message string, related ...analysis.RelatedInformation) {
	p.pass.Report(analysis.Diagnostic{Pos: pos, Category: string(c), Message: message, Related: related})
}

// chain tells through which functions an offence is reached: those between the
// orchestration and the offence, without the literals within them.
func chain(how map[*unit]reached, u *unit, o *offence) string {
	names := slices.Clone(o.chain)
	r := how[u].root
	for u != nil && u != r.unit {
		if u.name != "" {
			names = slices.Insert(names, 0, u.name)
		}
		u = how[u].caller
	}
	where := fmt.Sprintf("in orchestration %q", r.name)
	if r.name == "" {
		where = "in a function that takes an abide.Context"
		if r.unit.name != "" {
			where = fmt.Sprintf("in %s, which takes an abide.Context", r.unit.name)
		}
	}
	if len(names) == 0 {
		return where
	}
	return where + ", through " + strings.Join(shorten(names), " -> ")
}

// shorten leaves out the middle of a chain that nobody would read to its end.
func shorten(names []string) []string {
	const first, last = 4, 2
	if len(names) <= first+last+1 {
		return names
	}
	return slices.Concat(names[:first], []string{"…"}, names[len(names)-last:])
}
