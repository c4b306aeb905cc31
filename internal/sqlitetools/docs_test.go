package sqlitetools

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
	openStore(t, path, nil, quiet())
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
	for _, v := range views {
		columns := strings.Fields(table(t, path, "SELECT name FROM pragma_table_info('"+v.Name+"')"))
		row := "| `" + v.Name + "` | "
		_, rest, _ := strings.Cut(string(text), row)
		line, _, _ := strings.Cut(rest, "\n")
		for _, column := range columns {
			if !strings.Contains(line, column) {
				t.Errorf("the documentation of view %s does not name column %s", v.Name, column)
			}
		}
	}
}
