package target

import (
	"context"
	"errors"
	"time"

	"github.com/abidehq/abide"
	"github.com/abidehq/abide/internal/base"
)

// busyPause is how long to wait before an engine is asked again that has too much to do.
const busyPause = time.Second

// patiently calls f until it returns anything but [abide.ErrBusy], which means that nothing was done. The
// action was accepted, and so must not fail because the engine has too much to do; while it waits it
// keeps its place among the actions that run, so that others wait too. It gives up when ctx ends.
func patiently[T any](ctx context.Context, f func() (T, error)) (T, error) {
	for {
		v, err := f()
		if !errors.Is(err, abide.ErrBusy) {
			return v, err
		}
		if ended := base.Sleep(ctx, base.System{}, busyPause); ended != nil {
			return v, ended
		}
	}
}
