package engine

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/abidehq/abide/history"
)

// found is a discovery to which names are added.
type found struct {
	mu                           sync.Mutex
	routes, activities, entities []string
	changed                      chan struct{}
}

func (f *found) Names() (Found, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Found{Routes: slices.Clone(f.routes), Activities: slices.Clone(f.activities), Entities: slices.Clone(f.entities)}, f.changed
}

func (f *found) add(route, activity string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if route != "" {
		f.routes = append(f.routes, route)
	}
	if activity != "" {
		f.activities = append(f.activities, activity)
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// TestNamesThatAreFound: an engine claims orchestrations and activities from the moment at which they are found, says
// so among the workers, and its instances say what runs them.
func TestNamesThatAreFound(t *testing.T) {
	inBubble(t, func(r *rig) {
		names := &found{changed: make(chan struct{})}
		r.flow("hello", calling(history.Activity{}))
		r.serve(named("finder"), func(c *Config) {
			c.Routes, c.Discovery, c.Runtime = nil, names, "JavaScript 1.2.3"
			c.Discovered = func(_ context.Context, t *Task) ([]byte, *history.Failure) { return []byte(`"` + t.Name + `"`), nil }
		})
		r.begin("a", "hello", "1")
		r.pass(0)
		if got := r.info("a").Status; got != Pending {
			t.Errorf("before its name was found the instance is %s", got)
		}
		names.add("hello", "")
		r.until("a", Running)
		r.pass(0)
		if got := r.info("a").Runtime; got != "JavaScript 1.2.3" {
			t.Errorf("the runtime is %q", got)
		}
		names.add("", "act")
		if got := r.result("a"); got != `"act"` {
			t.Errorf("the result is %s", got)
		}
		r.pass(0)
		w := r.workers()[0]
		if !slices.Equal(w.Routes, []string{"hello"}) || !slices.Equal(w.Activities, []string{"act"}) {
			t.Errorf("the worker serves %v and %v", w.Routes, w.Activities)
		}
	})
}
