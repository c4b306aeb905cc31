package testenv

import (
	"fmt"
	"runtime"
	"testing"
)

// critic is a test that may fail, and that nobody hears of.
type critic struct {
	testing.TB
	said string
}

// Helper has nothing to mark.
func (*critic) Helper() {}

// Fatal ends the test.
func (c *critic) Fatal(args ...any) {
	c.said = fmt.Sprint(args...)
	runtime.Goexit()
}

// Fatalf ends the test.
func (c *critic) Fatalf(format string, args ...any) {
	c.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// refused returns why a test was ended, or nothing if it was not.
func refused(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	c := &critic{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(c)
	}()
	<-done
	return c.said
}
