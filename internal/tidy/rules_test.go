package tidy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// sample is a small tree of files, by path, and where a rule must find it broken.
type sample struct {
	name  string
	files map[string]string
	want  []string // path:line, in order
}

// runSamples proves that a rule finds what breaks it, there and nowhere else.
func runSamples(t *testing.T, check func([]*source) []finding, samples []sample) {
	t.Helper()
	for _, tt := range samples {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var tree []*source
			for _, name := range slices.Sorted(maps.Keys(tt.files)) {
				s, err := parse(name, tt.files[name])
				if err != nil {
					t.Fatal(err)
				}
				tree = append(tree, s)
			}
			var got []string
			for _, f := range check(tree) {
				got = append(got, fmt.Sprintf("%s:%d", f.path, f.line))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %v, want %v", got, tt.want)
			}
		})
	}
}

// file returns a tree of one file.
func file(name string, lines ...string) map[string]string {
	return map[string]string{name: strings.Join(lines, "\n") + "\n"}
}

func TestImportRule(t *testing.T) {
	t.Parallel()
	importing := func(name, imported string) map[string]string {
		return file(name, "package p", "", `import _ "`+imported+`"`)
	}
	runSamples(t, checkImports, []sample{
		{"rows imports base", importing("internal/rows/a.go", module+"/internal/base"), nil},
		{"store imports the standard library", importing("store/a.go", "net/url"), nil},
		{"base imports store", importing("internal/base/a.go", module+"/store"), []string{"internal/base/a.go:3"}},
		{"store imports a backend", importing("store/a.go", module+"/store/memstore"), []string{"store/a.go:3"}},
		{"a test of rows imports a backend", importing("internal/rows/a_test.go", module+"/store/memstore"), nil},
		{"store imports another module", importing("store/a.go", "example.com/m"), []string{"store/a.go:3"}},
		{"a test of store imports another module", importing("store/a_test.go", "example.com/m"), nil},
		{"a backend imports its driver", importing("store/pebblestore/a.go", "example.com/m"), nil},
		{"a backend imports its parts", importing("store/pebblestore/a.go", module+"/store/pebblestore/part"), nil},
		{"a backend imports a sibling", importing("store/pebblestore/a.go", module+"/store/memstore"), []string{"store/pebblestore/a.go:3"}},
		{"a backend imports the suite", importing("store/memstore/a.go", module+"/store/storetest"), []string{"store/memstore/a.go:3"}},
		{"a backend's test imports the suite", importing("store/memstore/a_test.go", module+"/store/storetest"), nil},
		{"a backend's test imports the model", importing("store/pebblestore/a_test.go", module+"/store/memstore"), nil},
		{"a backend's test imports another sibling", importing("store/memstore/a_test.go", module+"/store/pebblestore"), []string{"store/memstore/a_test.go:3"}},
		{"the suite imports the model", importing("store/storetest/a.go", module+"/store/memstore"), nil},
		{"the suite imports a backend", importing("store/storetest/a.go", module+"/store/pebblestore"), []string{"store/storetest/a.go:3"}},
		{"the command line imports the benchmark", importing("internal/cli/a.go", module+"/internal/bench"), nil},
		{"the benchmark imports the command line", importing("internal/bench/a.go", module+"/internal/cli"), []string{"internal/bench/a.go:3"}},
		{"an example imports what is internal", importing("examples/x/a.go", module+"/internal/base"), []string{"examples/x/a.go:3"}},
		{"store imports the root", importing("store/a.go", module), []string{"store/a.go:3"}},
		{"a package has no row", importing("attic/a.go", "fmt"), []string{"attic/a.go:1"}},
	})
}

// TestLayersGoDown: if a row could name a row below it in the table, two packages
// could be allowed to stand on each other.
func TestLayersGoDown(t *testing.T) {
	t.Parallel()
	for i, row := range layers {
		for _, pattern := range row.imports {
			if !slices.ContainsFunc(layers[:i], func(l layer) bool { return overlap(l.path, pattern) }) {
				t.Errorf("%s may import %s, which has no row above it", row.path, pattern)
			}
			for _, later := range layers[i:] {
				if overlap(later.path, pattern) {
					t.Errorf("%s may import %s, which allows %s: not a row above it", row.path, pattern, later.path)
				}
			}
		}
	}
}

