package engine

import (
	"maps"
	"slices"
	"sync/atomic"
)

// Discovery finds names while the engine runs: those of a program that does not say in advance
// what it serves.
type Discovery interface {
	// Names returns the names that were found, and a channel that is closed when there are others.
	Names() (Found, <-chan struct{})
}

// Found has the names that a [Discovery] has found: the routes of orchestrations, and the names of activities
// and entities.
type Found struct{ Routes, Activities, Entities []string }

// nameSet has the orchestrations, activities and entities that an engine serves. Those of the configuration are there from
// the beginning; those that a [Discovery] has found are added.
type nameSet struct {
	routes     map[string]bool
	activities map[string]bool
	entities   map[string]bool

	list    []string // of routes, in order
	tasks   []string // of activities, in order
	objects []string // of entities, in order

	found    <-chan struct{} // closed when the discovery has others
	replaced chan struct{}   // closed when the engine serves others
}

// served holds the names of an engine. They are replaced, never changed.
type served struct{ atomic.Pointer[nameSet] }

// discover reads the names that the engine serves now.
func (e *Engine) discover() *nameSet {
	n := &nameSet{routes: map[string]bool{}, activities: map[string]bool{}, entities: map[string]bool{}, replaced: make(chan struct{})}
	add := func(to map[string]bool, list []string) {
		for _, name := range list {
			to[name] = true
		}
	}
	add(n.routes, e.cfg.Routes)
	for name := range e.cfg.Activities {
		n.activities[name] = true
	}
	for name := range e.cfg.Entities {
		n.entities[name] = true
	}
	if d := e.cfg.Discovery; d != nil {
		names, changed := d.Names()
		add(n.routes, names.Routes)
		add(n.activities, names.Activities)
		add(n.entities, names.Entities)
		n.found = changed
	}
	n.list, n.tasks, n.objects = slices.Sorted(maps.Keys(n.routes)), slices.Sorted(maps.Keys(n.activities)), slices.Sorted(maps.Keys(n.entities))
	if before := e.served.Swap(n); before != nil {
		close(before.replaced)
	}
	return n
}

// keepNames reads the names again whenever there are others, and publishes them.
func (e *Engine) keepNames() {
	for n := e.served.Load(); ; {
		select {
		case <-n.found:
			n = e.discover()
			e.roster.Report()
		case <-e.claiming.Done():
			return
		}
	}
}

// Serves reports whether the engine runs the orchestration.
func (e *Engine) Serves(route string) bool { return e.served.Load().routes[route] }

// runs reports whether the engine runs the activity.
func (e *Engine) runs(name string) bool { return e.served.Load().activities[name] }

// code returns the function of an activity.
func (e *Engine) code(name string) Activity {
	if run, ok := e.cfg.Activities[name]; ok {
		return run
	}
	return e.cfg.Discovered
}

// operates reports whether the engine runs the operations of the entity with that name.
func (e *Engine) operates(name string) bool { return e.served.Load().entities[name] }

// entityCode returns the function that runs the operations of an entity.
func (e *Engine) entityCode(name string) EntityCode {
	if run, ok := e.cfg.Entities[name]; ok {
		return run
	}
	return e.cfg.DiscoveredEntity
}
