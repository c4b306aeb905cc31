// Package demo brings a server to life for somebody who has just started it: a few
// orchestrations, timers of two tenants, schedules and a hook, at a modest pace, so that
// there is something to see on the page within a minute.
//
// All that it makes has a name that begins with demo-, and belongs to tenants of its own
// or to none, so that it can be told from what is real. It leaves the outside world alone.
package demo
