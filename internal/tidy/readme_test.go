package tidy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shown are the programs that the README contains.
var shown = []string{"examples/crash/main.go"}

func TestReadmeShowsWhatIsCompiled(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	for _, name := range shown {
		if !shows(readme, read(t, name)) {
			t.Errorf("README.md does not contain %s as it is: copy it again, between ```go and ```", name)
		}
	}
}

func TestReadmeRuleFindsDifferences(t *testing.T) {
	t.Parallel()
	const program = "package main\n\nfunc main() {}\n"
	tests := []struct {
		name   string
		readme string
		want   bool
	}{
		{"same", "# Abide\n\n```go\n" + program + "```\n", true},
		{"changed", "```go\npackage main\n\nfunc main() { return }\n```\n", false},
		{"a part", "```go\npackage main\n\nfunc main()\n```\n", false},
		{"more", "```go\n" + program + "// more\n```\n", false},
		{"absent", "# Abide\n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := shows(tt.readme, program); got != tt.want {
				t.Errorf("shows = %v, want %v", got, tt.want)
			}
		})
	}
}

// shows reports whether a text contains a whole program as a block of Go.
func shows(text, program string) bool {
	return strings.Contains(text, "\n```go\n"+program+"```\n") || strings.HasPrefix(text, "```go\n"+program+"```\n")
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