// overlap reports whether two patterns can match the same package.
func overlap(a, b string) bool {
	return matches(a, strings.TrimSuffix(b, "/...")) || matches(b, strings.TrimSuffix(a, "/..."))
}

func TestClockRule(t *testing.T) {
	t.Parallel()
	var each []string
	var where []string
	for i, name := range clockFuncs {
		each = append(each, "var _ = time."+name)
		where = append(where, fmt.Sprintf("store/a.go:%d", i+2))
	}
	runSamples(t, checkClock, []sample{
		{"every function", file("store/a.go", append([]string{`package p; import "time"`}, each...)...), where},
		{"a call", file("store/a.go", "package p", `import "time"`, "func f() { time.Sleep(1) }"), []string{"store/a.go:3"}},
		{"under another name", file("store/a.go", "package p", `import clock "time"`, "var now = clock.Now"), []string{"store/a.go:3"}},
		{"imported as a dot", file("store/a.go", "package p", `import . "time"`, "var now = Now()"), []string{"store/a.go:1"}},
		{"types and arithmetic", file("store/a.go", "package p", `import "time"`, "var day time.Duration = 24 * time.Hour"), nil},
		{"something else called time", file("store/a.go", "package p", "var t = time.Now()"), nil},
		{"the clock itself", file("internal/base/a.go", "package p", `import "time"`, "var now = time.Now"), nil},
		{"the benchmark", file("internal/bench/a.go", "package p", `import "time"`, "var now = time.Now"), nil},
		{"a name that starts alike", file("internal/baseball/a.go", "package p", `import "time"`, "var now = time.Now"), []string{"internal/baseball/a.go:3"}},
		{"a test looks at the clock", file("store/a_test.go", "package p", `import "time"`, "var now = time.Now"), nil},
		{"a test sleeps", file("store/a_test.go", "package p", `import "time"`, "func f() { time.Sleep(1) }"), []string{"store/a_test.go:3"}},
		{"a test of the clock sleeps", file("internal/base/a_test.go", "package p", `import "time"`, "func f() { time.Sleep(1) }"), []string{"internal/base/a_test.go:3"}},
	})
	for _, a := range realTime {
		if a.why == "" {
			t.Errorf("%s may use the real time without a reason", a.folder)
		}
	}
}

func TestRandomRule(t *testing.T) {
	t.Parallel()
	runSamples(t, checkRandom, []sample{
		{"version 1", file("store/a.go", "package p", `import "math/rand"`), []string{"store/a.go:2"}},
		{"version 1 in a test", file("store/a_test.go", "package p", `import "math/rand"`), []string{"store/a_test.go:2"}},
		{"the global source", file("store/a.go", "package p", `import "math/rand/v2"`, "var n = rand.IntN(6)"), []string{"store/a.go:3"}},
		{"the global source, generic", file("store/a.go", "package p", `import "math/rand/v2"`, "var n = rand.N[int](6)"), []string{"store/a.go:3"}},
		{"imported as a dot", file("store/a.go", "package p", `import . "math/rand/v2"`, "var n = IntN(6)"), []string{"store/a.go:1"}},
		{"a seed", file("store/a.go", "package p", `import "math/rand/v2"`, "var r *rand.Rand = rand.New(rand.NewPCG(1, 2))"), nil},
		{"the global source in a test", file("store/a_test.go", "package p", `import "math/rand/v2"`, "var n = rand.IntN(6)"), nil},
		{"the global source in the benchmark", file("internal/bench/a.go", "package p", `import "math/rand/v2"`, "var n = rand.IntN(6)"), nil},
	})
}

