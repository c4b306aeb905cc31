package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// program is what the analysis knows of one package.
type program struct {
	pass   *analysis.Pass
	info   *types.Info
	module string

	units  []*unit // in the order of the source
	byNode map[ast.Node]*unit
	byFunc map[*types.Func]*unit
	roots  []root // named orchestrations first: their names say more

	// bindings are the function values that are put into variables. What a variable
	// may stand for counts where the variable is used.
	bindings map[*types.Var][]ast.Expr

	// elsewhere has the function values that count at another place, or not at all,
	// though they are written down in a function: what is bound to a variable, what
	// is made an orchestration, and what runs as an activity or a step.
	elsewhere map[ast.Expr]bool

	globals map[*types.Var]*global
	around  map[ast.Node]map[ast.Node]ast.Node // found by parents

	iterators map[*types.Var]bool // found by seqs
}

// unit is a function with a body: a declaration or a literal.
type unit struct {
	name  string      // of a declaration; a literal goes by that of its surroundings
	fn    *types.Func // nil for a literal
	sig   *types.Signature
	body  *ast.BlockStmt
	outer ast.Node // the declaration of the package that it is a part of

	offences []*offence
	calls    []*unit
}

// offence is a place in a unit that is not deterministic.
type offence struct {
	pos token.Pos
	verdict
	chain   []string // through which functions of other packages it is reached
	related []analysis.RelatedInformation
}

// root is where orchestration code starts.
type root struct {
	name string // of the orchestration; empty for a function that takes a Context
	unit *unit
}

func newProgram(pass *analysis.Pass) *program {
	p := &program{
		pass:      pass,
		info:      pass.TypesInfo,
		byNode:    map[ast.Node]*unit{},
		byFunc:    map[*types.Func]*unit{},
		bindings:  map[*types.Var][]ast.Expr{},
		elsewhere: map[ast.Expr]bool{},
		globals:   map[*types.Var]*global{},
		around:    map[ast.Node]map[ast.Node]ast.Node{},
	}
	if pass.Module != nil {
		p.module = pass.Module.Path
	}
	p.index()
	p.findGlobals()
	for _, u := range p.units {
		p.walk(u)
	}
	return p
}

// index finds the units and what is said about them elsewhere in the package.
func (p *program) index() {
	var registrations []*ast.CallExpr
	for _, file := range p.pass.Files {
		for _, decl := range file.Decls {
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					p.declare(n)
				case *ast.FuncLit:
					sig, _ := p.info.TypeOf(n).(*types.Signature)
					p.add(n, &unit{sig: sig, body: n.Body, outer: decl})
				case *ast.AssignStmt:
					p.bindAll(n.Lhs, n.Rhs)
				case *ast.ValueSpec:
					p.bindSpec(n)
				case *ast.CallExpr:
					if p.argumentsElsewhere(n) {
						registrations = append(registrations, n)
					}
				}
				return true
			})
		}
	}
	for _, call := range registrations {
		p.register(call)
	}
	for _, u := range p.units {
		if firstParam(u.sig, isContext) {
			p.roots = append(p.roots, root{unit: u})
		}
	}
}

func (p *program) declare(d *ast.FuncDecl) {
	fn, ok := p.info.Defs[d.Name].(*types.Func)
	if !ok || d.Body == nil {
		return
	}
	u := &unit{name: localName(fn), fn: fn, sig: fn.Signature(), body: d.Body, outer: d}
	p.byFunc[fn] = u
	p.add(d, u)
}

func (p *program) add(n ast.Node, u *unit) {
	p.byNode[n] = u
	p.units = append(p.units, u)
}

// argumentsElsewhere marks the arguments of a call that do not run as a part of
// the caller, and reports whether it makes an orchestration.
func (p *program) argumentsElsewhere(call *ast.CallExpr) (registers bool) {
	if p.info.Types[call.Fun].IsType() {
		return false
	}
	for _, arg := range call.Args {
		// Only what has side effects of its own is given a context.Context: the body of
		// abide.Step, an activity, or what a helper hands on to one of these.
		if firstParam(p.info.TypeOf(arg), isGoContext) {
			p.elsewhere[ast.Unparen(arg)] = true
		}
	}
	if len(call.Args) < 2 || !isAbideFunc(p.callee(call), "NewOrchestration") {
		return false
	}
	p.elsewhere[ast.Unparen(call.Args[1])] = true
	return true
}

// register makes roots of what a call of abide.NewOrchestration is given.
func (p *program) register(call *ast.CallExpr) {
	name := types.ExprString(call.Args[0])
	if value := p.info.Types[call.Args[0]].Value; value != nil {
		name = value.ExactString()
	}
	if unquoted, err := strconv.Unquote(name); err == nil {
		name = unquoted
	}
	for _, f := range p.functions(call.Args[1]) {
		if f.unit != nil {
			p.roots = append(p.roots, root{name: name, unit: f.unit})
		}
	}
}

// callee is the function, variable or built-in that is called, or nil.
func (p *program) callee(call *ast.CallExpr) types.Object { return typeutil.Callee(p.info, call) }

// parents maps the nodes of a declaration to those around them. Few declarations
// are asked for theirs, so that they are found when they are.
func (p *program) parents(outer ast.Node) map[ast.Node]ast.Node {
	if found, ok := p.around[outer]; ok {
		return found
	}
	found := map[ast.Node]ast.Node{}
	var stack []ast.Node
	ast.Inspect(outer, func(n ast.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		if len(stack) > 0 {
			found[n] = stack[len(stack)-1]
		}
		stack = append(stack, n)
		return true
	})
	p.around[outer] = found
	return found
}

// isTestFile reports whether a place is in a test.
func (p *program) isTestFile(pos token.Pos) bool {
	return strings.HasSuffix(p.pass.Fset.Position(pos).Filename, "_test.go")
}
