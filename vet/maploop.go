package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// loop is a range over a map. Its order is harmless as long as the loop leaves
// behind what any other order would leave behind; each statement is judged by that.
type loop struct {
	*program
	stmt  *ast.RangeStmt
	outer ast.Node

	label string
	key   types.Object // the variable with the key, nil if there is none

	// counters are variables from outside that each element adds to. They end up the
	// same in any order, but in between they do not.
	counters map[types.Object]bool

	// constants are the values given to variables from outside, where they do not
	// depend on the element: two of them, and the last one wins.
	constants map[types.Object]string

	collected []ast.Expr // slices that were filled in the order of the map
	kept      token.Pos  // something of an element was kept for after the loop
	stopped   token.Pos  // a break, which leaves elements out

	leak *leak
}

// leak is how the order of a map gets out of its loop.
type leak struct {
	pos  token.Pos
	what string
}

// mapLoop reports a range over a map whose order gets out.
func (w *walker) mapLoop(n *ast.RangeStmt) {
	if !w.isUnordered(n.X) {
		return
	}
	l := &loop{
		program:   w.program,
		stmt:      n,
		outer:     w.unit.outer,
		counters:  map[types.Object]bool{},
		constants: map[types.Object]string{},
	}
	if found := l.judge(); found != nil {
		line := w.pass.Fset.Position(found.pos).Line
		text := fmt.Sprintf("iteration over a map in random order %s (line %d): %s", found.what, line, traits[MapOrder].instead)
		w.report(n.Pos(), verdict{MapOrder, text}, analysis.RelatedInformation{Pos: found.pos, Message: "here it " + found.what})
	}
}

func (l *loop) judge() *leak {
	if l.hasOneElement() {
		return nil
	}
	if labeled, ok := l.parents(l.outer)[l.stmt].(*ast.LabeledStmt); ok {
		l.label = labeled.Label.Name
	}
	if id, ok := l.stmt.Key.(*ast.Ident); ok && l.rangesOverKeys() {
		l.key = l.info.ObjectOf(id)
	}
	if l.stmt.Tok == token.ASSIGN {
		l.escape(l.stmt.Pos(), "keeps the element it meets last")
	}
	l.findCounters()
	l.findCalls(l.stmt.Body)
	l.block(l.stmt.Body, nil, false)
	if l.stopped.IsValid() && l.kept.IsValid() {
		l.escape(l.stopped, "stops after some of the elements")
	}
	for _, target := range l.collected {
		if !l.sortedAfter(l.outer, target, l.stmt.End()) {
			l.escape(target.Pos(), fmt.Sprintf("fills %s, which is not sorted before it is used", types.ExprString(target)))
		}
	}
	return l.leak
}

// escape notes a leak. The first one is reported: they are mended together.
func (l *loop) escape(pos token.Pos, what string) {
	if l.leak == nil {
		l.leak = &leak{pos, what}
	}
}

// rangesOverKeys reports whether the loop's first variable is the key: not so for
// maps.Values.
func (l *loop) rangesOverKeys() bool {
	call, ok := ast.Unparen(l.stmt.X).(*ast.CallExpr)
	if !ok {
		return true
	}
	callee := l.callee(call)
	return callee == nil || callee.Name() != "Values"
}

// hasOneElement reports whether the loop runs only where len(m) == 1, which is how
// the one element of a map is taken out.
func (l *loop) hasOneElement() bool {
	want := "len(" + types.ExprString(l.stmt.X) + ") == 1"
	parents := l.parents(l.outer)
	for n := ast.Node(l.stmt); n != nil; n = parents[n] {
		if cond, ok := parents[n].(*ast.IfStmt); ok && cond.Body == n && types.ExprString(cond.Cond) == want {
			return true
		}
	}
	return false
}

func (l *loop) findCounters() {
	ast.Inspect(l.stmt.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IncDecStmt:
			l.count(n.X)
		case *ast.AssignStmt:
			if n.Tok != token.ASSIGN && n.Tok != token.DEFINE {
				l.count(n.Lhs[0])
			}
		}
		return true
	})
}

func (l *loop) count(target ast.Expr) {
	if id, ok := ast.Unparen(target).(*ast.Ident); ok {
		if obj := l.info.ObjectOf(id); obj != nil && !l.isLocal(obj) {
			l.counters[obj] = true
		}
	}
}

// isLocal reports whether an object belongs to one turn of the loop.
func (l *loop) isLocal(obj types.Object) bool { return within(l.stmt, obj.Pos()) }

func within(n ast.Node, pos token.Pos) bool { return n.Pos() <= pos && pos < n.End() }

// dependsOnElement reports whether a value may be another one for another element.
func (l *loop) dependsOnElement(e ast.Expr) bool {
	return l.mentions(e, func(v *types.Var) bool { return l.isLocal(v) && !within(e, v.Pos()) })
}

