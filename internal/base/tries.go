package base

import (
	"context"
	"time"
)

// Tries is how often something is tried that meets what others do: each time one of them
// has succeeded, and in between there is a pause, since what they did may not be seen
// before it is on disk.
const Tries = 100

// Retry calls f until it returns no error that again says is worth another try, at most
// [Tries] times.
func Retry(ctx context.Context, clock Clock, again func(error) bool, f func() error) error {
	pause := Pause{Clock: clock, Least: time.Millisecond, Most: 100 * time.Millisecond}
	for try := 1; ; try++ {
		err := f()
		if err == nil || !again(err) || try == Tries || pause.Sleep(ctx) != nil {
			return err
		}
	}
}
