package tidy

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/abidehq/abide"

// source is a Go file of the module. Paths have slashes and start at its root.
type source struct {
	path string
	text string
	fset *token.FileSet
	file *ast.File
}

// dir is the folder of the file, and with that the import path of its package
// within the module; "." is the root.
func (s *source) dir() string { return path.Dir(s.path) }

func (s *source) isTest() bool { return strings.HasSuffix(s.path, "_test.go") }

// finding is a place where a rule is broken.
type finding struct {
	path    string
	line    int
	message string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.message) }

// at returns a finding at a place in the file.
func (s *source) at(pos token.Pos, format string, args ...any) finding {
	return s.atLine(s.fset.Position(pos).Line, format, args...)
}

func (s *source) atLine(line int, format string, args ...any) finding {
	return finding{path: s.path, line: line, message: fmt.Sprintf(format, args...)}
}

// importName returns the name under which the file imports a package, and whether
// it does.
func (s *source) importName(pkg string) (name string, ok bool) {
	for _, spec := range s.file.Imports {
		if importPath(spec) != pkg {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name, true
		}
		base := path.Base(pkg)
		if isMajorVersion(base) {
			base = path.Base(path.Dir(pkg))
		}
		return base, true
	}
	return "", false
}

// uses calls f with each name that the file takes from a package: Now for
// time.Now.
func (s *source) uses(pkg string, f func(pos token.Pos, name string)) {
	alias, ok := s.importName(pkg)
	if !ok {
		return
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == alias {
				f(sel.Pos(), sel.Sel.Name)
			}
		}
		return true
	})
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value // the parser has let it through; no rule will match it
	}
	return p
}

func isMajorVersion(s string) bool {
	if len(s) < 2 || s[0] != 'v' {
		return false
	}
	_, err := strconv.Atoi(s[1:])
	return err == nil
}

func parse(name, text string) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &source{path: name, text: text, fset: fset, file: file}, nil
}

// root returns the folder of the module's go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for !exists(filepath.Join(dir, "go.mod")) {
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// load parses all Go files of the module. It leaves out what the go command
// leaves out, and what is of another module.
func load(t *testing.T) []*source {
	t.Helper()
	top := root(t)
	var tree []*source
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != top && skipped(name):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(rel), string(text))
		if err != nil {
			return err
		}
		tree = append(tree, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func skipped(dir string) bool {
	base := filepath.Base(dir)
	return base[0] == '.' || base[0] == '_' || exists(filepath.Join(dir, "go.mod")) ||
		slices.Contains([]string{"vendor", "testdata", "node_modules"}, base)
}

// under reports whether a file or package is in a folder, at any depth.
func under(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}
