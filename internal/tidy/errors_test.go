package tidy

import (
	"regexp"
	"strings"
	"testing"
)

// failures are where codes, reasons and types of errors are in the source: the first group of the
// expression is what docs/errors.md must have.
var failures = map[string]*regexp.Regexp{
	"server/api/problem.go":      regexp.MustCompile(`\bCode[A-Z]\w* *= "([^"]+)"`),
	"server/api/instance.go":     regexp.MustCompile(`\bCode[A-Z]\w* *= "([^"]+)"`),
	"action/hook/answer.go":      regexp.MustCompile(`Code: "([^"]+)"`),
	"action/begin.go":            regexp.MustCompile(`store\.Quarantine\([^"]*"([^"]+)"`),
	"store/quarantine.go":        regexp.MustCompile(`\bReason[A-Z]\w* *= "([^"]+)"`),
	"bus/outbox/outcome.go":      regexp.MustCompile(`\bReason[A-Z]\w* *= "([^"]+)"`),
	"internal/engine/turn.go":    regexp.MustCompile(`(?:\bReason[A-Z]\w* *= |reason: fmt\.Sprintf\()"([a-z][a-z -]*)`),
	"internal/engine/deploy.go":  regexp.MustCompile(`\bcause[A-Z]\w* *= "([^"]+)"`),
	"internal/engine/later.go":   regexp.MustCompile(`\bcause[A-Z]\w* *= "([^"]+)"`),
	"internal/engine/find.go":    regexp.MustCompile(`(?:stallf\(|reason: fmt\.Sprintf\()"([a-z][a-z ]*)`),
	"internal/engine/execute.go": regexp.MustCompile(`stallf\("([a-z: ]*[a-z])`),
	"internal/engine/decide.go":  regexp.MustCompile(`stallf\("([a-z: ]*[a-z])`),
	"internal/engine/errors.go":  regexp.MustCompile(`\bType[A-Z]\w* *= "([^"]+)"`),
	"errors.go":                  regexp.MustCompile(`\n\t(Err[A-Z]\w*) *= `),
}

// TestErrorsAreDocumented: docs/errors.md has each code, reason and type of error of the source.
func TestErrorsAreDocumented(t *testing.T) {
	t.Parallel()
	document := read(t, "docs/errors.md")
	for file, expression := range failures {
		found := expression.FindAllStringSubmatch(read(t, file), -1)
		if len(found) == 0 {
			t.Errorf("%s has nothing that matches %s", file, expression)
		}
		for _, m := range found {
			if !strings.Contains(document, m[1]) {
				t.Errorf("docs/errors.md does not explain %q of %s", m[1], file)
			}
		}
	}
}
