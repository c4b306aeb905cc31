// Package api has what goes over the wire between a server and its clients, as JSON:
// times as RFC 3339 has them, durations as "1m30s", names in snake case.
package api
