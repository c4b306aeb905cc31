package engine

import (
	"sync"
	"time"

	"github.com/abidehq/abide/internal/base"
)

// An orchestration or activity that no worker serves waits, and that is easily a mistake: a name that
// was not registered, a version that was removed too early. An engine looks for such names when it has
// started, and soon after its code schedules what this process does not serve, and logs each once.
//
// A look reads the records of all workers. The engines of workers over the network, of which a server may have a
// thousand, therefore do not look themselves: they ask the engine of the server ([Engine.Observed]), which looks
// once in unservedAfter, however many ask.

const (
	// unservedAfter is how long an engine waits before it looks: a worker may be starting.
	unservedAfter = 2 * time.Second

	// unservedAgain is how long it does not log the same name again.
	unservedAgain = time.Hour
)

// unserved remembers what was logged, and asks for a look.
type unserved struct {
	mu     sync.Mutex
	logged map[[3]string]time.Time // by queue, route and build
	wake   chan struct{}           // capacity 1; that of another engine which looks for this one, or its own
}

// ask asks for a look.
func (u *unserved) ask() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// suspectUnserved asks for a look if this process does not serve a name. The queue is that of turns, of
// activities or of entities.
func (e *Engine) suspectUnserved(queue, route string) {
	switch queue {
	case queueTurns:
		if e.Serves(route) {
			return
		}
	case QueueActivities:
		if e.runs(route) {
			return
		}
	case QueueEntities:
		if e.operates(route) {
			return
		}
	}
	e.unserved.ask()
}

// serveUnserved logs what no worker serves, until the engine is closed.
func (e *Engine) serveUnserved() {
	for e.claiming.Err() == nil {
		_ = base.Sleep(e.claiming, e.clock, unservedAfter)
		if e.claiming.Err() != nil {
			return
		}
		e.logUnserved()
		select {
		case <-e.claiming.Done():
		case <-e.unserved.wake:
		}
	}
}

// logUnserved logs what no worker serves and was not logged lately.
func (e *Engine) logUnserved() {
	list, err := e.Unserved(e.claiming)
	if err != nil {
		return // the outage of the store is logged
	}
	now := e.clock.Now()
	u := &e.unserved
	for _, r := range list {
		key := [3]string{r.Queue, r.Route, r.Build}
		u.mu.Lock()
		again := now.Sub(u.logged[key]) >= unservedAgain
		if again {
			u.logged[key] = now
		}
		u.mu.Unlock()
		if !again {
			continue
		}
		what := map[string]string{queueTurns: "orchestration", QueueActivities: "activity", QueueActions: "target", QueueEntities: "entity"}[r.Queue]
		e.log.Warn("no live worker serves it, its work waits", what, r.Route, "build", r.Build, "pending", r.Pending, "schedules", r.Schedules)
	}
}
