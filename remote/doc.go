// Package remote talks to a server of Abide as if what it serves were in this process.
package remote
