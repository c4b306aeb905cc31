package vet

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// block judges the statements of a loop's body. The guards are the conditions
// under which they run; nested says that a break would leave another statement.
func (l *loop) block(s ast.Stmt, guards []ast.Expr, nested bool) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		for _, inner := range s.List {
			l.block(inner, guards, nested)
		}
	case *ast.LabeledStmt:
		l.block(s.Stmt, guards, nested)
	case *ast.IfStmt:
		l.ifStmt(s, guards, nested)
	case *ast.ForStmt:
		l.block(s.Body, guards, true)
	case *ast.RangeStmt:
		l.block(s.Body, guards, true)
	case *ast.SwitchStmt:
		l.switchStmt(s, guards)
	case *ast.TypeSwitchStmt:
		l.clauses(s.Body, guards)
	case *ast.AssignStmt:
		l.assign(s, guards)
	case *ast.IncDecStmt:
		if l.isOutside(s.X) {
			l.keep(s.Pos())
		}
	case *ast.ReturnStmt:
		l.leave(s.Pos(), s.Results, "returns a value that depends on which element it meets first")
	case *ast.ExprStmt:
		l.panics(s)
	case *ast.BranchStmt:
		l.branch(s, nested)
	}
}

func (l *loop) keep(pos token.Pos) {
	if !l.kept.IsValid() {
		l.kept = pos
	}
}

func (l *loop) ifStmt(s *ast.IfStmt, guards []ast.Expr, nested bool) {
	if !l.singlesOut(s.Cond) {
		l.block(s.Body, append(slices.Clone(guards), s.Cond), nested)
	}
	if s.Else != nil {
		l.block(s.Else, guards, nested)
	}
}

func (l *loop) switchStmt(s *ast.SwitchStmt, guards []ast.Expr) {
	for _, c := range s.Body.List {
		clause := c.(*ast.CaseClause)
		if s.Tag != nil && l.isKey(s.Tag) && clause.List != nil {
			continue // each case is for one key
		}
		for _, inner := range clause.Body {
			l.block(inner, append(slices.Clone(guards), clause.List...), true)
		}
	}
}

func (l *loop) clauses(body *ast.BlockStmt, guards []ast.Expr) {
	for _, c := range body.List {
		for _, inner := range c.(*ast.CaseClause).Body {
			l.block(inner, guards, true)
		}
	}
}

// leave judges the values with which the loop is left early.
func (l *loop) leave(pos token.Pos, values []ast.Expr, what string) {
	for _, v := range values {
		if l.dependsOnElement(v) || l.dependsOnOrder(v) {
			l.escape(pos, what)
		}
	}
}

func (l *loop) panics(s *ast.ExprStmt) {
	call, ok := s.X.(*ast.CallExpr)
	if !ok {
		return
	}
	if b, ok := l.callee(call).(*types.Builtin); ok && b.Name() == "panic" {
		l.leave(s.Pos(), call.Args, "panics with a value that depends on which element it meets first")
	}
}

// branch notes what ends the loop before all elements were met.
func (l *loop) branch(s *ast.BranchStmt, nested bool) {
	mine := s.Label == nil || s.Label.Name == l.label
	switch {
	case s.Tok == token.BREAK && s.Label == nil && nested,
		s.Tok == token.CONTINUE && mine,
		s.Tok == token.FALLTHROUGH:
		return
	case s.Label != nil && !mine && l.labelIsInside(s.Label):
		return
	}
	if !l.stopped.IsValid() {
		l.stopped = s.Pos()
	}
}

// labelIsInside reports whether a label belongs to a statement within the loop.
func (l *loop) labelIsInside(label *ast.Ident) bool {
	obj := l.info.Uses[label]
	return obj != nil && l.isLocal(obj)
}

func (l *loop) assign(s *ast.AssignStmt, guards []ast.Expr) {
	switch {
	case s.Tok == token.DEFINE:
	case s.Tok != token.ASSIGN:
		l.accumulate(s.Lhs[0], s.Tok, s.Rhs[0])
	case len(s.Lhs) == len(s.Rhs):
		for i, target := range s.Lhs {
			l.store(target, s.Rhs[i], guards)
		}
	default:
		for _, target := range s.Lhs {
			l.store(target, s.Rhs[0], guards)
		}
	}
}

// accumulate judges x op= e.
func (l *loop) accumulate(target ast.Expr, op token.Token, value ast.Expr) {
	if !l.isOutside(target) {
		return
	}
	l.keep(target.Pos())
	if index, ok := ast.Unparen(target).(*ast.IndexExpr); ok && l.isKey(index.Index) {
		return // each key has its own
	}
	name := types.ExprString(target)
	basic, _ := l.info.TypeOf(target).Underlying().(*types.Basic)
	switch {
	case basic == nil: // a type parameter: it may be a string
		l.escape(target.Pos(), fmt.Sprintf("adds to %s, which may depend on the order", name))
	case op == token.QUO_ASSIGN || op == token.REM_ASSIGN:
		l.escape(target.Pos(), fmt.Sprintf("divides %s, and integers are cut off at each step", name))
	case basic.Info()&types.IsInteger != 0 || !l.dependsOnElement(value):
	case basic.Info()&types.IsString != 0:
		l.escape(target.Pos(), fmt.Sprintf("builds the string %s", name))
	default:
		l.escape(target.Pos(), fmt.Sprintf("adds floating-point numbers to %s, which are rounded at each step", name))
	}
}

