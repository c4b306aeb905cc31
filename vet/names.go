package vet

import (
	"go/ast"
	"go/types"
	"slices"
)

// abidePath is the package that users import.
const abidePath = "github.com/abidehq/abide"

// isAbide reports whether an object is of the package that users import. What the
// package does inside is its own affair.
func isAbide(obj types.Object) bool { return obj.Pkg() != nil && obj.Pkg().Path() == abidePath }

// isAbideFunc reports whether an object is one of the functions of package abide:
// those, not methods of the same name.
func isAbideFunc(obj types.Object, names ...string) bool {
	fn, ok := obj.(*types.Func)
	return ok && isAbide(fn) && fn.Signature().Recv() == nil && slices.Contains(names, fn.Name())
}

// isContext reports whether a type is abide.Context, which only orchestrations get.
func isContext(t types.Type) bool {
	obj := namedObject(t)
	return obj != nil && obj.Name() == "Context" && isAbide(obj)
}

// isGoContext reports whether a type is context.Context, which orchestration code
// does not get: a function that wants one is an activity or a step.
func isGoContext(t types.Type) bool {
	obj := namedObject(t)
	return obj != nil && obj.Name() == "Context" && obj.Pkg() != nil && obj.Pkg().Path() == "context"
}

// namedObject returns the name of a type or of what it points to.
func namedObject(t types.Type) *types.TypeName {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj()
	}
	return nil
}

// firstParam reports whether a function's first parameter is of a kind.
func firstParam(t types.Type, is func(types.Type) bool) bool {
	if t == nil {
		return false
	}
	sig, ok := t.Underlying().(*types.Signature)
	return ok && sig.Params().Len() > 0 && is(sig.Params().At(0).Type())
}

// receiverName is the name of the type that a method belongs to, or nothing.
func receiverName(obj types.Object) string {
	fn, ok := obj.(*types.Func)
	if !ok || fn.Signature().Recv() == nil {
		return ""
	}
	if name := namedObject(fn.Signature().Recv().Type()); name != nil {
		return name.Name()
	}
	return ""
}

// objectName is how people call an object of another package: time.Now,
// os.File.Write.
func objectName(obj types.Object) string { return obj.Pkg().Name() + "." + localName(obj) }

// localName is how people call an object within its package.
func localName(obj types.Object) string {
	if recv := receiverName(obj); recv != "" {
		return recv + "." + obj.Name()
	}
	return obj.Name()
}

// isPackageLevel reports whether a variable belongs to a package and not to a
// function or a struct.
func isPackageLevel(v *types.Var) bool {
	return v.Pkg() != nil && !v.IsField() && v.Parent() == v.Pkg().Scope()
}

// rootVar returns the variable that an operand is a part of: x for x, x.f, x[i] and
// *x. It is nil for what comes from a call.
func rootVar(info *types.Info, e ast.Expr) *types.Var {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.SelectorExpr:
			if v, ok := info.Uses[x.Sel].(*types.Var); ok && isPackageLevel(v) {
				return v
			}
			e = x.X
		case *ast.Ident:
			v, _ := info.ObjectOf(x).(*types.Var)
			return v
		default:
			return nil
		}
	}
}
