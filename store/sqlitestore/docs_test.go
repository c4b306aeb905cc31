package sqlitestore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocs runs the queries of the documentation, and looks whether it names the columns
// that the views have.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "sqlite.md"))
	if err != nil {
		t.Fatal(err)
	}
	path := newPath(t)
	openAt(t, path)
	queries := 0
	for i, part := range strings.Split(string(text), "```") {
		block, ok := strings.CutPrefix(part, "sql\n")
		if i%2 == 0 || !ok {
			continue
		}
		for query := range strings.SplitSeq(strings.TrimSpace(block), ";\n") {
			table(t, path, strings.TrimSuffix(query, ";"))
			queries++
		}
	}
	if queries < 9 {
		t.Errorf("only %d queries were found", queries)
	}
	c, err := openReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close() //nolint:errcheck // it is not what the test is about
	for _, v := range views {
		columns, err := c.columns(v[0])
		if err != nil {
			t.Fatal(err)
		}
		row := "| `" + v[0] + "` | "
		_, rest, _ := strings.Cut(string(text), row)
		line, _, _ := strings.Cut(rest, "\n")
		for _, column := range columns {
			if !strings.Contains(line, column) {
				t.Errorf("the documentation of view %s does not name column %s", v[0], column)
			}
		}
	}
}
