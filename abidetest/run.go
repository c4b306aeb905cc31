package abidetest

import (
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

// Run runs f in a bubble of package testing/synctest, with an environment that has its own
// store, engine and time. The t of f is to be used within f, and not that of the caller; it
// has neither Run nor Parallel. Tests that call Run may run in parallel to each other.
//
// When f is done the engine is closed, and all that ran in it is replayed: an instance
// whose code does not do what it did makes the test fail.
func Run(t *testing.T, f func(t *testing.T, env *Env)) {
	t.Helper()
	bubble := ""
	defer func() {
		t.Helper()
		v := recover()
		if v == nil {
			return
		}
		err, ok := v.(error)
		if !ok || !strings.HasPrefix(err.Error(), "deadlock:") {
			panic(v)
		}
		t.Fatalf("abidetest: something in this test waits for what will never come: code that blocks outside of Abide, "+
			"in an orchestration, an activity, a stub or the test itself (%v):\n%s", err, stacks(bubble))
	}()
	synctest.Test(t, func(t *testing.T) {
		bubble = bubbleOf()
		env := newEnv(t)
		t.Cleanup(env.close)
		f(t, env)
	})
}

var inBubble = regexp.MustCompile(`^goroutine \d+ \[[^\]]*(synctest bubble \d+)\]`)

// bubbleOf returns what the stacks of the goroutines of this bubble are marked with.
func bubbleOf() string {
	buf := make([]byte, 256)
	if m := inBubble.FindSubmatch(buf[:runtime.Stack(buf, false)]); m != nil {
		return string(m[1])
	}
	return "synctest bubble"
}

// maxStacks bounds how many stacks are shown.
const maxStacks = 10

// stacks returns where the goroutines of a bubble wait, down to the lines of Abide.
func stacks(bubble string) string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var found []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		header, frames, _ := strings.Cut(stack, "\n")
		if !strings.HasSuffix(header, bubble+"]:") || strings.Contains(header, "[coroutine") {
			continue // it is of another test, or waits for Abide
		}
		if own := ownFrame.FindStringIndex(frames); own != nil {
			frames = frames[:own[0]]
		}
		if frames != "" && len(found) < maxStacks {
			found = append(found, header+"\n"+strings.TrimSpace(frames))
		}
	}
	return strings.Join(found, "\n\n")
}

// ownFrame begins what means nothing to who wrote the test.
var ownFrame = regexp.MustCompile(`(?m)^(github\.com/abidehq/abide(/internal/\w+|/abidetest)?\.|testing[./]|sync\.runtime_SemacquireWaitGroup)`)
