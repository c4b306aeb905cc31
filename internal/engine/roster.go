package engine

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/abidehq/abide/internal/roster"
	"github.com/abidehq/abide/store"
)

// Worker is a process that serves orchestrations, activities or targets of actions.
type Worker = roster.Worker

// WorkerDraining is the state of a worker that claims nothing any more.
const WorkerDraining = roster.Draining

// WorkerDrained is the state of a worker that was drained and has nothing under way.
const WorkerDrained = roster.Drained

// QueueActions is the queue of actions.
const QueueActions = roster.QueueActions

// newRoster returns nil if the process is not to be seen.
func newRoster(e *Engine) *roster.Publisher {
	if e.cfg.WorkerName == "" {
		return nil
	}
	here := e.cfg.Elsewhere
	if here == nil {
		here = &Worker{}
	}
	return roster.Publish(roster.Config{
		Store: e.store, Clock: e.clock, Logger: e.log, Elsewhere: e.cfg.Elsewhere != nil,
		Busy: func() (turns, running, cached int) {
			return int(e.turning.running.Load()), int(e.acting.running.Load()), e.cache.len()
		},
		Drain: e.drain,
		Names: func() (routes, activities, entities []string) {
			n := e.served.Load()
			return n.list, n.tasks, n.objects
		},
		Worker: Worker{
			ID: e.workerID, Name: e.cfg.WorkerName, Build: e.cfg.Build, Host: here.Host, PID: here.PID, Version: here.Version,
			Routes: e.served.Load().list, Activities: e.served.Load().tasks, Entities: e.served.Load().objects,
			Pinned: e.cfg.pinned(), Tenants: slices.Sorted(slices.Values(e.cfg.Tenants)),
			TurnSlots: e.cfg.MaxTurns, RunSlots: e.cfg.MaxActivities, State: here.State, Run: here.Run,
		},
	})
}

// liveWorkers returns the workers that are alive at the store's time and serve.
func liveWorkers(ctx context.Context, s store.Store, now time.Time) ([]Worker, error) {
	return roster.LiveServing(ctx, s, now)
}

// Workers returns the workers that are alive, in the order in which they were seen, and
// removes the records of those that have long gone.
func (c *Client) Workers(ctx context.Context) ([]Worker, error) {
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return nil, wrap("workers", err)
	}
	workers, err := roster.Live(ctx, c.store, stats.Now)
	return workers, wrap("workers", err)
}

// Unserved is a route that no live worker serves.
type Unserved struct {
	store.RouteStats // whose route is that of the orchestration

	// Build is the one that the instances of the orchestration are pinned to, if they are.
	Build string

	// Schedules is the number of active schedules that make actions for the route, a target.
	Schedules int
}

// Unserved returns the routes of orchestrations, the activities and the entities for which messages are due, the
// targets of actions for which messages wait, and the targets of active schedules, which no live worker serves. The
// caller serves the routes and activities that it names.
func (c *Client) Unserved(ctx context.Context, routes, activities []string) ([]Unserved, error) {
	return c.unserved(ctx, Worker{Routes: routes, Activities: activities})
}

// unserved is Unserved for a caller that serves what a worker does.
func (c *Client) unserved(ctx context.Context, here Worker) ([]Unserved, error) {
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return nil, wrap("unserved", err)
	}
	workers, err := roster.LiveServing(ctx, c.store, stats.Now)
	if err != nil {
		return nil, wrap("unserved", err)
	}
	scheduled, err := roster.Scheduled(ctx, c.store)
	if err != nil {
		return nil, wrap("unserved", err)
	}
	if !c.drained.Load() {
		workers = append(workers, here)
	}
	served := map[[2]string]bool{{queueTurns, routeParked}: true, {queueTurns, routeLimited}: true, {queueTurns, routeEnded}: true, {queueTurns, ""}: true}
	for i := range workers {
		for queue, names := range map[string][]string{
			queueTurns: workers[i].Routes, QueueActivities: workers[i].Activities, QueueActions: workers[i].Targets,
			QueueEntities: workers[i].Entities,
		} {
			for _, name := range names {
				served[[2]string{queue, name}] = true
			}
		}
		for _, route := range workers[i].Pinned {
			served[[2]string{queueTurns, pinnedRoute(route, workers[i].Build)}] = true
		}
	}
	var unserved []Unserved
	for _, r := range stats.Routes {
		due := r.Ready > 0 && (r.Queue == queueTurns || r.Queue == QueueActivities || r.Queue == QueueEntities)
		if !due && r.Queue != QueueActions || served[[2]string{r.Queue, r.Route}] {
			continue
		}
		u := Unserved{RouteStats: r}
		if r.Queue == queueTurns {
			u.Route, u.Build = CutBuild(r.Route)
		}
		if r.Queue == QueueActions {
			u.Schedules = scheduled[r.Route]
			delete(scheduled, r.Route)
		}
		unserved = append(unserved, u)
	}
	for _, target := range slices.Sorted(maps.Keys(scheduled)) {
		if !served[[2]string{QueueActions, target}] {
			unserved = append(unserved, Unserved{RouteStats: store.RouteStats{Queue: QueueActions, Route: target}, Schedules: scheduled[target]})
		}
	}
	return unserved, nil
}

// Unserved returns what no worker serves that is alive, and not this engine either.
func (e *Engine) Unserved(ctx context.Context) ([]Unserved, error) {
	n := e.served.Load()
	return e.Client.unserved(ctx, Worker{Routes: e.Routes(), Activities: n.tasks, Entities: n.objects})
}

// Routes returns the routes of keys whose turns the engine claims, unless its build is drained.
func (e *Engine) Routes() []string {
	routes := slices.Clone(e.served.Load().list)
	for _, route := range e.cfg.pinned() {
		routes = append(routes, pinnedRoute(route, e.cfg.Build))
	}
	return routes
}
