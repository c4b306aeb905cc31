//go:build race

package testenv

// Raced says that the race detector watches, which takes five to ten times as long.
const Raced = true
