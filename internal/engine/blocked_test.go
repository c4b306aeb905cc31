package engine

import (
	"strings"
	"testing"
)

// TestStacksOfManyGoroutines: the stack of one goroutine among thousands is found.
func TestStacksOfManyGoroutines(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	defer close(stop)
	const n = 20_000 // more than a megabyte of stacks
	begun := make(chan struct{}, n)
	for range n {
		go func() {
			begun <- struct{}{}
			<-stop
		}()
	}
	for range n {
		<-begun
	}
	if got := strings.Count(allStacks(), "TestStacksOfManyGoroutines.func"); got < n {
		t.Errorf("found the stacks of %d goroutines, expected %d", got, n)
	}
}
