// Package demo fills a server that was just started with examples: a few
// orchestrations, timers of two tenants, schedules and a hook, at a modest pace, so that
// there is something to see on the page within a minute.
//
// All that it makes has a name that begins with demo-, and belongs to tenants of its own
// or to none, so that it can be told from what is real. It leaves the outside world alone.
package demo
