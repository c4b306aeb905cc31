// Package faults has tests of the engine through its public API on a store that fails: calls
// that fail or whose outcome is unknown, processes that die, freeze and come back, several engines
// on one store, and random runs of all of these. It has no code of its own.
package faults
