package tidy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryAllowanceIsUsed: the table of layers allows only what is used, so that it is the map
// of the tree as it is. Rows with the same allowances, such as those of stores, count as one.
func TestEveryAllowanceIsUsed(t *testing.T) {
	t.Parallel()
	tree := load(t)
	for _, unused := range unusedAllowances(tree, layers) {
		t.Error(unused)
	}
}

func unusedAllowances(tree []*source, table []layer) []string {
	used := map[string]bool{} // by allowances of the row, kind and pattern
	id := func(row *layer, kind, pattern string) string {
		return fmt.Sprint(row.imports, row.tests, kind, pattern)
	}
	for _, s := range tree {
		i := slices.IndexFunc(table, func(row layer) bool { return matches(row.path, s.dir()) })
		if i < 0 {
			continue
		}
		row := &table[i]
		kind, patterns := "imports", row.imports
		if s.isTest() {
			kind, patterns = "tests", row.tests
		}
		for _, spec := range s.file.Imports {
			pkg := "."
			if p := importPath(spec); p != module {
				pkg = strings.TrimPrefix(p, module+"/")
			}
			for _, pattern := range patterns {
				if matches(pattern, pkg) {
					used[id(row, kind, pattern)] = true
				}
			}
		}
	}
	var unused []string
	for i := range table {
		row := &table[i]
		for kind, patterns := range map[string][]string{"imports": row.imports, "tests": row.tests} {
			for _, pattern := range patterns {
				if !used[id(row, kind, pattern)] {
					unused = append(unused, fmt.Sprintf("layers: %s: %s has %s, which nothing uses", row.path, kind, pattern))
				}
			}
		}
	}
	slices.Sort(unused)
	return slices.Compact(unused)
}

func TestAnUnusedAllowanceIsFound(t *testing.T) {
	t.Parallel()
	file, err := parse("a/a.go", "package a\n\nimport _ \""+module+"/b\"\n")
	if err != nil {
		t.Fatal(err)
	}
	table := []layer{{path: "b"}, {path: "a", imports: []string{"b", "c"}, tests: []string{"b"}}}
	want := []string{"layers: a: imports has c, which nothing uses", "layers: a: tests has b, which nothing uses"}
	if got := unusedAllowances([]*source{file}, table); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestTheArchitecturePageNamesEveryPackage: the table of packages in docs/architecture.md has a
// row for each row of the table of layers, and names no package that does not exist.
func TestTheArchitecturePageNamesEveryPackage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## The house\n")
	table, _, _ = strings.Cut(table, "\n## ")
	named := map[string]bool{}
	for line := range strings.Lines(table) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| `") {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cell, -1) {
				named[m[1]] = true
			}
		}
	}
	for _, row := range layers {
		pkg := strings.TrimSuffix(row.path, "/...")
		if pkg == "." {
			pkg = "abide"
		}
		if !named[pkg] && pkg != "cmd" && pkg != "examples" {
			t.Errorf("docs/architecture.md: the table of packages has no %s", pkg)
		}
	}
	for pkg := range named {
		dir := pkg
		if pkg == "abide" {
			dir = "."
		}
		if _, err := os.Stat(filepath.Join("..", "..", dir)); err != nil {
			t.Errorf("docs/architecture.md names %s: %v", dir, err)
		}
	}
}
