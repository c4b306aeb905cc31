package bench

import (
	"context"
	"sync"
)

// crew is a group of goroutines that work on one thing: the first error ends it for
// all of them.
type crew struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

func newCrew(ctx context.Context) *crew {
	c := &crew{}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

// do runs f in a goroutine of its own. An error of f is the crew's.
func (c *crew) do(f func(ctx context.Context) error) {
	c.wg.Go(func() {
		if err := f(c.ctx); err != nil {
			c.cancel(err)
		}
	})
}

// wait returns when all are done: the first error, or that of the context that the
// crew was made with.
func (c *crew) wait() error {
	c.wg.Wait()
	err := context.Cause(c.ctx)
	c.cancel(nil)
	return err
}
