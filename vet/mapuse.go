package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// unordered are the functions that give the elements of a map in random order,
// beside the range statement.
var unordered = []string{
	"maps.All", "maps.Keys", "maps.Values",
	"golang.org/x/exp/maps.Keys", "golang.org/x/exp/maps.Values",
	"reflect.Value.MapKeys",
}

// passing are those that hand the order on to their result; forgetful are those
// whose result is the same in any order.
var (
	passing   = []string{"slices.AppendSeq", "slices.Clone", "slices.Collect", "slices.Values"}
	forgetful = []string{
		"maps.Collect", "maps.Insert", "slices.Contains", "slices.Max", "slices.Min",
	}
)

// isUnordered reports whether a range over a value is in the random order of a map.
func (p *program) isUnordered(e ast.Expr) bool {
	e = ast.Unparen(e)
	if t := p.info.TypeOf(e); t != nil {
		if _, ok := t.Underlying().(*types.Map); ok {
			return true
		}
	}
	switch e := e.(type) {
	case *ast.CallExpr:
		return p.isUnorderedCall(e)
	case *ast.Ident:
		return p.isUnorderedSeq(e)
	}
	return false
}

func (p *program) isUnorderedCall(call *ast.CallExpr) bool { return p.isCallOf(call, unordered) }

// isCallOf reports whether a call is of one of the functions.
func (p *program) isCallOf(call *ast.CallExpr, names []string) bool {
	fn, ok := p.callee(call).(*types.Func)
	return ok && fn.Pkg() != nil && slices.Contains(names, fn.Pkg().Path()+"."+localName(fn))
}

// isUnorderedSeq reports whether a local variable holds what maps.Keys and the like
// returned: an iterator, which has its order in each loop anew.
func (p *program) isUnorderedSeq(id *ast.Ident) bool {
	v, ok := p.info.Uses[id].(*types.Var)
	if !ok || !isFunc(v.Type()) {
		return false
	}
	return p.seqs()[v]
}

func isFunc(t types.Type) bool {
	_, ok := t.Underlying().(*types.Signature)
	return ok
}

// seqs finds the variables that unordered iterators are put into.
func (p *program) seqs() map[*types.Var]bool {
	if p.iterators != nil {
		return p.iterators
	}
	p.iterators = map[*types.Var]bool{}
	for _, file := range p.pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || len(assign.Lhs) != len(assign.Rhs) {
				return true
			}
			for i, value := range assign.Rhs {
				call, isCall := ast.Unparen(value).(*ast.CallExpr)
				id, isIdent := assign.Lhs[i].(*ast.Ident)
				if isCall && isIdent && p.isUnorderedCall(call) {
					if v, ok := p.info.ObjectOf(id).(*types.Var); ok {
						p.iterators[v] = true
					}
				}
			}
			return true
		})
	}
	return p.iterators
}

// unorderedCall judges what becomes of the result of maps.Keys and the like.
func (w *walker) unorderedCall(call *ast.CallExpr) {
	if !w.isUnorderedCall(call) || w.orderForgotten(call) {
		return
	}
	text := fmt.Sprintf("%s returns the elements in random order, and they are not sorted before they are used: use slices.Sorted(maps.Keys(m))",
		types.ExprString(call.Fun))
	w.report(call.Pos(), verdict{MapOrder, text})
}

// orderForgotten follows a value outwards to where it is sorted, or put into a
// variable that is.
func (w *walker) orderForgotten(e ast.Expr) bool {
	parents := w.parents(w.unit.outer)
	switch parent := parents[e].(type) {
	case *ast.ParenExpr:
		return w.orderForgotten(parent)
	case *ast.RangeStmt:
		return true // the loop is judged
	case *ast.CallExpr:
		if w.isCallOf(parent, passing) {
			return w.orderForgotten(parent)
		}
		return w.forgetsOrder(parent)
	case *ast.AssignStmt:
		i := slices.Index(parent.Rhs, e)
		return i >= 0 && len(parent.Lhs) == len(parent.Rhs) && w.sortedAfter(w.unit.outer, parent.Lhs[i], parent.End())
	case *ast.ValueSpec:
		i := slices.Index(parent.Values, e)
		return i >= 0 && len(parent.Names) == len(parent.Values) && w.sortedAfter(w.unit.outer, parent.Names[i], parent.End())
	}
	return false
}

