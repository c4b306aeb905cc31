// Package concurrency has goroutines and channels in orchestration code.
package concurrency

import (
	"context"
	"runtime"
	"sync"

	"github.com/abidehq/abide"
)

var Fan = abide.NewOrchestration("fan", fan)

func fan(ctx abide.Context, in chan int) (int, error) {
	ch := make(chan int) // want `a channel depends on the order in which goroutines run: use abide.Go, abide.Select and futures`
	go func() {          // want `a goroutine runs when the scheduler wants it to: use abide.Go`
		ch <- 1 // want `sending to a channel depends on`
	}()
	n := <-ch           // want `receiving from a channel depends on`
	for v := range in { // want `receiving from a channel depends on`
		n += v
	}
	select { // want `select chooses among channels at random: use abide.Select`
	case v := <-in:
		n += v
	case ch <- 2:
		close(ch) // want `closing a channel depends on`
	}
	var wg sync.WaitGroup
	wg.Add(1)
	wg.Done()
	wg.Wait()                                          // want `sync.WaitGroup.Wait depends on`
	runtime.Gosched()                                  // want `runtime.Gosched depends on`
	context.AfterFunc(context.Background(), func() {}) // want `context.AfterFunc depends on`

	a := abide.Go(ctx, func(ctx abide.Context) (int, error) { return 1, nil })
	_ = abide.Select(ctx, a)
	_ = make([]int, 3)
	return n, abide.Join(ctx, a)
}
