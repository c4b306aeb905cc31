// Package daemon is the process behind abide serve: it assembles an engine, timers,
// actions, sinks, targets and hooks as a configuration says, lets people and programs in,
// and comes to an end in good order.
//
// When it is told to stop, it says so first: /readyz fails, and a load balancer
// looks elsewhere. Nothing new is claimed any more; requests, activities and actions that
// are under way have their time to end. Then it is gone. What was not finished goes on
// wherever the store is opened next.
package daemon
