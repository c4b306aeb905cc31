package backoff

import (
	"context"

	"github.com/abidehq/abide/internal/base"
)

// Tries limits how often a read-modify-write is tried that meets conflicts. Each conflict
// means that another writer has succeeded, so a caller that meets this limit is starved and
// not stuck.
const Tries = 100

// Retry calls f until it returns nil or an error for which again is false, at most [Tries]
// times, with a pause of [Contention] in between. It returns the last error of f.
func Retry(ctx context.Context, clock base.Clock, again func(error) bool, f func() error) error {
	pause := Contention(clock)
	for try := 1; ; try++ {
		err := f()
		if err == nil || !again(err) || try == Tries || pause.Sleep(ctx) != nil {
			return err
		}
	}
}
