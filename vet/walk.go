package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// walker goes through the body of one unit and notes its offences and its calls.
type walker struct {
	*program
	unit *unit
}

func (p *program) walk(u *unit) {
	w := &walker{program: p, unit: u}
	ast.Inspect(u.body, w.visit)
}

func (w *walker) visit(n ast.Node) bool {
	if e, ok := n.(ast.Expr); ok && w.elsewhere[e] {
		return false
	}
	switch n := n.(type) {
	case *ast.FuncLit:
		w.use(n.Pos(), callable{unit: w.byNode[n]})
		return false
	case *ast.Ident:
		w.useObject(n.Pos(), w.info.Uses[n])
	case *ast.SelectorExpr:
		w.useObject(n.Sel.Pos(), w.info.Uses[n.Sel])
		ast.Inspect(n.X, w.visit)
		return false
	case *ast.CallExpr:
		w.builtin(n)
		w.format(n)
		w.unorderedCall(n)
	case *ast.AssignStmt, *ast.IncDecStmt:
		w.foreignWrites(n)
	case *ast.RangeStmt:
		w.rangeOver(n)
	case *ast.GoStmt:
		w.report(n.Pos(), verdict{Concurrency, "a goroutine runs when the scheduler wants it to: use abide.Go"})
	case *ast.SendStmt:
		w.channel(n.Arrow, "sending to a channel")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			w.channel(n.Pos(), "receiving from a channel")
		}
	case *ast.SelectStmt:
		w.report(n.Pos(), verdict{Concurrency, "select chooses among channels at random: use abide.Select"})
		w.selectBodies(n)
		return false
	}
	return true
}

func (w *walker) report(pos token.Pos, v verdict, related ...analysis.RelatedInformation) {
	w.unit.offences = append(w.unit.offences, &offence{pos: pos, verdict: v, related: related})
}

func (w *walker) channel(pos token.Pos, what string) {
	w.report(pos, verdict{Concurrency, Concurrency.say(what)})
}

// selectBodies goes through a select statement without its sends and receives,
// which are no findings of their own.
func (w *walker) selectBodies(n *ast.SelectStmt) {
	for _, c := range n.Body.List {
		for _, s := range c.(*ast.CommClause).Body {
			ast.Inspect(s, w.visit)
		}
	}
}

func (w *walker) rangeOver(n *ast.RangeStmt) {
	if t := w.info.TypeOf(n.X); t != nil {
		if _, ok := t.Underlying().(*types.Chan); ok {
			w.channel(n.Pos(), "receiving from a channel")
			return
		}
	}
	w.mapLoop(n)
}

func (w *walker) builtin(call *ast.CallExpr) {
	b, ok := w.callee(call).(*types.Builtin)
	if !ok {
		return
	}
	switch b.Name() {
	case "close":
		w.channel(call.Pos(), "closing a channel")
	case "make":
		if _, ok := w.info.TypeOf(call).Underlying().(*types.Chan); ok {
			w.channel(call.Pos(), "a channel")
		}
	case "print", "println":
		w.report(call.Pos(), verdict{IO, b.Name() + " prints on every replay: " + useLogger})
	}
}

// foreignWrites finds assignments to the variables of other packages. Their own
// package does not see them, so that no fact speaks of them.
func (w *walker) foreignWrites(n ast.Node) {
	for _, target := range w.written(n) {
		if v := rootVar(w.info, target); v != nil && isPackageLevel(v) && v.Pkg() != w.pass.Pkg {
			w.report(target.Pos(), verdict{Global, Global.say(objectName(v))})
		}
	}
}

func (w *walker) useObject(pos token.Pos, obj types.Object) {
	switch obj := obj.(type) {
	case *types.Func:
		w.use(pos, callable{unit: w.byFunc[obj.Origin()], fn: obj.Origin()})
	case *types.Var:
		if isPackageLevel(obj) {
			w.useGlobal(pos, obj)
		}
		if len(w.bindings[obj.Origin()]) > 0 {
			for _, f := range w.resolveObject(obj, map[*types.Var]bool{}) {
				w.use(pos, f)
			}
		}
	}
}

// use notes that a function may be called. Code that has it as a value is taken to
// call it.
func (w *walker) use(pos token.Pos, f callable) {
	switch {
	case f.unit != nil:
		w.unit.calls = append(w.unit.calls, f.unit)
	case f.fn == nil || f.fn.Pkg() == nil || f.fn.Pkg() == w.pass.Pkg:
	case isAbide(f.fn):
		if firstParam(f.fn.Signature(), isGoContext) {
			w.report(pos, verdict{IO, IO.say(objectName(f.fn))})
		}
	default:
		w.useForeign(pos, f.fn)
	}
}

func (w *walker) useGlobal(pos token.Pos, v *types.Var) {
	if v.Pkg() != w.pass.Pkg {
		w.useForeign(pos, v)
		return
	}
	for _, found := range w.judgeGlobal(v) {
		w.report(pos, found)
	}
}

// useForeign judges a function or a variable of another package: by the table, or
// by the fact that its package has left.
func (w *walker) useForeign(pos token.Pos, obj types.Object) {
	if found, ok := lookup(obj); ok {
		w.report(pos, found)
		return
	}
	for _, c := range w.imported(obj) {
		w.unit.offences = append(w.unit.offences, &offence{pos: pos, verdict: verdict{c.Category, c.Text}, chain: c.Chain})
	}
}
