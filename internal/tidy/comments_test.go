package tidy

import (
	"go/ast"
	"go/token"
	"path"
)

// checkComments finds exported symbols without a comment: of packages, of types and
// of interfaces. Programs and tests export to nobody.
func checkComments(tree []*source) []finding {
	var found []finding
	for _, s := range tree {
		if s.isTest() || s.file.Name.Name == "main" || ast.IsGenerated(s.file) {
			continue
		}
		for _, decl := range s.file.Decls {
			for _, id := range uncommented(decl) {
				found = append(found, s.at(id.Pos(), "%s is exported and has no comment", id.Name))
			}
		}
	}
	return found
}

// uncommented returns the exported names of a declaration that have no comment.
func uncommented(decl ast.Decl) []*ast.Ident {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if !commented(d.Doc) && d.Name.IsExported() && receiverExported(d) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var ids []*ast.Ident
		for _, spec := range d.Specs {
			ids = append(ids, uncommentedSpec(d, spec)...)
		}
		return ids
	}
	return nil
}

// uncommentedSpec is lenient with constants and variables, where one comment often
// speaks of all in a group, and strict with types, where it never does.
func uncommentedSpec(d *ast.GenDecl, spec ast.Spec) []*ast.Ident {
	var ids []*ast.Ident
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		if commented(spec.Doc) || commented(spec.Comment) || commented(d.Doc) {
			return nil
		}
		ids = append(ids, spec.Names...)
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return nil
		}
		single := d.Lparen == token.NoPos
		if !commented(spec.Doc) && (!single || !commented(d.Doc)) {
			ids = append(ids, spec.Name)
		}
		if iface, ok := spec.Type.(*ast.InterfaceType); ok {
			for _, method := range iface.Methods.List {
				if !commented(method.Doc) {
					ids = append(ids, method.Names...)
				}
			}
		}
	}
	var exported []*ast.Ident
	for _, id := range ids {
		if id.IsExported() {
			exported = append(exported, id)
		}
	}
	return exported
}

// commented reports whether there is a comment for people: directives are none.
func commented(c *ast.CommentGroup) bool { return c != nil && c.Text() != "" }

// receiverExported reports whether a method belongs to an exported type; a function
// belongs to its package.
func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// maxUndocumented is the number of files up to which a package may speak for
// itself.
const maxUndocumented = 3

// checkPackageComments finds packages with more files than that and neither a
// doc.go nor a package comment.
func checkPackageComments(tree []*source) []finding {
	files := map[string]int{}
	documented := map[string]bool{}
	for _, s := range tree {
		if s.isTest() {
			continue
		}
		files[s.dir()]++
		if commented(s.file.Doc) || path.Base(s.path) == "doc.go" {
			documented[s.dir()] = true
		}
	}
	var found []finding
	reported := map[string]bool{}
	for _, s := range tree {
		dir := s.dir()
		if s.isTest() || documented[dir] || reported[dir] || files[dir] <= maxUndocumented {
			continue
		}
		reported[dir] = true
		found = append(found, s.at(s.file.Package, "package %s has %d files and no package comment: add a doc.go", dir, files[dir]))
	}
	return found
}
