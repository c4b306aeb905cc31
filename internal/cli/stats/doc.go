// Package stats has the command that counts what a store holds.
package stats