// dependsOnOrder reports whether a value depends on how many elements came before.
func (l *loop) dependsOnOrder(e ast.Expr) bool {
	return l.mentions(e, func(v *types.Var) bool { return l.counters[v] })
}

func (l *loop) mentions(e ast.Expr, is func(*types.Var) bool) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !found {
			v, isVar := l.info.Uses[id].(*types.Var)
			found = isVar && !v.IsField() && is(v)
		}
		return !found
	})
	return found
}

// isOutside reports whether an operand is a part of something that outlives a turn
// of the loop.
func (l *loop) isOutside(e ast.Expr) bool {
	v := rootVar(l.info, e)
	return v == nil || !l.isLocal(v)
}

// singlesOut reports whether a condition holds for one key at most: what is done
// then is done once, in whatever order.
func (l *loop) singlesOut(cond ast.Expr) bool {
	b, ok := ast.Unparen(cond).(*ast.BinaryExpr)
	if !ok {
		return false
	}
	switch b.Op {
	case token.LAND:
		return l.singlesOut(b.X) || l.singlesOut(b.Y)
	case token.EQL:
		return (l.isKey(b.X) && !l.dependsOnElement(b.Y)) || (l.isKey(b.Y) && !l.dependsOnElement(b.X))
	}
	return false
}

func (l *loop) isKey(e ast.Expr) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	return ok && l.key != nil && l.info.Uses[id] == l.key
}

// findCalls finds calls in the body whose order matters: decisions of the
// orchestration, and text that is written piece by piece.
func (l *loop) findCalls(body ast.Node) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false // it may be for later; where it is called is judged
		case *ast.IfStmt:
			if l.singlesOut(n.Cond) {
				if n.Else != nil {
					l.findCalls(n.Else)
				}
				return false
			}
		case *ast.ExprStmt:
			if call, ok := n.X.(*ast.CallExpr); ok && l.isEffectOfAbide(call) {
				l.escape(n.Pos(), "calls "+types.ExprString(call.Fun)+" for each element")
			}
		case *ast.CallExpr:
			l.call(n)
		}
		return true
	})
}

func (l *loop) call(call *ast.CallExpr) {
	if lit, ok := ast.Unparen(call.Fun).(*ast.FuncLit); ok {
		l.findCalls(lit.Body)
	}
	if l.decides(call) {
		l.escape(call.Pos(), "calls "+types.ExprString(call.Fun)+" for each element")
	}
	if target := l.writesTo(call); target != nil && l.isOutside(target) && slices.ContainsFunc(call.Args, l.dependsOnElement) {
		l.escape(call.Pos(), "writes to "+types.ExprString(target)+" for each element")
	}
}

// decides reports whether a call may make a decision of the orchestration, for
// which it needs a Context: as an argument, or in a closure.
func (l *loop) decides(call *ast.CallExpr) bool {
	if isAbideFunc(l.callee(call), "Execution", "Logger", "Now", "Self") {
		return false // these only look
	}
	isCtx := func(e ast.Expr) bool {
		t := l.info.TypeOf(e)
		return t != nil && isContext(t)
	}
	if slices.ContainsFunc(call.Args, isCtx) {
		return true
	}
	for _, f := range l.functions(call.Fun) {
		if f.unit != nil && f.unit.fn == nil && l.holdsContext(f.unit.body) {
			return true
		}
	}
	return false
}

// holdsContext reports whether a closure uses a Context from around it.
func (l *loop) holdsContext(body ast.Node) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			v, isVar := l.info.Uses[id].(*types.Var)
			found = found || (isVar && isContext(v.Type()))
		}
		return !found
	})
	return found
}

// isEffectOfAbide reports whether a call is of a method of package abide that is
// called for its effect, such as registering what a saga undoes.
func (l *loop) isEffectOfAbide(call *ast.CallExpr) bool {
	fn, ok := l.callee(call).(*types.Func)
	return ok && isAbide(fn) && fn.Signature().Recv() != nil
}

// writesTo returns what a call appends text or bytes to, or nil.
func (l *loop) writesTo(call *ast.CallExpr) ast.Expr {
	fn, ok := l.callee(call).(*types.Func)
	if !ok || fn.Pkg() == nil {
		return nil
	}
	if fn.Signature().Recv() != nil {
		sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if ok && slices.Contains([]string{"Write", "WriteByte", "WriteRune", "WriteString"}, fn.Name()) {
			return sel.X
		}
		return nil
	}
	if !slices.Contains([]string{"fmt.Fprint", "fmt.Fprintf", "fmt.Fprintln", "io.WriteString"}, objectName(fn)) || len(call.Args) == 0 {
		return nil
	}
	if address, ok := ast.Unparen(call.Args[0]).(*ast.UnaryExpr); ok {
		return address.X
	}
	return call.Args[0]
}
