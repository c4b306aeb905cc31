// Package serve has the commands that run a server or a loop, and those about their
// configuration and health.
package serve