func TestCommentRule(t *testing.T) {
	t.Parallel()
	at := []string{"store/a.go:3"}
	runSamples(t, checkComments, []sample{
		{"function", file("store/a.go", "package p", "", "func F() {}"), at},
		{"function with a comment", file("store/a.go", "package p", "", "// F does.", "func F() {}"), nil},
		{"function with a directive", file("store/a.go", "package p", "//go:noinline", "func F() {}"), at},
		{"unexported function", file("store/a.go", "package p", "", "func f() {}"), nil},
		{"method", file("store/a.go", "package p", "", "func (t *T) M() {}"), at},
		{"method of a generic type", file("store/a.go", "package p", "", "func (t *T[A, B]) M() {}"), at},
		{"method of an unexported type", file("store/a.go", "package p", "", "func (t *t) M() {}"), nil},
		{"type", file("store/a.go", "package p", "", "type T int"), at},
		{"type in a group with a comment", file("store/a.go", "package p", "// Types.", "type (T int)"), at},
		{"type with a comment", file("store/a.go", "package p", "// T is.", "type T int"), nil},
		{"method of an interface", file("store/a.go", "package p", "// I is.", "type I interface { M() }"), at},
		{"method of an unexported interface", file("store/a.go", "package p", "", "type i interface { M() }"), nil},
		{"constant", file("store/a.go", "package p", "", "const C = 1"), at},
		{"second constant of a group", file("store/a.go", "package p", "const ( A = 1 // A is.", "B = 2 )"), at},
		{"constants in a group with a comment", file("store/a.go", "package p", "// Numbers.", "const ( A = 1; B = 2 )"), nil},
		{"variable", file("store/a.go", "package p", "", "var a, V = 1, 2"), at},
		{"variable with a comment", file("store/a.go", "package p", "", "var V = 1 // V is."), nil},
		{"test", file("store/a_test.go", "package p", "", "func F() {}"), nil},
		{"program", file("cmd/x/a.go", "package main", "", "func F() {}"), nil},
	})
}

func TestLengthRule(t *testing.T) {
	t.Parallel()
	lines := func(n int) map[string]string {
		return map[string]string{"store/a.go": "package p\n" + strings.Repeat("\n", n-1)}
	}
	runSamples(t, checkLength, []sample{
		{"at the limit", lines(maxLines), nil},
		{"one more", lines(maxLines + 1), []string{fmt.Sprintf("store/a.go:%d", maxLines+1)}},
		{"one more, without an end", file("store/a.go", "package p"+strings.Repeat("\n", maxLines)+"// end"), []string{fmt.Sprintf("store/a.go:%d", maxLines+1)}},
	})
}

func TestWordRule(t *testing.T) {
	t.Parallel()
	at := []string{"store/a.go:2"}
	runSamples(t, checkWords, []sample{
		{"in a comment", file("store/a.go", "package p", "// A todo is."), at},
		{"in a string", file("store/a.go", "package p", `var s = "the todo"`), at},
		{"in capitals", file("store/a.go", "package p", "// TODO: later."), at},
		{"as a mark", file("store/a.go", "package p", "// fixme"), at},
		{"as a name", file("store/a.go", "package p", "var Todo int"), at},
		{"twice in a line", file("store/a.go", "package p", "// todo, todo"), []string{"store/a.go:2", "store/a.go:2"}},
		{"within another word", file("store/a.go", "package p", "// Mastodons, and a todolike thing."), nil},
		{"in a test", file("store/a_test.go", "package p", "// todo"), []string{"store/a_test.go:2"}},
		{"in this package", file("internal/tidy/a.go", "package p", "// todo"), nil},
	})
}

func TestPackageCommentRule(t *testing.T) {
	t.Parallel()
	pkg := func(last, lastText string) map[string]string {
		return map[string]string{
			"store/a.go": "package p\n", "store/b.go": "package p\n", "store/c.go": "package p\n", last: lastText,
		}
	}
	small := map[string]string{"store/a.go": "package p\n", "store/b.go": "package p\n", "store/c.go": "package p\n"}
	runSamples(t, checkPackageComments, []sample{
		{"three files", small, nil},
		{"three files and a test", pkg("store/d_test.go", "package p\n"), nil},
		{"four files", pkg("store/d.go", "package p\n"), []string{"store/a.go:1"}},
		{"four files, one with a comment", pkg("store/d.go", "// Package p is.\npackage p\n"), nil},
		{"four files, one called doc.go", pkg("store/doc.go", "package p\n"), nil},
		{"four files, in two packages", pkg("cmd/d.go", "package p\n"), nil},
	})
}
