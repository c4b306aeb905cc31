package workpool

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// TestPool: functions run side by side, goroutines are kept up to a number, also when functions end their
// goroutine, and end with the pool.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		p := New(done, 3)
		var running sync.WaitGroup
		release, started := make(chan struct{}), make(chan struct{}, 10)
		for range 10 {
			running.Add(1)
			p.Do(func() {
				defer running.Done()
				started <- struct{}{}
				<-release
			})
		}
		for range 10 {
			<-started // all at a time
		}
		close(release)
		running.Wait()
		synctest.Wait()
		if n := p.kept.Load(); n != 3 {
			t.Errorf("%d goroutines are kept, want 3", n)
		}
		for range 3 {
			p.Do(runtime.Goexit)
		}
		synctest.Wait()
		if n := p.kept.Load(); n != 0 {
			t.Errorf("%d goroutines are kept after they have ended", n)
		}
		again := make(chan struct{})
		p.Do(func() { close(again) })
		<-again
		synctest.Wait()
		if n := p.kept.Load(); n != 1 {
			t.Errorf("%d goroutines are kept, want 1", n)
		}
		close(done) // the bubble ends when all goroutines have
	})
}
