// Package storetest is the suite that every backend passes. A backend's test says
//
//	storetest.Run(t, func(t testing.TB) *storetest.Backend { … })
//
// and gets one subtest for each rule of the contract, named by the rule. RunModel
// compares the backend with the model, memstore, under random operations. RunKilled kills
// a real process that works on the store, again and again.
package storetest

import (
	"testing"
	"time"

	"github.com/abidehq/abide/store"
)

// Backend is an open, empty store under test, and the world around it.
type Backend struct {
	Store store.Store

	// Advance lets d pass by the store's clock, which must stand still otherwise. A
	// backend whose clock is that of a server gives its tests a way to set it.
	Advance func(d time.Duration)

	// SetClock sets the store's clock ahead or back by d, as an operator does: unlike with
	// Advance, no time passes. It is nil if that is impossible.
	SetClock func(by time.Duration)

	// Reopen closes the store as if its process had been killed, and replaces Store
	// by the same store opened again, by what counts as another process. It is nil
	// for a store that does not outlive its process.
	Reopen func()

	// Open opens the store a second time, beside Store, by what counts as another
	// process, so that the suite can see who is kept out by [store.Portable.Exclude]. The
	// suite closes what it opens. It is nil if that is impossible: for a store in memory,
	// which is of one process.
	Open func() (store.Store, error)

	// Apart reports whether the store keeps two tenants in different places, so that a commit
	// over both is refused with [store.ErrTooLarge]. It is nil for a store whose commits may
	// span all tenants.
	Apart func(a, b string) bool

	// Unhinted says that processes do not tell each other of what they commit, and find it by
	// polling, within a second by the store's clock.
	Unhinted bool
}

// Factory returns a new backend with an empty store, and closes it with t.Cleanup.
type Factory func(t testing.TB) *Backend
