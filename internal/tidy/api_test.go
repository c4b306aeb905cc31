package tidy

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files of the folder api anew")

// frozen are the packages whose API changes only on purpose: each has a file in the folder api
// with its declarations.
var frozen = map[string]string{
	"abide": ".", "abidetest": "abidetest", "action": "action", "bus": "bus", "history": "history", "remote": "remote", "store": "store", "timer": "timer",
}

// TestTheAPIChangesOnPurpose compares the declarations of the frozen packages with the folder
// api. After a change that is meant: go test ./internal/tidy -run API -update.
func TestTheAPIChangesOnPurpose(t *testing.T) {
	t.Parallel()
	for name, dir := range frozen {
		file := filepath.Join(root(t), "api", name+".txt")
		got := declarations(goCommand(t, "doc", "-all", "./"+dir))
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil { //nolint:gosec // it is part of the source
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got == string(want) {
			continue
		}
		for _, line := range missing(string(want), got) {
			t.Errorf("api/%s.txt: removed or changed: %s", name, line)
		}
		for _, line := range missing(got, string(want)) {
			t.Errorf("api/%s.txt: added or changed: %s", name, line)
		}
		if !t.Failed() {
			t.Errorf("api/%s.txt: the order of declarations has changed", name)
		}
	}
}

// TestDeclarations: comments are left out, and nothing else is.
func TestDeclarations(t *testing.T) {
	t.Parallel()
	const doc = "package a // import \"a\"\n\nPackage a does things.\n\nTYPES\n\ntype T struct {\n\t// N is a number.\n\tN int // of things\n\n\tU = \"http://a\"\n}\n" +
		"    T is a type.\n\n        example()\n\nfunc (t T) M() error\n    M does.\n\n"
	const want = "TYPES\ntype T struct {\n\tN int\n\tU = \"http://a\"\n}\nfunc (t T) M() error\n"
	if got := declarations(doc); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// comment is the comment at the end of a line: not the slashes of a URL.
var comment = regexp.MustCompile(`(^|\s)//.*`)

// declarations returns what `go doc -all` prints of a package, without comments and empty lines.
func declarations(doc string) string {
	var b strings.Builder
	begun := false
	for line := range strings.Lines(doc) {
		line = strings.TrimRight(line, "\n")
		begun = begun || line != "" && line == strings.ToUpper(line) && !strings.HasPrefix(line, " ")
		code := strings.TrimRight(comment.ReplaceAllString(line, ""), " \t")
		if begun && code != "" && !strings.HasPrefix(line, "    ") {
			b.WriteString(code + "\n")
		}
	}
	return b.String()
}

// missing returns the lines of a text that another one does not have.
func missing(text, other string) []string {
	have := map[string]bool{}
	for line := range strings.Lines(other) {
		have[line] = true
	}
	var lines []string
	for line := range strings.Lines(text) {
		if !have[line] {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
