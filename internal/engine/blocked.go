package engine

import (
	"runtime"
	"strings"
)

// whereBlocked returns where code of an orchestration waits for something that is not
// Abide's, as far as the stacks of this process tell: of each goroutine that runs such
// code, the lines down to Abide's own.
func whereBlocked() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var found []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		first, lines, _ := strings.Cut(stack, "\n")
		if strings.Contains(first, "[coroutine") {
			continue // it waits for Abide
		}
		code, _, inside := strings.Cut(lines, "github.com/abidehq/abide/internal/replay.(*Execution)")
		if inside {
			found = append(found, strings.TrimRight(code, "\n"))
		}
	}
	if len(found) == 0 {
		return ""
	}
	return ":\n" + strings.Join(found, "\n\n")
}
