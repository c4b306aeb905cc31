package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strconv"
)

// global is what is wrong with a package-level variable of this package.
type global struct {
	// written is a place that changes the variable after the package was initialised.
	written token.Pos

	// initial is the verdict on what the variable is initialised with: a time, a
	// random number or a setting that is another one in the next process.
	initial *verdict
}

// findGlobals looks for the package-level variables whose value replay may find
// changed. What init and the declaration itself do is the same in each process,
// and what a test does to a variable is not done in production.
func (p *program) findGlobals() {
	for _, file := range p.pass.Files {
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if (d.Recv == nil && d.Name.Name == "init") || p.isTestFile(d.Pos()) {
					continue
				}
				ast.Inspect(d, func(n ast.Node) bool {
					for _, target := range p.written(n) {
						p.noteWrite(target)
					}
					return true
				})
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.ValueSpec); ok {
						p.noteInitial(spec)
					}
				}
			}
		}
	}
}

// written returns the operands that a statement changes.
func (p *program) written(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			return []ast.Expr{n.Key, n.Value}
		}
	case *ast.CallExpr:
		if b, ok := p.callee(n).(*types.Builtin); ok && (b.Name() == "delete" || b.Name() == "clear") && len(n.Args) > 0 {
			return n.Args[:1]
		}
	}
	return nil
}

func (p *program) noteWrite(target ast.Expr) {
	v := rootVar(p.info, target)
	if v == nil || v.Pkg() != p.pass.Pkg || !isPackageLevel(v) || isHandle(v) {
		return
	}
	if g := p.global(v); !g.written.IsValid() {
		g.written = target.Pos()
	}
}

// isHandle reports whether a variable holds something that package abide made: an
// activity, an orchestration, an event. It is the same whenever it is made.
func isHandle(v *types.Var) bool {
	obj := namedObject(v.Type())
	return obj != nil && isAbide(obj)
}

// noteInitial judges what variables are initialised with. An effect at that time
// is none of an orchestration's, but the value is.
func (p *program) noteInitial(spec *ast.ValueSpec) {
	for i, value := range spec.Values {
		found := p.judgeValue(value)
		if found == nil {
			continue
		}
		names := spec.Names
		if len(spec.Names) == len(spec.Values) {
			names = spec.Names[i : i+1]
		}
		for _, name := range names {
			if v, ok := p.info.Defs[name].(*types.Var); ok && !isHandle(v) {
				p.global(v).initial = found
			}
		}
	}
}

// judgeValue finds the first thing in an initial value that is another one in each
// process. Functions are judged where they are called.
func (p *program) judgeValue(value ast.Expr) *verdict {
	var found *verdict
	ast.Inspect(value, func(n ast.Node) bool {
		e, isExpr := n.(ast.Expr)
		if _, isLit := n.(*ast.FuncLit); isLit || found != nil || (isExpr && p.elsewhere[e]) {
			return false
		}
		if id, ok := n.(*ast.Ident); ok {
			obj := p.info.Uses[id]
			if obj == nil {
				return true
			}
			if v, ok := lookup(obj); ok && (v.category == Clock || v.category == Random || v.category == Environment) {
				found = &v
			}
		}
		return true
	})
	return found
}

func (p *program) global(v *types.Var) *global {
	g := p.globals[v]
	if g == nil {
		g = &global{}
		p.globals[v] = g
	}
	return g
}

// judgeGlobal returns what is wrong with using a variable of this package.
func (p *program) judgeGlobal(v *types.Var) []verdict {
	g := p.globals[v]
	if g == nil {
		return nil
	}
	var found []verdict
	if g.written.IsValid() {
		at := p.pass.Fset.Position(g.written)
		subject := v.Name() + " (written at " + filepath.Base(at.Filename) + ":" + strconv.Itoa(at.Line) + ")"
		found = append(found, verdict{category: Global, text: Global.say(subject)})
	}
	if g.initial != nil {
		found = append(found, verdict{category: g.initial.category, text: v.Name() + " is initialised anew in each process: " + g.initial.text})
	}
	return found
}