// store judges x = e.
func (l *loop) store(target, value ast.Expr, guards []ast.Expr) {
	target = ast.Unparen(target)
	if id, ok := target.(*ast.Ident); (ok && id.Name == "_") || !l.isOutside(target) {
		return
	}
	if index, ok := target.(*ast.IndexExpr); ok && l.storeElement(index, value) {
		return
	}
	if l.isAppend(target, value) {
		l.collect(target)
		return
	}
	name := types.ExprString(target)
	switch {
	case l.dependsOnElement(value) || l.dependsOnOrder(value):
		if op, operand, ok := selfOperation(target, value); ok {
			l.accumulate(target, op, operand)
		} else if !l.isExtreme(target, value, guards) {
			l.escape(target.Pos(), fmt.Sprintf("keeps in %s a value that depends on which element it meets last", name))
		}
	case rootVar(l.info, target) != nil:
		obj := types.Object(rootVar(l.info, target))
		given := types.ExprString(value)
		if before, ok := l.constants[obj]; ok && before != given {
			l.escape(target.Pos(), fmt.Sprintf("gives %s different values, of which the last one stays", name))
		}
		l.constants[obj] = given
	}
}

// storeElement judges m[k] = e and s[i] = e, and reports whether that was all.
func (l *loop) storeElement(index *ast.IndexExpr, value ast.Expr) bool {
	if _, isMap := l.info.TypeOf(index.X).Underlying().(*types.Map); !isMap {
		if l.dependsOnElement(index.Index) && !l.dependsOnOrder(index.Index) {
			l.keep(index.Pos())
		} else {
			l.collect(index.X)
		}
		return true
	}
	if !l.dependsOnElement(index.Index) {
		return false // always the same place: as a variable
	}
	l.keep(index.Pos())
	switch {
	case l.isKey(index.Index) && !l.dependsOnOrder(value):
	case l.isAppend(index, value):
		l.collect(index.X)
	case l.dependsOnOrder(value):
		l.escape(index.Pos(), fmt.Sprintf("numbers the elements of %s", types.ExprString(index.X)))
	}
	return true
}

func (l *loop) collect(target ast.Expr) {
	l.keep(target.Pos())
	l.collected = append(l.collected, target)
}

// isAppend reports whether a value is append(x, …) for the x that it is stored in.
func (l *loop) isAppend(target, value ast.Expr) bool {
	call, ok := ast.Unparen(value).(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	switch callee := l.callee(call).(type) {
	case *types.Builtin:
		return callee.Name() == "append" && sameExpr(call.Args[0], target)
	case *types.Func:
		return callee.Pkg() != nil && callee.Pkg().Path() == "slices" && sameExpr(call.Args[0], target) &&
			slices.Contains([]string{"AppendSeq", "Concat", "Insert"}, callee.Name())
	}
	return false
}

func sameExpr(a, b ast.Expr) bool { return types.ExprString(a) == types.ExprString(b) }

// selfOperation takes x = x + e and x = e + x apart, for operators that do not mind
// the order of numbers or truths.
func selfOperation(target, value ast.Expr) (op token.Token, operand ast.Expr, ok bool) {
	b, isBinary := ast.Unparen(value).(*ast.BinaryExpr)
	if !isBinary {
		return 0, nil, false
	}
	assignOps := map[token.Token]token.Token{
		token.ADD: token.ADD_ASSIGN, token.MUL: token.MUL_ASSIGN, token.OR: token.OR_ASSIGN, token.AND: token.AND_ASSIGN,
		token.XOR: token.XOR_ASSIGN,
	}
	op, ok = assignOps[b.Op]
	switch {
	case !ok:
		return 0, nil, false
	case sameExpr(b.X, target):
		return op, b.Y, true
	case sameExpr(b.Y, target):
		return op, b.X, true
	}
	return 0, nil, false
}

// isExtreme reports whether x = e keeps the largest or smallest e of all, or
// whether there is any: by max, min, || or &&, or behind a comparison of e with x.
// A variable that is kept beside the extreme one must be compared, too: there may
// be two elements with the same extreme.
func (l *loop) isExtreme(target, value ast.Expr, guards []ast.Expr) bool {
	switch v := ast.Unparen(value).(type) {
	case *ast.CallExpr:
		if b, ok := l.callee(v).(*types.Builtin); ok && (b.Name() == "max" || b.Name() == "min") {
			return slices.ContainsFunc(v.Args, func(arg ast.Expr) bool { return sameExpr(arg, target) })
		}
	case *ast.BinaryExpr:
		if v.Op == token.LOR || v.Op == token.LAND {
			return sameExpr(v.X, target) || sameExpr(v.Y, target)
		}
	}
	return slices.ContainsFunc(guards, func(g ast.Expr) bool { return compares(g, target, value) })
}

// compares reports whether a condition puts two values in order, with an operator
// or a call such as value.Before(target).
func compares(cond, a, b ast.Expr) bool {
	found := false
	ast.Inspect(cond, func(n ast.Node) bool {
		var operands []ast.Expr
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if slices.Contains([]token.Token{token.LSS, token.GTR, token.LEQ, token.GEQ}, n.Op) {
				operands = []ast.Expr{n.X, n.Y}
			}
		case *ast.CallExpr:
			operands = slices.Clone(n.Args)
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok {
				operands = append(operands, sel.X)
			}
		}
		has := func(want ast.Expr) bool {
			return slices.ContainsFunc(operands, func(e ast.Expr) bool { return sameExpr(e, want) })
		}
		found = found || (has(a) && has(b))
		return !found
	})
	return found
}