// forgetsOrder reports whether a call gives the same for its arguments in any
// order: because it sorts them, as its name or its package's says, or counts them.
func (p *program) forgetsOrder(call *ast.CallExpr) bool {
	switch callee := p.callee(call).(type) {
	case *types.Builtin:
		return callee.Name() == "len" || callee.Name() == "cap" || callee.Name() == "clear"
	case *types.Func:
		return p.sorts(callee) || p.isCallOf(call, forgetful)
	}
	return false
}

func (p *program) sorts(fn *types.Func) bool {
	if fn.Pkg() != nil && fn.Pkg().Path() == "sort" {
		return !strings.HasPrefix(fn.Name(), "Search")
	}
	return strings.Contains(strings.ToLower(fn.Name()), "sort")
}

// sortedAfter reports whether a slice (or an iterator) is sorted before anything
// else is done with it after a place in a declaration. If nothing is done with it,
// that is well for a local variable only.
func (p *program) sortedAfter(outer ast.Node, target ast.Expr, after token.Pos) bool {
	v := rootVar(p.info, target)
	if v == nil {
		return false
	}
	name := types.ExprString(target)
	result, decided := false, false
	ast.Inspect(outer, func(n ast.Node) bool {
		e, ok := n.(ast.Expr)
		if !ok || decided || e.Pos() < after {
			return !decided
		}
		if types.ExprString(e) != name || rootVar(p.info, e) != v {
			return true
		}
		result, decided = p.judgeUse(outer, e)
		return false
	})
	if decided {
		return result
	}
	_, isIdent := ast.Unparen(target).(*ast.Ident)
	return isIdent && v.Kind() == types.LocalVar && within(outer, v.Pos())
}

// judgeUse judges one use of an unsorted slice: it is sorted, it is put to a use
// that is not harmless, or nothing is decided yet.
func (p *program) judgeUse(outer ast.Node, use ast.Expr) (sorted, decided bool) {
	parents := p.parents(outer)
	var n ast.Node = use
	for {
		parent := parents[n]
		switch parent := parent.(type) {
		case *ast.CallExpr:
			if fn, ok := p.callee(parent).(*types.Func); ok && p.sorts(fn) {
				return true, true
			}
			if p.forgetsOrder(parent) {
				return false, false
			}
		case *ast.AssignStmt:
			return p.judgeAssign(parent, use)
		case *ast.BinaryExpr:
			if isNil(parent.X) || isNil(parent.Y) {
				return false, false
			}
		case *ast.RangeStmt:
			if parent.X == n {
				return p.judgeRange(parent)
			}
			return false, true
		case ast.Stmt, ast.Decl, *ast.FuncLit, nil:
			return false, true
		}
		n = parent
	}
}

// judgeAssign judges the use of a slice in an assignment: to itself, when it grows
// on or its elements are filled in, or of something else to it.
func (p *program) judgeAssign(s *ast.AssignStmt, use ast.Expr) (sorted, decided bool) {
	for i, target := range s.Lhs {
		if index, ok := ast.Unparen(target).(*ast.IndexExpr); ok {
			target = index.X
		}
		if !sameExpr(target, use) || len(s.Lhs) != len(s.Rhs) {
			continue
		}
		mentioned := false
		ast.Inspect(s.Rhs[i], func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			mentioned = mentioned || (ok && sameExpr(e, use))
			return !mentioned
		})
		_, isElement := ast.Unparen(s.Lhs[i]).(*ast.IndexExpr)
		return !mentioned && !isElement, !mentioned && !isElement
	}
	return false, true
}

// judgeRange judges a loop over what was filled: over an iterator it is judged by
// itself, and over a map of slices it may be what sorts each of them.
func (p *program) judgeRange(s *ast.RangeStmt) (sorted, decided bool) {
	if t := p.info.TypeOf(s.X); t != nil && isFunc(t) {
		return false, false
	}
	value, ok := s.Value.(*ast.Ident)
	if !ok {
		return false, true
	}
	ast.Inspect(s.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 0 {
			fn, isFn := p.callee(call).(*types.Func)
			sorted = sorted || (isFn && p.sorts(fn) && sameExpr(call.Args[0], value))
		}
		return !sorted
	})
	return sorted, true
}

func isNil(e ast.Expr) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	return ok && id.Name == "nil"
}
