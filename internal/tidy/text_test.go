package tidy

import (
	"go/ast"
	"regexp"
	"strings"
)

// maxLines is the length from which on a file is two files.
const maxLines = 700

// checkLength finds files that are too long.
func checkLength(tree []*source) []finding {
	var found []finding
	for _, s := range tree {
		if ast.IsGenerated(s.file) {
			continue
		}
		lines := strings.Count(s.text, "\n")
		if !strings.HasSuffix(s.text, "\n") {
			lines++
		}
		if lines > maxLines {
			found = append(found, s.atLine(maxLines+1, "the file has %d lines, at most %d are allowed", lines, maxLines))
		}
	}
	return found
}

// unwanted are marks of work that was put off: that belongs in the list of issues.
var unwanted = regexp.MustCompile(`(?i)\b(todo|fixme)\b`)

// checkWords finds unwanted words, anywhere in a file but in this package, which
// must name them.
func checkWords(tree []*source) []finding {
	var found []finding
	for _, s := range tree {
		if under(s.path, "internal/tidy") {
			continue
		}
		line := 0
		for text := range strings.Lines(s.text) {
			line++
			for _, word := range unwanted.FindAllString(text, -1) {
				found = append(found, s.atLine(line, "the word %q is not used here", word))
			}
		}
	}
	return found
}
