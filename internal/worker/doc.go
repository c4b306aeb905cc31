// Package worker is the worker's end of a session with a server: it runs the turns and the activities that
// the server sends, and sends back what came of them.
//
// It owns no durable state and makes no decision that another worker could not make as well: the server has
// the instances, their leases and histories. When a session ends, all that it ran ends with it; the server
// has others do it.
package worker
