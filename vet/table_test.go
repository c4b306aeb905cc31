package vet

import (
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/abidehq/abide/internal/check"
)

// TestTableNamesWhatExists: a name with a slip of the pen would find nothing, or
// would be no exception.
func TestTableNamesWhatExists(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, path := range slices.Sorted(maps.Keys(known)) {
		if !strings.Contains(path, ".") { // the standard library
			paths = append(paths, path)
		}
	}
	mode := packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps | packages.NeedExportFile
	pkgs, err := packages.Load(&packages.Config{Mode: mode}, paths...)
	check.OK(t, err)
	if len(pkgs) != len(paths) {
		t.Fatalf("%d packages loaded, want %d", len(pkgs), len(paths))
	}
	for _, pkg := range pkgs {
		if len(pkg.Errors) > 0 {
			t.Errorf("%s: %v", pkg.PkgPath, pkg.Errors)
			continue
		}
		for _, r := range known[pkg.PkgPath] {
			for _, name := range r.names {
				if !exists(pkg.Types, name) {
					t.Errorf("%s has no %s", pkg.PkgPath, name)
				}
			}
		}
	}
}

// exists reports whether a package has a name of the table: a function, a
// variable, Type.Method or Type.*.
func exists(pkg *types.Package, name string) bool {
	name, method, isMethod := strings.Cut(name, ".")
	obj := pkg.Scope().Lookup(name)
	if obj == nil {
		return false
	}
	_, isType := obj.(*types.TypeName)
	if !isMethod {
		return !isType
	}
	if method == "*" {
		return isType
	}
	found, _, _ := types.LookupFieldOrMethod(obj.Type(), true, pkg, method)
	_, isFunc := found.(*types.Func)
	return isFunc
}

func TestEveryCategoryIsInOrder(t *testing.T) {
	t.Parallel()
	if got, want := slices.Sorted(slices.Values(order)), slices.Sorted(maps.Keys(traits)); !slices.Equal(got, want) {
		t.Errorf("order has %v, traits have %v", got, want)
	}
	for c, about := range traits {
		if about.does == "" || about.instead == "" {
			t.Errorf("category %s does not say what is wrong and what to use instead", c)
		}
	}
}
