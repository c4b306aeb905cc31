package vet

import (
	"go/ast"
	"go/types"
)

// callable is a function that a value may stand for: one of this package, with a
// body, or one of another.
type callable struct {
	unit *unit
	fn   *types.Func
}

// functions returns what a value of a function type may stand for. What comes out
// of a call, a field or a parameter is not known.
func (p *program) functions(e ast.Expr) []callable { return p.resolve(e, map[*types.Var]bool{}) }

func (p *program) resolve(e ast.Expr, seen map[*types.Var]bool) []callable {
	switch e := ast.Unparen(e).(type) {
	case *ast.FuncLit:
		return []callable{{unit: p.byNode[e]}}
	case *ast.Ident:
		return p.resolveObject(p.info.Uses[e], seen)
	case *ast.SelectorExpr:
		return p.resolveObject(p.info.Uses[e.Sel], seen)
	case *ast.IndexExpr: // an instance of a generic function
		return p.resolve(e.X, seen)
	case *ast.IndexListExpr:
		return p.resolve(e.X, seen)
	case *ast.CallExpr:
		if p.info.Types[e.Fun].IsType() && len(e.Args) == 1 {
			return p.resolve(e.Args[0], seen)
		}
	}
	return nil
}

func (p *program) resolveObject(obj types.Object, seen map[*types.Var]bool) []callable {
	switch obj := obj.(type) {
	case *types.Func:
		fn := obj.Origin()
		return []callable{{unit: p.byFunc[fn], fn: fn}}
	case *types.Var:
		v := obj.Origin()
		if seen[v] {
			return nil
		}
		seen[v] = true
		var found []callable
		for _, e := range p.bindings[v] {
			found = append(found, p.resolve(e, seen)...)
		}
		return found
	}
	return nil
}

func (p *program) bindSpec(spec *ast.ValueSpec) {
	names := make([]ast.Expr, len(spec.Names))
	for i, name := range spec.Names {
		names[i] = name
	}
	p.bindAll(names, spec.Values)
}

// bindAll notes the function values that an assignment puts into variables.
func (p *program) bindAll(lhs, rhs []ast.Expr) {
	if len(lhs) != len(rhs) {
		return
	}
	for i, target := range lhs {
		id, ok := ast.Unparen(target).(*ast.Ident)
		if !ok {
			continue
		}
		if v, ok := p.info.ObjectOf(id).(*types.Var); ok && p.isFunctionValue(rhs[i]) {
			p.bindings[v] = append(p.bindings[v], rhs[i])
			p.elsewhere[ast.Unparen(rhs[i])] = true
		}
	}
}

// isFunctionValue reports whether an expression is a literal or the name of a
// function or of a variable that holds one.
func (p *program) isFunctionValue(e ast.Expr) bool {
	t := p.info.TypeOf(e)
	if t == nil {
		return false
	}
	if _, ok := t.Underlying().(*types.Signature); !ok {
		return false
	}
	switch ast.Unparen(e).(type) {
	case *ast.FuncLit, *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr, *ast.IndexListExpr:
		return true
	}
	return false
}
