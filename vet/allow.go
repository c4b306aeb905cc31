package vet

import (
	"go/ast"
	"go/token"
	"strings"
)

const allowPrefix = "//abide:allow"

// allowance is a suppression in the source.
type allowance struct {
	pos      token.Pos
	category Category
	file     string
	line     int // that it is for
	used     bool
}

// applyAllowances takes away the offences that are allowed, before anything is said
// about them here or in facts, and reports allowances that are wrong or do nothing.
func (p *program) applyAllowances() {
	var all []*allowance
	for _, file := range p.pass.Files {
		all = append(all, p.allowancesOf(file)...)
	}
	if len(all) == 0 {
		return
	}
	relevant := p.relevant()
	for _, u := range p.units {
		var kept []*offence
		for _, o := range u.offences {
			if a := p.allowed(all, o); a == nil {
				kept = append(kept, o)
			} else if relevant[u] {
				a.used = true
			}
		}
		u.offences = kept
	}
	for _, a := range all {
		if !a.used {
			p.diagnose(a.pos, Allow, "this allows nothing: there is no finding of category "+string(a.category)+" here, so remove it")
		}
	}
}

func (p *program) allowed(all []*allowance, o *offence) *allowance {
	at := p.pass.Fset.Position(o.pos)
	for _, a := range all {
		if a.category == o.category && a.file == at.Filename && a.line == at.Line {
			return a
		}
	}
	return nil
}

// relevant has the units that can become orchestration code, here or in a package
// above: all but the literals that run as steps and activities.
func (p *program) relevant() map[*unit]bool {
	found := map[*unit]bool{}
	var visit func(*unit)
	visit = func(u *unit) {
		if found[u] {
			return
		}
		found[u] = true
		for _, callee := range u.calls {
			visit(callee)
		}
	}
	for _, r := range p.roots {
		visit(r.unit)
	}
	for _, u := range p.units {
		if u.fn != nil {
			visit(u)
		}
	}
	return found
}

// allowancesOf returns the suppressions in a file, and reports those that nobody
// can understand.
func (p *program) allowancesOf(file *ast.File) []*allowance {
	var found []*allowance
	var code map[int]bool
	for _, group := range file.Comments {
		for _, comment := range group.List {
			rest, ok := strings.CutPrefix(comment.Text, allowPrefix)
			if !ok || (rest != "" && rest[0] != ' ' && rest[0] != '\t') {
				continue
			}
			category, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
			if _, ok := traits[Category(category)]; !ok {
				p.diagnose(comment.Pos(), Allow, "unknown category \""+category+"\": write //abide:allow <category> <reason>, with a category of "+categoryList())
				continue
			}
			if strings.TrimSpace(reason) == "" {
				p.diagnose(comment.Pos(), Allow, "a suppression needs a reason: write //abide:allow "+category+" <reason>")
				continue
			}
			if code == nil {
				code = p.linesOfCode(file)
			}
			at := p.pass.Fset.Position(comment.Pos())
			// Beside code it is for that line; above code, for the line after the comment.
			if !code[at.Line] {
				at.Line = p.pass.Fset.Position(group.End()).Line + 1
			}
			found = append(found, &allowance{pos: comment.Pos(), category: Category(category), file: at.Filename, line: at.Line})
		}
	}
	return found
}

func categoryList() string {
	var names []string
	for _, c := range order {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}

// linesOfCode has the lines on which something other than a comment begins or
// ends.
func (p *program) linesOfCode(file *ast.File) map[int]bool {
	lines := map[int]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case nil, *ast.File:
			return true
		case *ast.Comment, *ast.CommentGroup:
			return false
		}
		lines[p.pass.Fset.Position(n.Pos()).Line] = true
		lines[p.pass.Fset.Position(n.End()-1).Line] = true
		return true
	})
	return lines
}
