package engine

import (
	"runtime"
	"strings"
)

// WhereBlocked returns where code of an orchestration waits for something that is not
// Abide's, as far as the stacks of this process tell: of each goroutine that runs such
// code, the lines down to Abide's own.
func WhereBlocked() string {
	var found []string
	for stack := range strings.SplitSeq(allStacks(), "\n\n") {
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

// maxStacks is how much of the stacks of a process is looked at, in bytes.
const maxStacks = 64 << 20

// allStacks returns the stacks of all goroutines. A process with thousands of them has megabytes.
func allStacks() string {
	for size := 1 << 20; ; size *= 4 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size || size >= maxStacks {
			return string(buf[:n])
		}
	}
}
