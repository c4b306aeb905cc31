package tidy

import (
	"strings"
	"testing"
)

// guides are pages whose Go code is that of a file which is compiled.
var guides = map[string]string{"docs/durable-timers.md": "example_timer_test.go", "docs/limits.md": "abidetest/example_limit_test.go"}

// TestGuidesShowWhatIsCompiled: each block of Go on the page is in the file, as it is or one tab
// further in.
func TestGuidesShowWhatIsCompiled(t *testing.T) {
	t.Parallel()
	for page, file := range guides {
		blocks := goBlocks(read(t, page))
		if len(blocks) == 0 {
			t.Errorf("%s has no blocks of Go", page)
		}
		source := read(t, file)
		for _, block := range blocks {
			if !strings.Contains(source, block) && !strings.Contains(source, indent(block)) {
				t.Errorf("%s does not contain this block of %s:\n%s", file, page, block)
			}
		}
	}
}

// goBlocks returns the blocks of Go in a page.
func goBlocks(text string) []string {
	var blocks []string
	for _, part := range strings.Split(text, "\n```go\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```\n")
		blocks = append(blocks, block+"\n")
	}
	return blocks
}

// indent puts a tab before each line that is not empty.
func indent(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			lines[i] = "\t" + line
		}
	}
	return strings.Join(lines, "")
}
